package cuda_test

import (
	"math"
	"strings"
	"testing"

	"gotrain/cuda"
	"gotrain/cuda/emulator"
	"gotrain/distributed"
	"gotrain/graph"
)

// synced compiles a residual block with synchronized batch norms.
func synced(timeConstant float64, precision graph.DType) graph.Source {
	return func(samples int, inference bool) (*graph.Plan, error) {
		n := graph.Norm{Epsilon: 1e-5, Update: 0.1, Inference: inference, Sync: true, TimeConstant: timeConstant}
		g := graph.New(precision)
		in := g.Inputs(samples, 3, 6, 5)
		x := g.ReLU("r1", g.BatchNorm("b1", g.Conv("c1", in.Images, 10, 3, 1, 1), n))
		y := g.ReLU("r2", g.BatchNorm("b2", g.Conv("c2", x, 10, 3, 1, 1), n))
		x = g.ReLU("r3", g.Add("a", g.BatchNorm("b3", g.Conv("c3", y, 10, 3, 1, 1), n), x))
		g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", x), 5), in)
		return graph.Compile(g, graph.Options{Inference: inference, BucketBytes: 1})
	}
}

// Workers with synchronized batch norms do what one worker does with all of their images, shares of no samples included.
func TestSynchronizedBatchNormMakesWorkersEqualToOne(t *testing.T) {
	for _, c := range []struct {
		name  string
		time  float64
		limit float64
		p     graph.DType
		o     emulator.Options
	}{
		{"float32", 0, 2e-5, graph.Float32, emulator.Options{Devices: 2}},
		{"float32 with a time constant, no peers", 20, 2e-5, graph.Float32, emulator.Options{Devices: workers, NoPeers: true}},
		{"bfloat16", 0, 0.03, graph.BFloat16, emulator.Options{Devices: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := synced(c.time, c.p)
			four := onDevices(t, fleet(t, src, c.o, cuda.Options{Workers: workers, Batch: 2}), distributed.Settings{Overlap: true, BucketBytes: 2048})
			one := fleet(t, src, emulator.Options{}, cuda.Options{Batch: 9}).Executor(0)
			for _, e := range append(four.executors, one) {
				start(t, e, 3)
			}
			for i, n := range []int{9, 3, 9} {
				b := randomBatch(uint64(i), n, 3, 6, 5, 5)
				got := four.must(t, int64(i), 32, b)
				want, err := one.Step(b, graph.Update{Rule: graph.Momentum, Rate: 0.05, Momentum: 0.9, Gain: 1, L2: 1e-4, Step: int64(i)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(got.Loss-want.Loss) > c.limit*want.Loss || got.Count != want.Count {
					t.Errorf("step %d: %+v, want %+v", i, got, want)
				}
				for w, e := range four.executors {
					for _, a := range []graph.Arena{graph.Parameters, graph.Gradients, graph.Statistics} {
						if d := apart(pull(t, e, a), pull(t, one, a), 0); !(d <= c.limit) {
							t.Errorf("step %d: the %s of worker %d are %.2g from those of one worker", i, a, w, d)
						}
					}
				}
			}
		})
	}
}

func TestSynchronizedBatchNormDoesNotGoThroughTheHost(t *testing.T) {
	f := fleet(t, synced(0, graph.Float32), emulator.Options{}, cuda.Options{Batch: 2})
	c := onHost(t, executors(f), f.Executor(0).Plan(), distributed.Settings{})
	_, errs := c.step(1, 32, randomBatch(1, 2, 3, 6, 5, 5))
	if want := "network.batchNorm.sync: GPUs synchronize batch norms in one process only, and without double buffering: set it to false"; errs[0] == nil || !strings.HasPrefix(errs[0].Error(), want) {
		t.Errorf("error %v, want %q", errs[0], want)
	}
}
