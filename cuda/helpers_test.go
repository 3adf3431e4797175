package cuda_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"gotrain/configs"
	"gotrain/cuda"
	"gotrain/cuda/cudatest"
	"gotrain/cuda/emulator"
	"gotrain/graph"
	"gotrain/network"
)

// body is the middle of a small network, between a first convolution and the pooling.
type body func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor

// source compiles the network around a body, for images of `in` channels and 5 classes.
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

// resnet8 compiles the smallest ResNet, for images of 8 x 8 pixels and 10 classes, in buckets as fine as they come.
func resnet8(precision graph.DType) graph.Source {
	spec := network.Spec{
		Config: configs.Network{Type: "resnet", Form: "cifar", Depth: 8, Shortcut: "B",
			BatchNorm: configs.BatchNorm{Epsilon: 1e-5, RunningUpdate: 0.1}},
		Channels: 3, Height: 8, Width: 8, Classes: 10, Precision: precision,
	}
	return func(samples int, inference bool) (*graph.Plan, error) {
		return spec.Compile(samples, graph.Options{Inference: inference, BucketBytes: 1, Aggregation: "4 workers"})
	}
}

// fill gives arenas random values: weights that keep activations at one scale, and per-channel values away from zero.
func fill(rng *rand.Rand, l *graph.Layout, arena []float32) {
	for _, s := range l.Slots {
		scale := 1 / math.Sqrt(float64(s.Shape.Values()/s.Shape[0])+1)
		for k := s.Offset; k < s.End(); k++ {
			arena[k] = float32(rng.NormFloat64() * scale)
			if len(s.Shape) == 1 {
				arena[k] = 0.5 + rng.Float32()
			}
		}
	}
}

// start gives an executor random parameters and statistics; equal seeds give equal values.
func start(t testing.TB, e graph.Executor, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	parameters, statistics := e.Layouts()
	fill(rng, parameters, e.Arena(graph.Parameters))
	fill(rng, statistics, e.Arena(graph.Statistics))
	for _, a := range []graph.Arena{graph.Parameters, graph.Statistics} {
		if err := e.Push(a); err != nil {
			t.Fatal(err)
		}
	}
}

// randomBatch has a sample of weight 0 where there is room for it.
func randomBatch(seed uint64, n, c, h, w, classes int) *graph.Batch {
	rng := rand.New(rand.NewPCG(seed, 2))
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

// cut is a worker's share of a batch.
func cut(b *graph.Batch, rank, workers int) *graph.Batch {
	from, to := b.N*rank/workers, b.N*(rank+1)/workers
	part := &graph.Batch{N: to - from, Divisor: b.Divisor}
	if b.N > 0 {
		values := len(b.Images) / b.N
		part.Images, part.Labels, part.Weights = b.Images[from*values:to*values], b.Labels[from:to], b.Weights[from:to]
	}
	return part
}

// fleet opens a fleet on the emulator.
func fleet(t *testing.T, source graph.Source, emulated emulator.Options, o cuda.Options) *cuda.Fleet {
	t.Helper()
	f, err := cuda.NewFleet(cudatest.Driver(t, emulated), source, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// pull returns a copy of an arena.
func pull(t *testing.T, e graph.Executor, a graph.Arena) []float32 {
	t.Helper()
	if err := e.Pull(a); err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), e.Arena(a)...)
}

// apart is the distance of got from want over want's norm, or over that of so many values of a typical size where want itself
// cancels to nothing.
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

// equal demands equal bits.
func equal(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// together does something for all workers at the same time, and returns the results and errors.
func together(workers int, do func(w int) (graph.Result, error)) (results []graph.Result, errs []error) {
	results, errs = make([]graph.Result, workers), make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() { results[w], errs[w] = do(w) })
	}
	all.Wait()
	return results, errs
}
