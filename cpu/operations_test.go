package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gotrain/cpu"
	"gotrain/cpu/reference"
	"gotrain/graph"
)

// body is the middle of a small network: what is under test, between a first convolution and the pooling.
type body func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor

// operations are the bodies, each with the channels that it starts from and how many convolutions of it Winograd's method can
// do.
var operations = []struct {
	name     string
	channels int
	winograd int
	body     body
}{
	{"conv 3x3", 16, 1, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 32, 3, 1, 1) }},
	{"conv 3x3 wide", 64, 1, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 48, 3, 1, 1) }},
	{"conv 3x3 stride 2", 16, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 32, 3, 2, 1) }},
	{"conv 1x1", 32, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 16, 1, 1, 0) }},
	{"conv 1x1 stride 2", 16, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 32, 1, 2, 0) }},
	{"conv 7x7 stride 2", 16, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Conv("c", x, 16, 7, 2, 3) }},
	{"batch norm", 16, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		return g.BatchNorm("b", g.Conv("c", x, 16, 1, 1, 0), n)
	}},
	{"batch norm, relu", 48, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		return g.ReLU("r", g.BatchNorm("b", g.Conv("c", x, 48, 1, 1, 0), n))
	}},
	{"batch norm, add, relu", 32, 1, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		return g.ReLU("r", g.Add("a", g.BatchNorm("b", g.Conv("c", x, 32, 3, 1, 1), n), x))
	}},
	{"batch norm, add", 32, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		return g.Add("a", g.BatchNorm("b", g.Conv("c", x, 32, 1, 1, 0), n), x)
	}},
	{"two residual blocks", 16, 4, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		for i := range 2 {
			name := fmt.Sprint("block", i)
			y := g.ReLU(name+".r1", g.BatchNorm(name+".b1", g.Conv(name+".c1", x, 16, 3, 1, 1), n))
			x = g.ReLU(name+".r2", g.Add(name+".a", g.BatchNorm(name+".b2", g.Conv(name+".c2", y, 16, 3, 1, 1), n), x))
		}
		return x
	}},
	{"relu", 16, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.ReLU("r", x) }},
	{"add", 16, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		return g.Add("a", g.ReLU("r", x), x)
	}},
	{"subsample", 16, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.Subsample("s", x, 48, 2) }},
	{"max pool", 16, 0, func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor { return g.MaxPool("p", x, 3, 2, 1) }},
}

// source compiles the network around a body.
func source(b body, channels, in, h, w int, precision graph.DType, o graph.Options) graph.Source {
	return func(samples int, inference bool) (*graph.Plan, error) {
		n := graph.Norm{Epsilon: 1e-5, Update: 0.1, Inference: inference}
		o.Inference = inference
		g := graph.New(precision)
		inputs := g.Inputs(samples, in, h, w)
		x := b(g, g.ReLU("firstReLU", g.BatchNorm("firstNorm", g.Conv("first", inputs.Images, channels, 3, 1, 1), n)), n)
		if x.DType != precision { // a convolution's result
			x = g.BatchNorm("lastNorm", x, n)
		}
		g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", x), 5), inputs)
		return graph.Compile(g, o)
	}
}

// fill gives both executors the same parameters, statistics and moments.
func fill(rng *rand.Rand, layouts []*graph.Layout, arenas [][]float32) {
	for i, l := range layouts {
		for _, s := range l.Slots {
			scale := 1 / math.Sqrt(float64(s.Shape.Values()/s.Shape[0])+1)
			for k := s.Offset; k < s.End(); k++ {
				v := float32(rng.NormFloat64() * scale)
				switch len(s.Shape) {
				case 1: // gamma, beta, statistics: away from zero
					v = 0.5 + rng.Float32()
				}
				arenas[i][k] = v
			}
		}
	}
}

func randomBatch(rng *rand.Rand, n, c, h, w, classes int) *graph.Batch {
	b := &graph.Batch{N: n, Images: make([]float32, n*c*h*w), Labels: make([]int32, n), Weights: make([]float32, n), Divisor: float32(n) + 1}
	for i := range b.Images {
		b.Images[i] = float32(rng.NormFloat64())
	}
	for i := range n {
		b.Labels[i], b.Weights[i] = int32(rng.IntN(classes)), 1
	}
	if n > 2 {
		b.Weights[1] = 0
	}
	return b
}

