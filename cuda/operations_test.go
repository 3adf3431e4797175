package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gotrain/cpu/reference"
	"gotrain/cuda"
	"gotrain/cuda/emulator"
	"gotrain/graph"
)

// operations are the bodies, each with the channels that it starts from.
var operations = []struct {
	name     string
	channels int
	body     body
}{
	{"conv 3x3", 9, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 20, 3, 1, 1) }},
	{"conv 3x3 stride 2", 16, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 32, 3, 2, 1) }},
	{"conv 1x1 stride 2", 12, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 7, 1, 2, 0) }},
	{"conv 7x7 stride 2", 5, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 16, 7, 2, 3) }},
	{"batch norm", 16, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		return g.BatchNorm("b", g.Conv("c", x, 16, 1, 1, 0), n)
	}},
	{"batch norm, add, relu", 11, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		return g.ReLU("r", g.Add("a", g.BatchNorm("b", g.Conv("c", x, 11, 3, 1, 1), n), x))
	}},
	{"two residual blocks", 16, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		for i := range 2 {
			name := fmt.Sprint("block", i)
			y := g.ReLU(name+".r1", g.BatchNorm(name+".b1", g.Conv(name+".c1", x, 16, 3, 1, 1), n))
			x = g.ReLU(name+".r2", g.Add(name+".a", g.BatchNorm(name+".b2", g.Conv(name+".c2", y, 16, 3, 1, 1), n), x))
		}
		return x
	}},
	{"relu", 16, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.ReLU("r", x) }},
	{"add", 6, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		return g.Add("a", g.ReLU("r", x), x)
	}},
	{"subsample", 16, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Subsample("s", x, 37, 2) }},
	{"max pool", 10, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.MaxPool("p", x, 3, 2, 1) }},
}

// TestOperations compares every operation and its gradients with the reference executor, in odd shapes and in both precisions, with and
// without fusion, with and without memory that is used again.
func TestOperations(t *testing.T) {
	for _, c := range []struct {
		name      string
		precision graph.DType
		noFusion  bool
		limit     float64 // of what rounding does to a tensor, over its norm: bfloat16 flips ReLUs
		options   cuda.Options
	}{
		{"float32", graph.Float32, false, 1e-5, cuda.Options{}},
		{"float32 unfused", graph.Float32, true, 1e-5, cuda.Options{}},
		{"tf32", graph.Float32, false, 0.02, cuda.Options{TF32: true}},
		{"bfloat16", graph.BFloat16, false, 0.05, cuda.Options{}},
		{"bfloat16 unfused", graph.BFloat16, true, 0.05, cuda.Options{}},
	} {
		for k, o := range operations {
			t.Run(c.name+"/"+o.name, func(t *testing.T) {
				t.Parallel()
				var faults []string
				for seed := range uint64(2) { // an input of ReLU within rounding of zero flips it: other values have to show a fault too
					rng := rand.New(rand.NewPCG(uint64(k), seed))
					n, in, h, w := 2+rng.IntN(3), 1+rng.IntN(4), 5+rng.IntN(6), 5+rng.IntN(6)
					src := source(o.body, o.channels, in, h, w, c.precision, graph.Options{NoFusion: c.noFusion})
					c.options.Batch = n
					e := fleet(t, src, emulator.Options{}, c.options).Executor(0)
					if faults = compare(t, e, src, seed, []*graph.Batch{randomBatch(seed, n, in, h, w, 5), randomBatch(seed, n+1, in, h, w, 5)}, c.limit); faults == nil {
						return
					}
					t.Logf("trying other values, since %s", faults[0])
				}
				for _, f := range faults {
					t.Error(f)
				}
			})
		}
	}
}

// compare evaluates and trains on batches, all from the same values, and returns what differs from the reference.
func compare(t *testing.T, e graph.Executor, src graph.Source, seed uint64, batches []*graph.Batch, limit float64) (faults []string) {
	t.Helper()
	slow, err := reference.New(src)
	if err != nil {
		t.Fatal(err)
	}
	u := graph.Update{Rule: graph.SGD, Gain: 1, Rate: 0.5}
	for _, b := range batches {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%d images: ", b.N)+fmt.Sprintf(format, args...))
		}
		var logits [2][]float32
		var evaluated [2]graph.Metrics
		var trained [2]graph.Result
		var arenas [2][graph.Arenas][]float32
		for i, x := range []graph.Executor{e, slow} {
			start(t, x, seed)
			logits[i] = make([]float32, 5*b.N)
			if evaluated[i], err = x.Evaluate(b, logits[i]); err != nil {
				t.Fatal(err)
			}
			if trained[i], err = x.Step(b, u, nil); err != nil {
				t.Fatal(err)
			}
			for a := range graph.Arenas {
				arenas[i][a] = pull(t, x, a)
			}
		}
		check := func(what string, got, want []float32, typical float64) {
			if d := apart(got, want, typical); !(d <= limit) {
				fault("%s is %.2g from the reference, more than %.2g", what, d, limit)
			}
		}
		check("evaluation's logits", logits[0], logits[1], 0.1)
		for _, m := range [][2]graph.Metrics{evaluated, {trained[0].Metrics, trained[1].Metrics}} {
			if math.Abs(m[0].Loss-m[1].Loss) > limit*m[1].Loss || m[0].Count != m[1].Count || limit < 1e-3 && m[0].Errors != m[1].Errors {
				fault("metrics are %+v, the reference's %+v", m[0], m[1])
			}
		}
		if math.Abs(trained[0].Norm-trained[1].Norm) > limit*trained[1].Norm {
			fault("the norm is %v, the reference's %v", trained[0].Norm, trained[1].Norm)
		}
		parameters, statistics := e.Layouts()
		typical := size(arenas[1][graph.Gradients])
		for _, s := range statistics.Slots {
			check(s.Name, arenas[0][graph.Statistics][s.Offset:s.End()], arenas[1][graph.Statistics][s.Offset:s.End()], 0.1)
		}
		for _, s := range parameters.Slots {
			check("the gradient of "+s.Name, arenas[0][graph.Gradients][s.Offset:s.End()], arenas[1][graph.Gradients][s.Offset:s.End()], typical)
			check(s.Name, arenas[0][graph.Parameters][s.Offset:s.End()], arenas[1][graph.Parameters][s.Offset:s.End()], typical)
		}
		for _, s := range parameters.Slots {
			for a := range graph.Statistics {
				if pad := arenas[0][a][s.End():min(len(arenas[0][a]), (s.End()+15)/16*16)]; slices.ContainsFunc(pad, func(v float32) bool { return v != 0 }) {
					fault("the padding behind %s in the %s is %v", s.Name, a, pad)
				}
			}
		}
	}
	return faults
}
