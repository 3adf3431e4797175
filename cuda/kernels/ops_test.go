package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gotrain/cpu/reference"
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// Operations from one activation to another.
func TestOperationsOnActivations(t *testing.T) {
	shared := open(t)
	type operands = []driver.Pointer
	type operation struct {
		name   string
		op     func(s graph.Shape, t graph.DType) *graph.Op
		launch func(d *device, o *graph.Op, t graph.DType, in operands, out driver.Pointer) driver.Launch
	}
	pooled := func(k graph.Kind, a graph.Attr, in, out func(x, y *graph.Tensor) []*graph.Tensor) func(graph.Shape, graph.DType) *graph.Op {
		return func(s graph.Shape, t graph.DType) *graph.Op {
			x := tensor(t, s...)
			y := tensor(t, s[0], s[1], (s[2]+2*a.Pad-a.Kernel)/a.Stride+1, (s[3]+2*a.Pad-a.Kernel)/a.Stride+1)
			if a.Kernel == 0 {
				y = tensor(t, s[0], s[1]+9, (s[2]-1)/a.Stride+1, (s[3]-1)/a.Stride+1)
			}
			return &graph.Op{Kind: k, Attr: a, In: in(x, y), Out: out(x, y)}
		}
	}
	onlyX := func(x, y *graph.Tensor) []*graph.Tensor { return []*graph.Tensor{x} }
	onlyY := func(x, y *graph.Tensor) []*graph.Tensor { return []*graph.Tensor{y} }
	same := func(k graph.Kind, in int) func(graph.Shape, graph.DType) *graph.Op {
		return func(s graph.Shape, t graph.DType) *graph.Op {
			o := &graph.Op{Kind: k, Out: []*graph.Tensor{tensor(t, s...)}}
			for range in {
				o.In = append(o.In, tensor(t, s...))
			}
			return o
		}
	}
	xs := func(o *graph.Op) graph.Shape { return o.In[0].Shape }
	ys := func(o *graph.Op) graph.Shape { return o.Out[0].Shape }
	pool, stride := graph.Attr{Kernel: 3, Stride: 2, Pad: 1}, graph.Attr{Stride: 2}
	operations := []operation{
		{"relu", same(graph.ReLU, 1), func(d *device, o *graph.Op, t graph.DType, in operands, out driver.Pointer) driver.Launch {
			return d.ReLU(t, xs(o), in[0], out)
		}},
		{"relu backward", same(graph.ReLUBackward, 2), func(d *device, o *graph.Op, t graph.DType, in operands, out driver.Pointer) driver.Launch {
			return d.ReLUBackward(t, xs(o), in[0], in[1], out)
		}},
		{"add", same(graph.Add, 2), func(d *device, o *graph.Op, t graph.DType, in operands, out driver.Pointer) driver.Launch {
			return d.Add(t, xs(o), in[0], in[1], out)
		}},
		{"subsample", pooled(graph.Subsample, stride, onlyX, onlyY), func(d *device, o *graph.Op, t graph.DType, in operands, out driver.Pointer) driver.Launch {
			return d.Subsample(t, xs(o), ys(o), o.Attr, in[0], out)
		}},
		{"subsample backward", pooled(graph.SubsampleBackward, stride, onlyY, onlyX), func(d *device, o *graph.Op, t graph.DType, in operands, out driver.Pointer) driver.Launch {
			return d.SubsampleBackward(t, ys(o), xs(o), o.Attr, in[0], out)
		}},
		{"max pool", pooled(graph.MaxPool, pool, onlyX, onlyY), func(d *device, o *graph.Op, t graph.DType, in operands, out driver.Pointer) driver.Launch {
			return d.MaxPool(t, xs(o), ys(o), o.Attr, in[0], out)
		}},
		{"max pool 2x2", pooled(graph.MaxPool, graph.Attr{Kernel: 2, Stride: 1}, onlyX, onlyY), func(d *device, o *graph.Op, t graph.DType, in operands, out driver.Pointer) driver.Launch {
			return d.MaxPool(t, xs(o), ys(o), o.Attr, in[0], out)
		}},
	}
	for _, o := range operations {
		for _, dtype := range types {
			for _, s := range append(randomShapes(3), graph.Shape{1, 8, 2, 2}, graph.Shape{3, 5, 7, 4}, graph.Shape{2, 24, 9, 8}) {
				t.Run(fmt.Sprint(o.name, " ", dtype, s), func(t *testing.T) {
					d, r := shared.in(t), rand.New(rand.NewPCG(5, uint64(s.Values())))
					op := o.op(s, dtype)
					values := map[*graph.Tensor][]float64{}
					var in operands
					for _, x := range op.In {
						values[x] = random(r, dtype, x.Shape)
						in = append(in, d.activation(dtype, x.Shape, values[x]))
					}
					reference.Run(op, values)
					out := d.room(kernels.ActivationBytes(ys(op), dtype))
					d.run(o.launch(d, op, dtype, in, out))
					near(t, "result", d.getActivation(dtype, ys(op), out), values[op.Out[0]], tolerance(dtype))
				})
			}
		}
	}
}

