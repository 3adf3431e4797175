package network

import (
	"fmt"

	"gotrain/graph"
)

// builder adds the parts of a ResNet to a graph.
type builder struct {
	*graph.Graph
	norm     graph.Norm
	shortcut string // "A" or "B"
}

// layer is a convolution of a block, followed by batch norm.
type layer struct{ out, kernel, stride int }

// resnet returns the logits.
func (b *builder) resnet(x *graph.Tensor, a architecture, classes int) *graph.Tensor {
	stem := layer{a.width, 3, 1}
	if a.imageNet {
		stem = layer{a.width, 7, 2}
	}
	x = b.ReLU("stem.relu", b.convNorm("stem.conv", "stem.bn", x, stem))
	if a.imageNet {
		x = b.MaxPool("stem.pool", x, 3, 2, 1)
	}
	width := a.width
	for s, blocks := range a.blocks {
		for i := range blocks {
			stride := 1
			if s > 0 && i == 0 {
				stride = 2
			}
			layers := []layer{{width, 3, stride}, {width, 3, 1}}
			if a.bottleneck {
				layers = []layer{{width, 1, 1}, {width, 3, stride}, {expansion * width, 1, 1}}
			}
			x = b.block(fmt.Sprintf("stage%d.%d", s+1, i), x, layers, stride)
		}
		width *= 2
	}
	return b.Dense("fc", b.GlobalAveragePool("pool", x), classes)
}

// convNorm is a convolution that keeps the image's size but for its stride, and batch norm.
func (b *builder) convNorm(conv, bn string, x *graph.Tensor, l layer) *graph.Tensor {
	return b.BatchNorm(bn, b.Conv(conv, x, l.out, l.kernel, l.stride, l.kernel/2), b.norm)
}

// block is relu(layers(x) + shortcut(x)), with a ReLU between layers. stride is that of all layers together. The shortcut
// comes first, so that the addition finds it there and is fused into the last layer's batch norm.
func (b *builder) block(name string, x *graph.Tensor, layers []layer, stride int) *graph.Tensor {
	y, shortcut, out := x, x, layers[len(layers)-1].out
	if stride != 1 || out != x.Shape[1] {
		if b.shortcut == "A" {
			shortcut = b.Subsample(name+".shortcut", x, out, stride)
		} else {
			shortcut = b.convNorm(name+".shortcut.conv", name+".shortcut.bn", x, layer{out, 1, stride})
		}
	}
	for i, l := range layers {
		if i > 0 {
			y = b.ReLU(fmt.Sprintf("%s.relu%d", name, i), y)
		}
		y = b.convNorm(fmt.Sprintf("%s.conv%d", name, i+1), fmt.Sprintf("%s.bn%d", name, i+1), y, l)
	}
	return b.ReLU(name+".relu", b.Add(name+".add", y, shortcut))
}
