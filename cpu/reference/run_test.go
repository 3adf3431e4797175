package reference

import (
	"math"
	"testing"

	"gotrain/graph"
)

// tensor makes an operand; what it is called matters to nobody.
func tensor(shape ...int) *graph.Tensor { return &graph.Tensor{Shape: shape} }

// Gradients are checked against differences in package graph, and whole steps against PyTorch's; here are forward passes
// and conventions that neither would notice.
func TestOperationsByHand(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name string
		kind graph.Kind
		attr graph.Attr
		in   []graph.Shape
		out  []graph.Shape
		x    [][]float64
		want [][]float64
	}{
		{"convolution correlates, it does not flip", graph.Conv, graph.Attr{Kernel: 3, Stride: 1, Pad: 1},
			[]graph.Shape{{1, 1, 2, 3}, {1, 1, 3, 3}}, []graph.Shape{{1, 1, 2, 3}},
			[][]float64{{1, 2, 3, 4, 5, 6}, {0, 0, 0, 0, 1, 10, 0, 0, 100}},
			[][]float64{{1 + 20 + 500, 2 + 30 + 600, 3, 4 + 50, 5 + 60, 6}}},
		{"convolution with stride sums channels", graph.Conv, graph.Attr{Kernel: 1, Stride: 2},
			[]graph.Shape{{1, 2, 2, 3}, {1, 2, 1, 1}}, []graph.Shape{{1, 1, 1, 2}},
			[][]float64{{1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}, {1, 2}}, [][]float64{{21, 63}}},
		{"padding never wins", graph.MaxPool, graph.Attr{Kernel: 3, Stride: 2, Pad: 1},
			[]graph.Shape{{1, 1, 3, 3}}, []graph.Shape{{1, 1, 2, 2}},
			[][]float64{{-1, -2, -3, -4, -5, -6, -7, -8, -9}}, [][]float64{{-1, -2, -4, -5}}},
		{"NaN wins", graph.MaxPool, graph.Attr{Kernel: 2, Stride: 2},
			[]graph.Shape{{1, 1, 2, 2}}, []graph.Shape{{1, 1, 1, 1}}, [][]float64{{1, nan, 2, 3}}, [][]float64{{nan}}},
		{"the first of equal values takes the gradient", graph.MaxPoolBackward, graph.Attr{Kernel: 2, Stride: 2},
			[]graph.Shape{{1, 1, 2, 2}, {1, 1, 1, 1}, {1, 1, 1, 1}}, []graph.Shape{{1, 1, 2, 2}},
			[][]float64{{1, 3, 3, 3}, {3}, {5}}, [][]float64{{0, 5, 0, 0}}},
		{"relu passes NaN on", graph.ReLU, graph.Attr{}, []graph.Shape{{1, 1, 1, 4}}, []graph.Shape{{1, 1, 1, 4}},
			[][]float64{{-1, 2, nan, inf}}, [][]float64{{0, 2, nan, inf}}},
		{"the gradient of relu is 0 at 0", graph.ReLUBackward, graph.Attr{}, []graph.Shape{{3}, {3}}, []graph.Shape{{3}},
			[][]float64{{0, 1, 0}, {7, 8, 9}}, [][]float64{{0, 8, 0}}},
		{"subsampling appends zero channels", graph.Subsample, graph.Attr{Stride: 2},
			[]graph.Shape{{1, 1, 3, 3}}, []graph.Shape{{1, 2, 2, 2}},
			[][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}}, [][]float64{{1, 3, 7, 9, 0, 0, 0, 0}}},
		{"average pool", graph.GlobalAveragePool, graph.Attr{}, []graph.Shape{{2, 1, 1, 2}}, []graph.Shape{{2, 1}},
			[][]float64{{1, 2, 3, 6}}, [][]float64{{1.5, 4.5}}},
		{"dense", graph.Dense, graph.Attr{}, []graph.Shape{{2, 2}, {3, 2}, {3}}, []graph.Shape{{2, 3}},
			[][]float64{{1, 2, 3, 4}, {1, 0, 0, 1, 1, 1}, {10, 20, 30}}, [][]float64{{11, 22, 33, 13, 24, 37}}},
		{"batch norm of one value a channel", graph.BatchNorm, graph.Attr{Epsilon: 0.25, Update: 0.5},
			[]graph.Shape{{1, 2, 1, 1}, {2}, {2}, {2}, {2}}, []graph.Shape{{1, 2, 1, 1}, {2}, {2}},
			[][]float64{{5, 6}, {1, 1}, {3, 4}, {1, 2}, {8, 9}}, [][]float64{{3, 4}, {5, 6}, {2, 2}}},
		{"cross-entropy; of equal logits the first counts", graph.SoftmaxCrossEntropy, graph.Attr{},
			[]graph.Shape{{3, 2}, {3}, {3}, {}}, []graph.Shape{{}, {}, {3, 2}},
			[][]float64{{0, 0, 0, 0, 0, math.Log(3)}, {0, 1, 1}, {1, 1, 2}, {4}},
			[][]float64{{2*math.Ln2 + 2*math.Log(4./3)}, {1}, {-0.125, 0.125, 0.125, -0.125, 0.125, -0.125}}},
		{"cross-entropy of large logits", graph.SoftmaxCrossEntropy, graph.Attr{},
			[]graph.Shape{{1, 2}, {1}, {1}, {}}, []graph.Shape{{}, {}}, [][]float64{{1000, 0}, {1}, {1}, {1}}, [][]float64{{1000}, {1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &graph.Op{Kind: c.kind, Attr: c.attr}
			values := map[*graph.Tensor][]float64{}
			for i, s := range c.in {
				o.In = append(o.In, tensor(s...))
				values[o.In[i]] = c.x[i]
			}
			for _, s := range c.out {
				o.Out = append(o.Out, tensor(s...))
			}
			Run(o, values)
			for i, want := range c.want {
				same(t, values[o.Out[i]], want)
			}
		})
	}
}