// The gradient goes to the first of equal values, of which few distinct ones make many.
func TestMaxPoolBackwardTakesTheFirst(t *testing.T) {
	for _, dtype := range types {
		for _, a := range []graph.Attr{{Kernel: 3, Stride: 2, Pad: 1}, {Kernel: 2, Stride: 2}, {Kernel: 3, Stride: 1, Pad: 1}} {
			d, r := open(t), rand.New(rand.NewPCG(6, 6))
			x := tensor(dtype, 2, 12, 9, 8)
			y := tensor(dtype, 2, 12, (9+2*a.Pad-a.Kernel)/a.Stride+1, (8+2*a.Pad-a.Kernel)/a.Stride+1)
			dx := tensor(dtype, 2, 12, 9, 8)
			dy := tensor(dtype, y.Shape...)
			values := map[*graph.Tensor][]float64{x: make([]float64, x.Shape.Values()), dy: random(r, dtype, y.Shape)}
			for i := range values[x] {
				values[x][i] = float64(r.IntN(3) - 1)
			}
			reference.Run(&graph.Op{Kind: graph.MaxPool, Attr: a, In: []*graph.Tensor{x}, Out: []*graph.Tensor{y}}, values)
			reference.Run(&graph.Op{Kind: graph.MaxPoolBackward, Attr: a, In: []*graph.Tensor{x, y, dy}, Out: []*graph.Tensor{dx}}, values)
			out := d.room(kernels.ActivationBytes(x.Shape, dtype))
			d.run(d.MaxPoolBackward(dtype, x.Shape, y.Shape, a, d.activation(dtype, x.Shape, values[x]),
				d.activation(dtype, y.Shape, values[y]), d.activation(dtype, y.Shape, values[dy]), out))
			near(t, fmt.Sprint(dtype, a.Kernel, a.Stride), d.getActivation(dtype, x.Shape, out), values[dx], tolerance(dtype))
		}
	}
}

// What can share memory may.
func TestElementwiseInPlace(t *testing.T) {
	s := graph.Shape{2, 12, 3, 5}
	for _, dtype := range types {
		d, r := open(t), rand.New(rand.NewPCG(7, 7))
		a, b := random(r, dtype, s), random(r, dtype, s)
		for _, second := range []bool{false, true} {
			pa, pb := d.activation(dtype, s, a), d.activation(dtype, s, b)
			out := pa
			if second {
				out = pb
			}
			d.run(d.Add(dtype, s, pa, pb, out), d.ReLU(dtype, s, out, out))
			want := make([]float64, len(a))
			for i := range want {
				want[i] = max(0, a[i]+b[i])
			}
			near(t, "relu of a sum", d.getActivation(dtype, s, out), want, tolerance(dtype))
		}
	}
}

