package cuda_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"gotrain/cpu/reference"
	"gotrain/cuda"
	"gotrain/cuda/cudatest"
	"gotrain/cuda/emulator"
	"gotrain/distributed"
	"gotrain/graph"
)

// Every rule does what the reference does, from moments that are not zero.
func TestUpdatesEqualTheReferences(t *testing.T) {
	fast := fleet(t, unnormed, emulator.Options{}, cuda.Options{Batch: 3}).Executor(0)
	slow, err := reference.New(unnormed)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		u    graph.Update
	}{
		{"sgd", graph.Update{Rule: graph.SGD, Rate: 0.1, Gain: 1}},
		{"sgd with L2 and a gain, clipped", graph.Update{Rule: graph.SGD, Rate: 0.1, Gain: 0.5, L2: 0.3, Clip: 0.01}},
		{"momentum with unit gain and L2", graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 0.1, L2: 0.3}},
		{"nesterov, clipped", graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 1, Nesterov: true, Clip: 0.01}},
		{"adam with a gain, L2", graph.Update{Rule: graph.Adam, Rate: 0.1, Gain: 0.5, L2: 0.3, Beta1: 0.9, Beta2: 0.99, Epsilon: 0.1, Step: 12}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, e := range []graph.Executor{fast, slow} {
				start(t, e, 1)
				rng := rand.New(rand.NewPCG(5, 6))
				for _, a := range []graph.Arena{graph.FirstMoment, graph.SecondMoment} {
					for _, s := range fast.Plan().Parameters.Slots {
						for k := s.Offset; k < s.End(); k++ {
							e.Arena(a)[k] = rng.Float32()
						}
					}
					if err := e.Push(a); err != nil {
						t.Fatal(i, err)
					}
				}
				if _, err := e.Step(randomBatch(7, 3, 3, 6, 5, 5), c.u, nil); err != nil {
					t.Fatal(err)
				}
			}
			for _, a := range []graph.Arena{graph.Parameters, graph.FirstMoment, graph.SecondMoment} {
				if d := apart(pull(t, fast, a), pull(t, slow, a), 0); !(d <= 1e-6) {
					t.Errorf("the %s are %.2g from the reference", a, d)
				}
			}
		})
	}
}

// A batch without samples leaves a gradient of zeros, and the rule applies all the same, as on the CPU.
func TestABatchOfNoSamplesStillDecays(t *testing.T) {
	e := fleet(t, unnormed, emulator.Options{}, cuda.Options{Batch: 2}).Executor(0)
	start(t, e, 1)
	before := pull(t, e, graph.Parameters)
	r, err := e.Step(&graph.Batch{Divisor: 3}, graph.Update{Rule: graph.SGD, Rate: 1, Gain: 1, L2: 0.5}, nil)
	if err != nil || r != (graph.Result{}) {
		t.Errorf("%+v, %v", r, err)
	}
	for i, v := range pull(t, e, graph.Parameters) {
		if v != before[i]/2 {
			t.Fatalf("parameter %d was %v and is %v, want half", i, before[i], v)
		}
	}
	if m, err := e.Evaluate(&graph.Batch{}, nil); err != nil || m != (graph.Metrics{}) {
		t.Errorf("evaluation: %+v, %v", m, err)
	}
}

// Larger batches than the first make memory grow, and what was prepared before is prepared again.
func TestLargerBatchesMakeRoom(t *testing.T) {
	e := fleet(t, unnormed, emulator.Options{}, cuda.Options{Batch: 1}).Executor(0)
	var losses []float64
	for _, n := range []int{1, 5, 1, 3, 5} {
		start(t, e, 1)
		r, err := e.Step(randomBatch(uint64(n), n, 3, 6, 5, 5), graph.Update{Rule: graph.SGD, Rate: 1, Gain: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, r.Loss)
	}
	if losses[0] != losses[2] || losses[1] != losses[4] || losses[1] == losses[3] {
		t.Errorf("losses of batches of 1, 5, 1, 3, 5 are %v", losses)
	}
}

func TestRefusals(t *testing.T) {
	open := func(emulated emulator.Options, source graph.Source, o cuda.Options) error {
		f, err := cuda.NewFleet(cudatest.Driver(t, emulated), source, o)
		if err == nil {
			return f.Close()
		}
		return err
	}
	e := fleet(t, unnormed, emulator.Options{}, cuda.Options{Batch: 3}).Executor(0)
	step := func(spoil func(*graph.Batch)) error {
		b := randomBatch(1, 3, 3, 6, 5, 5)
		spoil(b)
		_, err := e.Step(b, graph.Update{}, nil)
		return err
	}
	buffered := func() error {
		_, err := e.NewAggregator(distributed.Settings{DoubleBuffering: true})
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		want string // the beginning
	}{
		{"a device that is not there", open(emulator.Options{Devices: 2}, unnormed, cuda.Options{Devices: []int{2}}), "there is no device 2: emulator has 2"},
		{"too little memory", open(emulator.Options{Memory: 4 << 20}, unnormed, cuda.Options{Batch: 500}),
			"device 0 has no memory for activations of worker 0 (5.3 MiB): lower learner.minibatchSize, or give it fewer workers: activations of worker 0: "},
		{"a label that is no class", step(func(b *graph.Batch) { b.Labels[1] = 5 }), "sample 1 of the batch has label 5: labels go from 0 to 4"},
		{"too few pixels", step(func(b *graph.Batch) { b.Images = b.Images[1:] }), "the batch has 269 values, 3 labels and 3 weights for images [3x3x6x5]"},
		{"double buffering", buffered(), "devices do not aggregate with double buffering: take package distributed's aggregator"},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, c.err, c.want)
		}
	}
}

// The description has all streams of all devices, and every node but the first waits for one that stands before it.
func TestDescriptionsTellStreamsAndOrder(t *testing.T) {
	f := fleet(t, unnormed, emulator.Options{Devices: 2}, cuda.Options{Workers: 2, Batch: 2})
	onDevices(t, f, distributed.Settings{ZeroThreshold: true, Overlap: true})
	nodes, err := f.Describe(1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	roots := 0
	for i, n := range nodes {
		seen[n.Stream]++
		if n.Device != n.Worker {
			t.Errorf("%s of worker %d is on device %d", n.What, n.Worker, n.Device)
		}
		if len(n.After) == 0 {
			roots++
		}
		for _, a := range n.After {
			if a >= i {
				t.Errorf("node %d, %s, waits for node %d", i, n.What, a)
			}
		}
	}
	if seen["copy"] != 2 || seen["compute"] < 20 || seen["exchange"] < 10 || roots != 6 {
		t.Errorf("%d nodes by streams: %v, %d of them first", len(nodes), seen, roots)
	}
	alone, err := f.Describe(0)
	if err != nil || len(alone) >= len(nodes)/2 {
		t.Errorf("the step of one worker has %d nodes of %d (%v)", len(alone), len(nodes), err)
	}
	if last := alone[len(alone)-1]; last.What != "results" || len(last.After) != 1 {
		t.Errorf("the last node is %+v", last)
	}
}
