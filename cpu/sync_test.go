package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gotrain/configs"
	"gotrain/cpu"
	"gotrain/cpu/reference"
	"gotrain/graph"
	"gotrain/graph/graphtest"
	"gotrain/network"
)

// TestSynchronizedBatchNorm compares one worker's synchronized batch norm in every role with the reference executor, for
// every instruction set that the machine has. Buckets are small, so that the backward pass is cut for them too.
func TestSynchronizedBatchNorm(t *testing.T) {
	for _, c := range []struct {
		name      string
		precision graph.DType
		noFusion  bool
		limit     float64
		options   []cpu.Options
	}{
		{"float32", graph.Float32, false, 1e-5, []cpu.Options{{}, {Threads: 3}, {ISA: "avx512"}, {ISA: "avx2"}, {ISA: "portable"}}},
		{"float32 unfused", graph.Float32, true, 1e-5, []cpu.Options{{Threads: 3}}},
		{"bfloat16", graph.BFloat16, false, 0.05, []cpu.Options{{}, {ISA: "avx512"}, {ISA: "avx2"}, {ISA: "portable"}}},
		{"bfloat16 unfused", graph.BFloat16, true, 0.05, []cpu.Options{{}}},
	} {
		for k, o := range operations {
			if !strings.Contains(o.name, "batch norm") && !strings.Contains(o.name, "residual") {
				continue
			}
			synchronized := func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
				n.Sync = true
				return o.body(g, x, n)
			}
			values := func(seed uint64) *expected {
				rng := rand.New(rand.NewPCG(uint64(k), seed))
				n, in, h, w := 2+rng.IntN(3), 1+rng.IntN(4), 5+rng.IntN(13), 5+rng.IntN(13) // more than a chunk of pixels, at times
				return expect(t, rng, source(synchronized, o.channels, in, h, w, c.precision, graph.Options{NoFusion: c.noFusion, BucketBytes: 1 << 12}), n, n+1)
			}
			t.Run(c.name+"/"+o.name, func(t *testing.T) {
				x := values(1)
				for _, options := range c.options {
					t.Run(fmt.Sprintf("%+v", options), func(t *testing.T) { x.check(t, options, c.limit, values) })
				}
			})
		}
	}
}

// synced is the source of a network of the project whose batch norm may be synchronized.
func synced(form string, depth int, shortcut string, side int, precision graph.DType, sync bool) graph.Source {
	s := network.Spec{
		Config: configs.Network{Type: "resnet", Form: form, Depth: depth, Shortcut: shortcut,
			BatchNorm: configs.BatchNorm{Epsilon: 1e-5, NormalizationTimeConstant: 100, Sync: sync}},
		Channels: 3, Height: side, Width: side, Classes: 5, Precision: precision,
	}
	return func(samples int, inference bool) (*graph.Plan, error) {
		return s.Compile(samples, graph.Options{Inference: inference, BucketBytes: 1 << 14})
	}
}

// part is the samples [from, to) of a batch, divided by the whole's divisor.
func part(b *graph.Batch, from, to int) *graph.Batch {
	if from == to {
		return &graph.Batch{Divisor: b.Divisor}
	}
	each := len(b.Images) / b.N
	return &graph.Batch{N: to - from, Images: b.Images[from*each : to*each], Labels: b.Labels[from:to], Weights: b.Weights[from:to], Divisor: b.Divisor}
}

// trained is what steps leave.
type trained struct {
	results                []graph.Result
	gradients              []float32 // of the first step
	parameters, statistics []float32
}