func TestAveragePoolInBothDirections(t *testing.T) {
	shared := open(t)
	for _, dtype := range types {
		for _, s := range append(randomShapes(3), graph.Shape{1, 8, 1, 1}, graph.Shape{3, 5, 7, 7}, graph.Shape{2, 40, 8, 9}) {
			d, r := shared, rand.New(rand.NewPCG(8, uint64(s.Values())))
			x, y := tensor(dtype, s...), tensor(graph.Float32, s[0], s[1])
			dx, dy := tensor(dtype, s...), tensor(graph.Float32, s[0], s[1])
			values := map[*graph.Tensor][]float64{x: random(r, dtype, s), dy: random(r, graph.Float32, dy.Shape)}
			reference.Run(&graph.Op{Kind: graph.GlobalAveragePool, In: []*graph.Tensor{x}, Out: []*graph.Tensor{y}}, values)
			reference.Run(&graph.Op{Kind: graph.GlobalAveragePoolBackward, In: []*graph.Tensor{dy}, Out: []*graph.Tensor{dx}}, values)
			py, pdx := d.room(4*s[0]*s[1]), d.room(kernels.ActivationBytes(s, dtype))
			d.run(d.AveragePool(dtype, s, d.activation(dtype, s, values[x]), py), d.AveragePoolBackward(dtype, s, d.floats(narrow(values[dy])), pdx))
			near(t, fmt.Sprint(dtype, s, " mean"), d.getFloats(py, s[0]*s[1]), values[y], 1e-5)
			near(t, fmt.Sprint(dtype, s, " gradient"), d.getActivation(dtype, s, pdx), values[dx], tolerance(dtype))
		}
	}
}

func TestDenseInAllDirections(t *testing.T) {
	shared := open(t)
	for _, s := range []struct{ n, in, out int }{{1, 1, 2}, {3, 64, 10}, {33, 70, 35}, {64, 32, 32}, {5, 300, 101}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			d, r := shared.in(t), rand.New(rand.NewPCG(9, uint64(s.in)))
			x, w, b, y := tensor(graph.Float32, s.n, s.in), tensor(graph.Float32, s.out, s.in), tensor(graph.Float32, s.out), tensor(graph.Float32, s.n, s.out)
			dx, dw, db, dy := tensor(graph.Float32, s.n, s.in), tensor(graph.Float32, s.out, s.in), tensor(graph.Float32, s.out), tensor(graph.Float32, s.n, s.out)
			values := map[*graph.Tensor][]float64{}
			put := func(x *graph.Tensor) driver.Pointer {
				values[x] = random(r, graph.Float32, x.Shape)
				return d.floats(narrow(values[x]))
			}
			px, pw, pb, pdy := put(x), put(w), put(b), put(dy)
			reference.Run(&graph.Op{Kind: graph.Dense, In: []*graph.Tensor{x, w, b}, Out: []*graph.Tensor{y}}, values)
			reference.Run(&graph.Op{Kind: graph.DenseBackwardData, In: []*graph.Tensor{w, dy}, Out: []*graph.Tensor{dx}}, values)
			reference.Run(&graph.Op{Kind: graph.DenseBackwardWeights, In: []*graph.Tensor{x, dy}, Out: []*graph.Tensor{dw, db}}, values)
			py, pdx, pdw, pdb := d.room(4*s.n*s.out), d.room(4*s.n*s.in), d.room(4*s.out*s.in), d.room(4*s.out)
			d.run(d.Dense(s.n, s.in, s.out, px, pw, pb, py), d.DenseBackwardData(s.n, s.in, s.out, pw, pdy, pdx),
				d.DenseBackwardWeights(s.n, s.in, s.out, px, pdy, pdw, pdb))
			near(t, "y", d.getFloats(py, s.n*s.out), values[y], 1e-5)
			near(t, "dx", d.getFloats(pdx, s.n*s.in), values[dx], 1e-5)
			near(t, "dweight", d.getFloats(pdw, s.out*s.in), values[dw], 1e-5)
			near(t, "dbias", d.getFloats(pdb, s.out), values[db], 1e-5)
		})
	}
}

