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

// randomConvShapes are others, the same in every run.
func randomConvShapes(n int) (all []kernels.ConvShape) {
	r := rand.New(rand.NewPCG(1, 2))
	for len(all) < n {
		c := kernels.ConvShape{N: 1 + r.IntN(3), H: 1 + r.IntN(12), W: 1 + r.IntN(12), C: 1 + r.IntN(40), K: 1 + r.IntN(80),
			Kernel: 1 + r.IntN(5), Stride: 1 + r.IntN(3), Pad: r.IntN(4)}
		if c.Pad < c.Kernel && min(c.H, c.W)+2*c.Pad >= c.Kernel {
			all = append(all, c)
		}
	}
	return all
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
		for _, c := range append(randomConvShapes(6), convShapes...) {
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

// Tiles are chosen by shape alone, and small convolutions get small ones.
func TestTilesFitTheConvolution(t *testing.T) {
	for _, test := range []struct {
		shape                          kernels.ConvShape
		math                           kernels.Math
		forward, backwardData, weights string
	}{
		{kernels.ConvShape{N: 128, H: 32, W: 32, C: 16, K: 16, Kernel: 3, Stride: 1, Pad: 1}, kernels.FFMA, "128x16", "128x16", "16x64 in 158 splits"},
		{kernels.ConvShape{N: 128, H: 16, W: 16, C: 32, K: 32, Kernel: 3, Stride: 1, Pad: 1}, kernels.BF16, "128x32", "128x32", "32x64 in 86 splits"},
		{kernels.ConvShape{N: 32, H: 8, W: 8, C: 64, K: 64, Kernel: 3, Stride: 1, Pad: 1}, kernels.FFMA, "32x32", "32x32", "64x64 in 16 splits"},
		{kernels.ConvShape{N: 1024, H: 16, W: 16, C: 32, K: 64, Kernel: 3, Stride: 2, Pad: 1}, kernels.TF32, "128x64", "128x32", "64x64 in 94 splits"},
		{kernels.ConvShape{N: 64, H: 7, W: 7, C: 512, K: 512, Kernel: 3, Stride: 1, Pad: 1}, kernels.BF16, "128x128", "128x128", "128x128 in 1 splits"},
		{kernels.ConvShape{N: 1, H: 1, W: 1, C: 1, K: 1, Kernel: 1, Stride: 1, Pad: 0}, kernels.FFMA, "32x32", "32x32", "16x64 in 1 splits"},
	} {
		forward, backwardData, weights := test.shape.ChosenTiles(test.math)
		if forward != test.forward || backwardData != test.backwardData || weights != test.weights {
			t.Errorf("%s, %s: %s, %s, %s, want %s, %s, %s", test.math, test.shape, forward, backwardData, weights, test.forward, test.backwardData, test.weights)
		}
	}
}

// What docs and measurements state of a convolution: ResNet-20's inner one at 128 images.
func TestWorkOfAConvolution(t *testing.T) {
	c := kernels.ConvShape{N: 128, H: 32, W: 32, C: 16, K: 16, Kernel: 3, Stride: 1, Pad: 1}
	if got, want := c.Flops(), 603979776; got != want {
		t.Errorf("%d operations, want %d", got, want)
	}
	forward, backwardData, backwardWeights := c.Bytes(kernels.BF16)
	if got, want := [3]int{forward, backwardData, backwardWeights}, [3]int{12587520, 8393216, 8397824}; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}
