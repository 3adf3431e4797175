package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gotrain/cpu/reference"
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// convShapes have odd sides, one sample, channels that fill no tile and more than one, every stride and padding that there is, and
// rows and columns that no tap reaches.
var convShapes = []kernels.ConvShape{
	{N: 2, H: 5, W: 7, C: 3, K: 16, Kernel: 3, Stride: 1, Pad: 1},
	{N: 1, H: 9, W: 8, C: 20, K: 33, Kernel: 3, Stride: 2, Pad: 1},
	{N: 2, H: 6, W: 6, C: 16, K: 70, Kernel: 1, Stride: 2, Pad: 0},
	{N: 1, H: 11, W: 9, C: 3, K: 24, Kernel: 7, Stride: 2, Pad: 3},
	{N: 3, H: 4, W: 4, C: 130, K: 9, Kernel: 3, Stride: 1, Pad: 1},
	{N: 1, H: 7, W: 7, C: 40, K: 136, Kernel: 1, Stride: 1, Pad: 0},
	{N: 1, H: 6, W: 5, C: 8, K: 8, Kernel: 3, Stride: 3, Pad: 0},
	{N: 1, H: 5, W: 5, C: 9, K: 7, Kernel: 5, Stride: 1, Pad: 2},
	{N: 3, H: 1, W: 70, C: 2, K: 1, Kernel: 1, Stride: 1, Pad: 0},
}

var maths = []kernels.Math{kernels.FFMA, kernels.TF32, kernels.BF16, kernels.Mixed}

// convCase is a convolution with its operands on the device, and what the reference makes of them.
type convCase struct {
	*device
	kernels.ConvShape
	math      kernels.Math
	within    float64     // relative to the largest
	x, dy     graph.DType // as stored
	operands  map[string]driver.Pointer
	y, dx, dw []float64
	xs, ys    graph.Shape
	packed    driver.Pointer
}

func newConvCase(d *device, c kernels.ConvShape, m kernels.Math) *convCase {
	k := &convCase{device: d, ConvShape: c, math: m, within: 1e-5, operands: map[string]driver.Pointer{}}
	if m == kernels.TF32 || m == kernels.BF16 {
		k.within = 1e-2
	}
	if m == kernels.BF16 {
		k.x = graph.BFloat16
	}
	if m == kernels.BF16 || m == kernels.Mixed {
		k.dy = graph.BFloat16
	}
	k.xs, k.ys = graph.Shape{c.N, c.C, c.H, c.W}, graph.Shape{c.N, c.K, c.OH(), c.OW()}
	r := rand.New(rand.NewPCG(uint64(c.C), uint64(c.K)))
	attr := graph.Attr{Kernel: c.Kernel, Stride: c.Stride, Pad: c.Pad}
	weight, dw := tensor(graph.Float32, c.K, c.C, c.Kernel, c.Kernel), tensor(graph.Float32, c.K, c.C, c.Kernel, c.Kernel)
	x, y, dy, dx := tensor(k.x, k.xs...), tensor(graph.Float32, k.ys...), tensor(k.dy, k.ys...), tensor(k.x, k.xs...)
	values := map[*graph.Tensor][]float64{x: random(r, k.x, k.xs), dy: random(r, k.dy, k.ys), weight: random(r, graph.Float32, weight.Shape)}
	for _, t := range []*graph.Tensor{y, dx, dw} {
		values[t] = make([]float64, t.Shape.Values())
	}
	reference.Run(&graph.Op{Kind: graph.Conv, Attr: attr, In: []*graph.Tensor{x, weight}, Out: []*graph.Tensor{y}}, values)
	reference.Run(&graph.Op{Kind: graph.ConvBackwardData, Attr: attr, In: []*graph.Tensor{weight, dy}, Out: []*graph.Tensor{dx}}, values)
	reference.Run(&graph.Op{Kind: graph.ConvBackwardWeights, Attr: attr, In: []*graph.Tensor{x, dy}, Out: []*graph.Tensor{dw}}, values)
	k.y, k.dx, k.dw = values[y], values[dx], values[dw]
	k.operands["x"], k.operands["dy"] = d.activation(k.x, k.xs, values[x]), d.activation(k.dy, k.ys, values[dy])
	k.operands["weight"] = d.floats(narrow(values[weight]))
	return k
}

// pack packs the weights, behind those of another convolution, since all are packed at once.
func (k *convCase) pack() {
	k.packed = k.room(k.PackedBytes(k.math))
	other := kernels.ConvShape{N: 1, H: 1, W: 1, C: 17, K: 40, Kernel: 1, Stride: 1}
	convs := []kernels.PackedConv{
		{Shape: other, Weights: k.floats(make([]float32, other.C*other.K)), Packed: k.room(other.PackedBytes(k.math))},
		{Shape: k.ConvShape, Weights: k.operands["weight"], Packed: k.packed},
	}
	k.run(k.PackWeights(k.math, convs, k.put(kernels.PackTable(convs))))
}

func TestConvolutionsAndTheirGradients(t *testing.T) {
	d := open(t)
	for _, m := range maths {
		for _, c := range convShapes {
			t.Run(fmt.Sprint(m, " ", c), func(t *testing.T) {
				d := *d
				d.t = t
				k := newConvCase(&d, c, m)
				k.pack()
				if m != kernels.Mixed {
					k.forward(t)
					k.backwardData(t)
				}
				k.backwardWeights(t)
			})
		}
	}
}

func (k *convCase) forward(t *testing.T) {
	launches := func(y driver.Pointer) []driver.Launch {
		return append(k.ConvForwards(k.ConvShape, k.math, k.operands["x"], k.packed, y), k.ConvForward(k.ConvShape, k.math, k.operands["x"], k.packed, y))
	}
	for i := range launches(0) {
		y := k.room(kernels.ActivationBytes(k.ys, graph.Float32))
		launch := launches(y)[i]
		k.run(launch)
		near(t, launch.Function.Name(), k.getActivation(graph.Float32, k.ys, y), k.y, k.within)
	}
}

func (k *convCase) backwardData(t *testing.T) {
	launches := func(dx driver.Pointer) []driver.Launch {
		return append(k.ConvBackwardDatas(k.ConvShape, k.math, k.operands["dy"], k.packed, dx), k.ConvBackwardData(k.ConvShape, k.math, k.operands["dy"], k.packed, dx))
	}
	for i := range launches(0) {
		dx := k.room(kernels.ActivationBytes(k.xs, k.x))
		launch := launches(dx)[i]
		k.run(launch)
		near(t, launch.Function.Name(), k.getActivation(k.x, k.xs, dx), k.dx, k.within)
	}
}

func (k *convCase) backwardWeights(t *testing.T) {
	x, dy := k.operands["x"], k.operands["dy"]
	check := func(what string, scratch int, launches func(dw, scratch driver.Pointer) []driver.Launch) {
		dw := k.room(4 * len(k.dw))
		l := launches(dw, k.room(scratch))
		k.run(l...)
		near(t, what+l[0].Function.Name(), k.getFloats(dw, len(k.dw)), k.dw, k.within)
	}
	check("", k.ScratchBytes(k.math), func(dw, scratch driver.Pointer) []driver.Launch {
		return k.ConvBackwardWeights(k.ConvShape, k.math, x, dy, dw, scratch)
	})
	for i := range k.SplitWeights(k.ConvShape, k.math, x, dy, 0, 0) {
		check("split: ", k.SplitScratch(), func(dw, scratch driver.Pointer) []driver.Launch {
			return k.SplitWeights(k.ConvShape, k.math, x, dy, dw, scratch)[i]
		})
	}
}