// apart is the distance of got from want over want's norm, or over that of so many values of a typical size where want
// itself cancels to nothing, as the gradient of a shift does before another batch norm.
func apart(got, want []float32, typical float64) float64 {
	var d, n float64
	for i := range want {
		d += math.Pow(float64(got[i])-float64(want[i]), 2)
		n += math.Pow(float64(want[i]), 2)
	}
	return math.Sqrt(d / max(n, float64(len(want))*typical*typical))
}

// size is the root of the mean square.
func size(v []float32) float64 {
	n := 0.0
	for _, x := range v {
		n += float64(x) * float64(x)
	}
	return math.Sqrt(n / float64(len(v)))
}

// TestOperations compares every operation and its gradients with the reference executor on random shapes, for every
// instruction set that the machine has, both storage types, with and without fusion and Winograd.
func TestOperations(t *testing.T) {
	for _, c := range []struct {
		name      string
		precision graph.DType
		noFusion  bool
		limit     float64 // of what rounding does to a tensor, over its norm: bfloat16 flips ReLUs
		options   []cpu.Options
	}{
		{"float32", graph.Float32, false, 1e-5, []cpu.Options{{}, {Direct: true}, {ISA: "avx2"}, {ISA: "portable"}}},
		{"float32 unfused", graph.Float32, true, 1e-5, []cpu.Options{{Threads: 3}}},
		{"bfloat16", graph.BFloat16, false, 0.05, []cpu.Options{{}, {Threads: 3}, {ISA: "avx512"}, {ISA: "avx2"}, {ISA: "portable"}}},
		{"bfloat16 unfused", graph.BFloat16, true, 0.05, []cpu.Options{{Direct: true}}},
	} {
		for k, o := range operations {
			few := func(seed uint64) *expected {
				rng := rand.New(rand.NewPCG(uint64(k), seed))
				n, in, h, w := 2+rng.IntN(3), 1+rng.IntN(4), 5+rng.IntN(6), 5+rng.IntN(6)
				return expect(t, rng, source(o.body, o.channels, in, h, w, c.precision, graph.Options{NoFusion: c.noFusion, BucketBytes: 1 << 12}), n, n+1)
			}
			many := func(seed uint64) *expected { // enough tiles for Winograd, and not much of them outside of the images
				rng := rand.New(rand.NewPCG(uint64(k), seed))
				n, in, h, w := 16+rng.IntN(3), 1+rng.IntN(4), 7+rng.IntN(2), 7+rng.IntN(2)
				return expect(t, rng, source(o.body, o.channels, in, h, w, c.precision, graph.Options{NoFusion: c.noFusion}), n)
			}
			t.Run(c.name+"/"+o.name, func(t *testing.T) {
				few1, many1 := few(1), (*expected)(nil)
				if o.winograd > 0 {
					many1 = many(1)
				}
				for _, options := range c.options {
					t.Run(fmt.Sprintf("%+v", options), func(t *testing.T) {
						few1.check(t, options, c.limit, few)
						if many1 == nil || options.Direct {
							return
						}
						if got := many1.check(t, options, c.limit, many).Winograd(); len(got) != 3*o.winograd {
							t.Errorf("Winograd's method does %d of %d convolutions and gradients: %v", len(got), 3*o.winograd, got)
						}
					})
				}
			})
		}
	}
}

