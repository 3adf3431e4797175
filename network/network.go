// Package network builds the forward graph of a ResNet and gives its parameters their first values.
//
// Two forms are built. The CIFAR form is that of section 4.2 of He, Zhang, Ren and Sun, "Deep Residual Learning for
// Image Recognition" (2015): 6n+2 layers, three stages of n basic blocks with 16, 32 and 64 channels. The ImageNet form is
// that of their table 1: a 7x7 stem, max pooling, four stages of basic blocks (18, 34) or bottlenecks (50, 101, 152). A
// bottleneck that halves the image does so in its 3x3 convolution, not in its first 1x1 as in the paper: the variant that
// is commonly called v1.5, half a percent more accurate and what published results and weights mean by ResNet-50 today.
//
// The package holds no other networks, differentiates nothing (package graph does) and computes nothing.
package network

import (
	"fmt"

	"gotrain/configs"
	"gotrain/graph"
)

// Spec is a network for one kind of data.
type Spec struct {
	Config                           configs.Network
	Channels, Height, Width, Classes int         // of the data
	Precision                        graph.DType // of activations: graph.Float32 or graph.BFloat16
}

// Compile builds the network for a number of samples and compiles it. An error names the key, or what in the data does not
// fit.
//
// Parameters and statistics are named after their place, as in stem.conv.weight, stage2.0.bn1.gamma (the first block of
// the second stage), stage2.0.shortcut.bn.runningVar and fc.bias.
func (s Spec) Compile(samples int, o graph.Options) (*graph.Plan, error) {
	arch, err := s.architecture()
	if err != nil {
		return nil, err
	}
	if err := s.check(samples); err != nil {
		return nil, err
	}
	b := &builder{Graph: graph.New(s.Precision), shortcut: s.Config.Shortcut, norm: graph.Norm{
		Epsilon:      s.Config.BatchNorm.Epsilon,
		Update:       s.Config.BatchNorm.RunningUpdate,
		TimeConstant: s.Config.BatchNorm.NormalizationTimeConstant,
		Sync:         s.Config.BatchNorm.Sync,
		Inference:    o.Inference,
	}}
	in := b.Inputs(samples, s.Channels, s.Height, s.Width)
	b.Loss(b.resnet(in.Images, arch, s.Classes), in)
	return graph.Compile(b.Graph, o)
}

func (s Spec) check(samples int) error {
	switch {
	case samples < 1:
		return fmt.Errorf("a plan for %d samples cannot be made: 1 is the least", samples)
	case s.Channels < 1 || s.Height < 1 || s.Width < 1:
		return fmt.Errorf("images of %d channels, %d rows and %d columns cannot be trained on: each has to be 1 at least", s.Channels, s.Height, s.Width)
	case s.Classes < 2:
		return fmt.Errorf("the data has %d classes: a classifier needs 2 at least", s.Classes)
	case s.Config.Shortcut != "A" && s.Config.Shortcut != "B":
		return fmt.Errorf("network.shortcut: %q is unknown; use A (zero-padded identity) or B (1x1 projection)", s.Config.Shortcut)
	case s.Precision != graph.Float32 && s.Precision != graph.BFloat16:
		return fmt.Errorf("activations cannot be %s: use float32 or bfloat16", s.Precision)
	}
	return nil
}

// architecture is the arrangement of a ResNet's blocks.
type architecture struct {
	imageNet   bool // the stem: 7x7 convolution and max pooling, or one 3x3 convolution
	bottleneck bool
	width      int   // channels of the first stage's 3x3 convolutions; each stage doubles them
	blocks     []int // of each stage
}

// expansion is how many times wider a bottleneck's result is than its 3x3 convolution.
const expansion = 4

func (s Spec) architecture() (architecture, error) {
	depth := s.Config.Depth
	if s.Config.Type != "resnet" {
		return architecture{}, fmt.Errorf("network.type: %q is unknown; use resnet", s.Config.Type)
	}
	switch s.Config.Form {
	case "cifar":
		n := (depth - 2) / 6
		if depth < 8 {
			return architecture{}, fmt.Errorf("network.depth: %d is too small; the CIFAR form has 6n+2 layers, 8 at least", depth)
		}
		if 6*n+2 != depth {
			return architecture{}, fmt.Errorf("network.depth: %d is not 6n+2; the nearest depths of the CIFAR form are %d and %d", depth, 6*n+2, 6*n+8)
		}
		return architecture{width: 16, blocks: []int{n, n, n}}, nil
	case "imagenet":
		a := architecture{imageNet: true, bottleneck: depth >= 50, width: 64}
		switch depth {
		case 18:
			a.blocks = []int{2, 2, 2, 2}
		case 34, 50:
			a.blocks = []int{3, 4, 6, 3}
		case 101:
			a.blocks = []int{3, 4, 23, 3}
		case 152:
			a.blocks = []int{3, 8, 36, 3}
		default:
			return architecture{}, fmt.Errorf("network.depth: %d is unknown; the depths of the ImageNet form are 18, 34, 50, 101 and 152", depth)
		}
		return a, nil
	}
	return architecture{}, fmt.Errorf("network.form: %q is unknown; use cifar or imagenet", s.Config.Form)
}