func TestCrossEntropyCountsLossAndErrors(t *testing.T) {
	shared := open(t)
	for _, s := range []struct {
		n, classes int
		scale      float64
	}{{1, 2, 1}, {5, 10, 1}, {9, 33, 30}, {19, 5, 0}, {24, 100, 3}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			d, r := shared.in(t), rand.New(rand.NewPCG(10, uint64(s.classes)))
			logits, labels, weights, divisor := tensor(graph.Float32, s.n, s.classes), tensor(graph.Int32, s.n), tensor(graph.Float32, s.n), tensor(graph.Float32)
			loss, errors, dlogits := tensor(graph.Float64), tensor(graph.Float64), tensor(graph.Float32, s.n, s.classes)
			values := map[*graph.Tensor][]float64{logits: random(r, graph.Float32, logits.Shape), divisor: {7}}
			for i := range values[logits] {
				values[logits][i] = round(graph.Float32, values[logits][i]*s.scale) // with 0 all are equal: class 0 is right
			}
			labelled, weighted := make([]int32, s.n), make([]float32, s.n)
			count := 0.0
			for i := range s.n {
				labelled[i], weighted[i] = int32(r.IntN(s.classes)), float32(r.IntN(3))
				values[labels], values[weights] = append(values[labels], float64(labelled[i])), append(values[weights], float64(weighted[i]))
				count += float64(weighted[i])
			}
			reference.Run(&graph.Op{Kind: graph.SoftmaxCrossEntropy, In: []*graph.Tensor{logits, labels, weights, divisor},
				Out: []*graph.Tensor{loss, errors, dlogits}}, values)
			pd, result, ticket := d.room(4*s.n*s.classes), d.zeros(kernels.ResultBytes/4), d.zeros(1)
			scratch := d.room(kernels.CrossEntropyScratch(s.n))
			for range 2 { // the ticket serves again
				d.run(d.CrossEntropy(s.n, s.classes, d.floats(narrow(values[logits])), d.put(words(labelled)), d.floats(weighted),
					d.floats([]float32{7}), pd, scratch, ticket, result))
			}
			got := kernels.GetResult(d.get(result, kernels.ResultBytes))
			near(t, "loss", []float64{got.Loss}, values[loss], 1e-6)
			if got.Errors != values[errors][0] || got.Count != count {
				t.Errorf("%v errors of %v, want %v of %v", got.Errors, got.Count, values[errors][0], count)
			}
			near(t, "dlogits", d.getFloats(pd, s.n*s.classes), values[dlogits], 1e-5)
		})
	}
}

// Of a sample that counts, NaN reaches the loss; of one that does not, nothing does.
func TestCrossEntropyOfNaN(t *testing.T) {
	d := open(t)
	logits := []float32{1, float32(math.NaN()), 0, 2, 1, 0}
	for _, weight := range []float32{0, 1} {
		pd, result := d.room(24), d.zeros(kernels.ResultBytes/4)
		d.run(d.CrossEntropy(2, 3, d.floats(logits), d.put(words([]int32{0, 0})), d.floats([]float32{weight, 1}), d.floats([]float32{1}), pd,
			d.room(kernels.CrossEntropyScratch(2)), d.zeros(1), result))
		got, gradient := kernels.GetResult(d.get(result, kernels.ResultBytes)), d.getFloats(pd, 6)
		if math.IsNaN(got.Loss) != (weight == 1) || got.Errors != float64(weight) {
			t.Errorf("weight %v: loss %v, %v errors", weight, got.Loss, got.Errors)
		}
		if weight == 0 && (gradient[0] != 0 || gradient[1] != 0 || gradient[2] != 0) {
			t.Errorf("weight 0: gradient %v", gradient)
		}
	}
}