// open returns an executor, or skips the test where the machine lacks what it asks for.
func open(t *testing.T, source graph.Source, o cpu.Options) *cpu.Executor {
	t.Helper()
	e, err := cpu.New(source, o)
	if err != nil {
		if err.Error() == fmt.Sprintf("this machine has no kernels for %q", o.ISA) {
			t.Skip(err)
		}
		if isa := cpu.Describe().ISA; strings.Contains(err.Error(), "not supported on this machine") && !strings.HasPrefix(isa, "AVX-512") && isa != "AMX" {
			t.Skipf("oneDNN has %s only: %v", isa, err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// executor is what the executors of host memory have in common.
type executor interface {
	graph.Executor
	graph.Parts
}

// expected is what the reference executor makes of batches, each from the same random values.
type expected struct {
	source                 graph.Source
	parameters, statistics []float32
	batches                []*graph.Batch
	outcomes               []outcome
}

// outcome is what an evaluation and the gradients of a training step leave.
type outcome struct {
	evaluated, trained    graph.Metrics
	logits                []float32
	statistics, gradients []float32
}

// expect runs the reference executor on random batches of so many samples.
func expect(t *testing.T, rng *rand.Rand, source graph.Source, samples ...int) *expected {
	t.Helper()
	slow, err := reference.New(source)
	if err != nil {
		t.Fatal(err)
	}
	parameters, statistics := slow.Layouts()
	fill(rng, []*graph.Layout{parameters, statistics}, [][]float32{slow.Arena(graph.Parameters), slow.Arena(graph.Statistics)})
	x := &expected{source: source, parameters: slices.Clone(slow.Arena(graph.Parameters)), statistics: slices.Clone(slow.Arena(graph.Statistics))}
	for _, n := range samples {
		plan, err := source(n, false)
		if err != nil {
			t.Fatal(err)
		}
		s := plan.Inputs.Images.Shape
		b := randomBatch(rng, n, s[1], s[2], s[3], 5)
		x.batches, x.outcomes = append(x.batches, b), append(x.outcomes, x.run(t, slow, b))
	}
	return x
}

// run evaluates and trains.
func (x *expected) run(t *testing.T, e executor, b *graph.Batch) (o outcome) {
	t.Helper()
	copy(e.Arena(graph.Parameters), x.parameters)
	copy(e.Arena(graph.Statistics), x.statistics)
	var err error
	o.logits = make([]float32, b.N*5)
	if o.evaluated, err = e.Evaluate(b, o.logits); err != nil {
		t.Fatal(err)
	}
	next := 0
	if o.trained, err = e.Gradients(b, onReady(func(b graph.Bucket, _ graph.Metrics) {
		if b.Begin != next {
			t.Errorf("bucket [%d, %d) came when the gradients before %d were final", b.Begin, b.End, next)
		}
		next = b.End
	})); err != nil {
		t.Fatal(err)
	}
	if next != len(x.parameters) {
		t.Errorf("the buckets end at %d of %d", next, len(x.parameters))
	}
	o.statistics, o.gradients = slices.Clone(e.Arena(graph.Statistics)), slices.Clone(e.Arena(graph.Gradients))
	return o
}

// check compares an executor, and returns it. An input of ReLU within rounding of zero flips it, and with it a gradient: that
// is no fault unless other values show one too.
func (x *expected) check(t *testing.T, options cpu.Options, limit float64, again func(seed uint64) *expected) *cpu.Executor {
	t.Helper()
	fast, faults := x.compare(t, options, limit)
	if len(faults) > 0 {
		t.Logf("trying other values, since %s", faults[0])
		fast, faults = again(2).compare(t, options, limit)
	}
	for _, f := range faults {
		t.Error(f)
	}
	return fast
}

// compare runs an executor, and returns it with what differs.
func (x *expected) compare(t *testing.T, options cpu.Options, limit float64) (fast *cpu.Executor, faults []string) {
	t.Helper()
	options.Batch = x.batches[0].N
	fast = open(t, x.source, options)
	parameters, statistics := fast.Layouts()
	for i, b := range x.batches {
		got, want := x.run(t, fast, b), x.outcomes[i]
		check := func(what string, got, want []float32, typical float64) {
			if d := apart(got, want, typical); !(d <= limit) {
				faults = append(faults, fmt.Sprintf("%d images: %s is %.2g from the reference, more than %.2g", b.N, what, d, limit))
			}
		}
		check("evaluation's logits", got.logits, want.logits, 0.1)
		for _, m := range [][2]graph.Metrics{{got.evaluated, want.evaluated}, {got.trained, want.trained}} {
			if math.Abs(m[0].Loss-m[1].Loss) > limit*m[1].Loss || m[0].Count != m[1].Count {
				faults = append(faults, fmt.Sprintf("%d images: metrics are %+v, the reference's %+v", b.N, m[0], m[1]))
			}
		}
		for _, s := range statistics.Slots {
			check(s.Name, got.statistics[s.Offset:s.End()], want.statistics[s.Offset:s.End()], 0.1)
		}
		typical := size(want.gradients)
		for _, s := range parameters.Slots {
			check("the gradient of "+s.Name, got.gradients[s.Offset:s.End()], want.gradients[s.Offset:s.End()], typical)
		}
	}
	return fast, faults
}

// onReady is an exchange of one worker that tells when buckets are ready.
type onReady func(graph.Bucket, graph.Metrics)

func (f onReady) Ready(b graph.Bucket, m graph.Metrics)      { f(b, m) }
func (f onReady) Wait() (graph.Metrics, error)               { return graph.Metrics{}, nil }
func (f onReady) Gather(send []float64) ([][]float64, error) { return [][]float64{send}, nil }