func same(t *testing.T, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i, w := range want {
		equal := got[i] == w || math.Abs(got[i]-w) <= 1e-12*math.Abs(w) || math.IsNaN(got[i]) && math.IsNaN(w)
		if !equal {
			t.Errorf("got %v, want %v", got, want)
			return
		}
	}
}

func TestRunningStatistics(t *testing.T) {
	o := &graph.Op{Kind: graph.BatchNorm, Attr: graph.Attr{Epsilon: 1e-5, Update: 0.25},
		In:  []*graph.Tensor{tensor(2, 1, 1, 2), tensor(1), tensor(1), tensor(1), tensor(1)},
		Out: []*graph.Tensor{tensor(2, 1, 1, 2), tensor(1), tensor(1)}}
	values := map[*graph.Tensor][]float64{}
	for i, v := range [][]float64{{1, 2, 3, 6}, {1}, {0}, {4}, {10}} {
		values[o.In[i]] = v
	}
	Run(o, values)
	same(t, values[o.In[3]], []float64{0.75*4 + 0.25*3})
	same(t, values[o.In[4]], []float64{0.75*10 + 0.25*14./3})       // unbiased: 14/3
	same(t, values[o.Out[2]], []float64{1 / math.Sqrt(14./4+1e-5)}) // biased: 14/4
}

// Two steps of each rule, with figures worked out by hand: gradients 2 and then 1 for a parameter that starts at 1.
func TestUpdateRules(t *testing.T) {
	for _, c := range []struct {
		name string
		u    graph.Update
		want [2]float64
	}{
		{"sgd", graph.Update{Rule: graph.SGD, Rate: 0.5, Gain: 1}, [2]float64{0, -0.5}},
		{"sgd clipped", graph.Update{Rule: graph.SGD, Rate: 0.5, Gain: 1, Clip: 1}, [2]float64{0.5, 0}},
		{"sgd with L2", graph.Update{Rule: graph.SGD, Rate: 0.5, Gain: 1, L2: 0.5}, [2]float64{-0.25, -0.6875}},
		{"momentum", graph.Update{Rule: graph.Momentum, Rate: 0.5, Momentum: 0.5, Gain: 1}, [2]float64{0, -1}},
		{"momentum with unit gain", graph.Update{Rule: graph.Momentum, Rate: 1, Momentum: 0.5, Gain: 0.5}, [2]float64{0, -1}},
		{"nesterov", graph.Update{Rule: graph.Momentum, Rate: 0.5, Momentum: 0.5, Gain: 1, Nesterov: true}, [2]float64{-0.5, -1.5}},
		// m = 0.2, v = 0.04, both corrected 2 and 4: -0.1. Then m = 0.28, v = 0.0496, corrected 0.28/0.19 and 0.0496/0.0199.
		{"adam", graph.Update{Rule: graph.Adam, Rate: 0.1, Gain: 1, Beta1: 0.9, Beta2: 0.99}, [2]float64{0.9, 0.9 - 0.1*0.28/0.19/math.Sqrt(0.0496/0.0199)}},
	} {
		w, m, v := []float32{1}, []float32{0}, []float32{0}
		for step, g := range []float32{2, 1} {
			c.u.Step = int64(step + 1)
			apply(c.u, float64(c.u.Scale(float64(g))), w, []float32{g}, m, v)
			if math.Abs(float64(w[0])-c.want[step]) > 1e-6 {
				t.Errorf("%s: %v after step %d, want %v", c.name, w[0], step+1, c.want[step])
			}
		}
	}
}