// train takes two steps with each executor, worker r on the samples [cuts[r], cuts[r+1]) of each batch.
func train(t *testing.T, workers []executor, batches []*graph.Batch, cuts []int) []trained {
	t.Helper()
	all := make([]trained, len(workers))
	if err := graphtest.Run(len(workers), func(r int, w *graphtest.Worker) error {
		e, o := workers[r], &all[r]
		parameters, statistics := e.Layouts()
		network.Initialize(parameters, 1, e.Arena(graph.Parameters))
		network.Initialize(statistics, 1, e.Arena(graph.Statistics))
		w.Gradients = e.Arena(graph.Gradients)
		for i, b := range batches {
			result, err := e.Step(part(b, cuts[r], cuts[r+1]), graph.Update{Rule: graph.SGD, Rate: 0.05, Gain: 1}, w)
			if err != nil {
				return err
			}
			o.results = append(o.results, result)
			if i == 0 {
				o.gradients = slices.Clone(e.Arena(graph.Gradients))
			}
		}
		if w.Gathers == 0 && len(workers) > 1 {
			t.Errorf("worker %d gathers nothing", r)
		}
		o.parameters, o.statistics = slices.Clone(e.Arena(graph.Parameters)), slices.Clone(e.Arena(graph.Statistics))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// Workers with uneven shares, one of them empty, make together what one worker makes of the whole minibatch.
//
// An input of ReLU within rounding of zero flips it, and with it gradients: what is off with some values but not with
// others is no fault.
func TestWorkersEqualOneWorker(t *testing.T) {
	fast := func(o cpu.Options) opener {
		return func(t *testing.T, s graph.Source) executor { return open(t, s, o) }
	}
	slow := func(t *testing.T, s graph.Source) executor {
		e, err := reference.New(s)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, c := range []struct {
		name     string
		form     string
		depth    int
		shortcut string
		side     int
		open     opener
		limit    float64 // over a tensor's norm
	}{
		{"reference resnet8 A", "cifar", 8, "A", 9, slow, 1e-6},
		{"resnet8 A", "cifar", 8, "A", 9, fast(cpu.Options{Threads: 1, Batch: 8}), 2e-5},
		{"resnet20 B", "cifar", 20, "B", 16, fast(cpu.Options{Threads: 2, Batch: 4}), 2e-5},
		{"resnet20 B avx2", "cifar", 20, "B", 16, fast(cpu.Options{Threads: 1, Batch: 4, ISA: "avx2"}), 2e-5},
		{"resnet18 B", "imagenet", 18, "B", 17, fast(cpu.Options{Threads: 2, Batch: 4}), 2e-5},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.form == "imagenet" {
				t.Skip("takes seconds")
			}
			one := []executor{c.open(t, synced(c.form, c.depth, c.shortcut, c.side, graph.Float32, false))}
			var workers []executor
			for range len(uneven) - 1 {
				workers = append(workers, c.open(t, synced(c.form, c.depth, c.shortcut, c.side, graph.Float32, true)))
			}
			for seed := uint64(1); ; seed++ {
				batches := sixteens(seed, c.side)
				want := train(t, one, batches, []int{0, 16})[0]
				all := train(t, workers, batches, uneven)
				for r, o := range all {
					if !slices.Equal(o.parameters, all[0].parameters) || !slices.Equal(o.statistics, all[0].statistics) || !slices.Equal(o.results, all[0].results) {
						t.Errorf("worker %d ends with other bits than worker 0", r)
					}
				}
				if again := train(t, workers, batches, uneven)[0]; !slices.Equal(again.parameters, all[0].parameters) {
					t.Error("two runs differ")
				}
				faults := all[0].compare(t, want, workers[0], c.limit)
				if len(faults) == 0 {
					return
				}
				if seed == 4 {
					t.Fatal(strings.Join(faults, "\n"))
				}
				t.Logf("trying other values, since %s", faults[0])
			}
		})
	}
}

// uneven are the shares of 16 samples of 4 workers.
var uneven = []int{0, 5, 8, 8, 16}

// sixteens are two batches of 16 samples.
func sixteens(seed uint64, side int) (batches []*graph.Batch) {
	rng := rand.New(rand.NewPCG(1, seed))
	for range 2 {
		b := randomBatch(rng, 16, 3, side, side, 5)
		b.Divisor = 16
		batches = append(batches, b)
	}
	return batches
}

// In bfloat16 some ReLU flips always, so that workers are asked to be as near to float32 as one worker is.
func TestWorkersInBFloat16AreAsNearAsOneWorker(t *testing.T) {
	near := func(precision graph.DType, sync bool, cuts []int) trained {
		var workers []executor
		for range len(cuts) - 1 {
			workers = append(workers, open(t, synced("cifar", 8, "B", 16, precision, sync), cpu.Options{Threads: 1, Batch: 4}))
		}
		all := train(t, workers, sixteens(1, 16), cuts)
		for r, o := range all {
			if !slices.Equal(o.parameters, all[0].parameters) || !slices.Equal(o.statistics, all[0].statistics) {
				t.Errorf("worker %d ends with other bits than worker 0", r)
			}
		}
		return all[0]
	}
	whole := []int{0, 16}
	exact, one, four := near(graph.Float32, false, whole), near(graph.BFloat16, false, whole), near(graph.BFloat16, true, uneven)
	for _, c := range []struct {
		what             string
		four, one, exact []float32
	}{
		{"gradients", four.gradients, one.gradients, exact.gradients},
		{"running statistics", four.statistics, one.statistics, exact.statistics},
	} {
		off, limit := apart(c.four, c.exact, 0), apart(c.one, c.exact, 0)
		t.Logf("%s are %.2g from float32, those of one worker %.2g", c.what, off, limit)
		if !(off <= 1.5*limit) {
			t.Errorf("%s are %.2g from float32, those of one worker %.2g", c.what, off, limit)
		}
	}
}

// opener opens an executor of some kind.
type opener func(t *testing.T, s graph.Source) executor

// compare says what is off by more than a limit from one worker's outcome.
func (o trained) compare(t *testing.T, want trained, e executor, limit float64) (faults []string) {
	worst := map[string]float64{}
	check := func(kind, what string, off float64) {
		if worst[kind] = max(worst[kind], off); !(off <= limit) {
			faults = append(faults, fmt.Sprintf("%s is off by %.2g, more than %.2g", what, off, limit))
		}
	}
	for i, r := range o.results {
		if w := want.results[i]; r.Count != w.Count {
			faults = append(faults, fmt.Sprintf("step %d counts %v, not %v", i, r.Count, w.Count))
		}
		check("losses", fmt.Sprintf("the loss of step %d", i), math.Abs(r.Loss/want.results[i].Loss-1))
	}
	parameters, statistics := e.Layouts()
	typical := size(want.gradients)
	for _, s := range parameters.Slots {
		check("gradients", "the gradient of "+s.Name, apart(o.gradients[s.Offset:s.End()], want.gradients[s.Offset:s.End()], typical/10))
	}
	for _, s := range statistics.Slots {
		check("running statistics", s.Name, apart(o.statistics[s.Offset:s.End()], want.statistics[s.Offset:s.End()], 0.01))
	}
	t.Logf("off at most: losses %.2g, gradients %.2g, running statistics %.2g", worst["losses"], worst["gradients"], worst["running statistics"])
	return faults
}
