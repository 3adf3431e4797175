package cuda_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"gotrain/configs"
	"gotrain/cuda"
	"gotrain/cuda/cudatest"
	"gotrain/cuda/emulator"
	"gotrain/graph"
	"gotrain/network"
)

// prepared is an executor of ResNet-20 with a resident set of made-up pictures of 3 x 32 x 32, and a batch of it.
func prepared(b testing.TB, precision string, samples int) (*cuda.Executor, *graph.Batch) {
	b.Helper()
	storage := graph.Float32
	if precision == "bfloat16" {
		storage = graph.BFloat16
	}
	spec := network.Spec{Config: configs.Network{Type: "resnet", Form: "cifar", Depth: 20, Shortcut: "B",
		BatchNorm: configs.BatchNorm{Epsilon: 1e-5, RunningUpdate: 0.1}}, Channels: 3, Height: 32, Width: 32, Classes: 10, Precision: storage}
	rng := rand.New(rand.NewPCG(1, 1))
	set := &graph.Resident{Pixels: make([]byte, 2048*3*32*32), Labels: make([]int32, 2048), Table: make([][256]float32, 3), Fill: make([]float32, 3)}
	for i := range set.Pixels {
		set.Pixels[i] = byte(rng.Uint32())
	}
	for c := range set.Table {
		for v := range set.Table[c] {
			set.Table[c][v] = (float32(v) - 128) / 64
		}
	}
	f, err := cuda.NewFleet(cudatest.Driver(b, emulator.Options{Workers: 2}), func(samples int, inference bool) (*graph.Plan, error) {
		return spec.Compile(samples, graph.Options{Inference: inference})
	}, cuda.Options{Batch: samples, TF32: precision == "tf32", Resident: set})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	e := f.Executor(0)
	start(b, e, 1)
	batch := &graph.Batch{N: samples, Divisor: float32(samples), Labels: make([]int32, samples), Weights: make([]float32, samples)}
	for i := range samples {
		batch.Labels[i], batch.Weights[i] = int32(rng.IntN(10)), 1
		batch.Plan = append(batch.Plan, graph.Sample{Index: int32(i % 2048), Y: int16(rng.IntN(9) - 4), X: int16(rng.IntN(9) - 4), Flip: rng.IntN(2) == 0})
	}
	return e, batch
}

// BenchmarkStep measures whole training steps of ResNet-20, with gathering and augmenting, and reports samples/s. On the emulator it
// says nothing of GPUs.
func BenchmarkStep(b *testing.B) {
	for _, precision := range []string{"float32", "tf32", "bfloat16"} {
		for _, samples := range []int{2, 128, 1024} {
			b.Run(precision+"/"+strconv.Itoa(samples), func(b *testing.B) {
				e, batch := prepared(b, precision, samples)
				for b.Loop() {
					if _, err := e.Step(batch, graph.Update{Rule: graph.Momentum, Rate: 1e-3, Momentum: 0.9, Gain: 1}, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(batch.N*b.N)/b.Elapsed().Seconds(), "samples/s")
			})
		}
	}
}

// BenchmarkOperations shows where the time of a step goes, by kind of operation.
func BenchmarkOperations(b *testing.B) {
	for _, precision := range []string{"float32", "bfloat16"} {
		for _, samples := range []int{2, 128, 1024} {
			b.Run(precision+"/"+strconv.Itoa(samples), func(b *testing.B) {
				e, batch := prepared(b, precision, samples)
				plan := e.Plan()
				sums, steps := make([]float64, len(plan.Ops)), 0
				for b.Loop() {
					seconds, err := e.Profile(batch)
					if err != nil {
						b.Fatal(err)
					}
					for i, s := range seconds {
						sums[i] += s
					}
					steps++
				}
				var text strings.Builder
				byKind(&text, plan, sums, steps)
				fmt.Print("\n", text.String()) // b.Log shortens it
			})
		}
	}
}

// byKind sums times by the kind of operation and the channels of its result.
func byKind(w io.Writer, plan *graph.Plan, seconds []float64, steps int) {
	times, total := map[string]float64{}, 0.0
	for i, o := range plan.Ops[:plan.Backward] {
		what := o.Kind.String()
		if len(o.Out[0].Shape) == 4 && o.Kind != graph.ConvBackwardWeights {
			what += fmt.Sprintf(", %d channels", o.Out[0].Shape[1])
		}
		times[what] += seconds[i] / float64(steps)
		total += seconds[i] / float64(steps)
	}
	kinds := make([]string, 0, len(times))
	for k := range times {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b)) })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range kinds {
		fmt.Fprintf(t, "%s\t%.1f µs\t%.1f %%\n", k, 1e6*times[k], 100*times[k]/total)
	}
	t.Flush()
}

func TestProfileTimesEveryOperation(t *testing.T) {
	e, batch := prepared(t, "float32", 1)
	seconds, err := e.Profile(batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(seconds) != e.Plan().Backward {
		t.Errorf("%d times for %d operations", len(seconds), e.Plan().Backward)
	}
	for i, s := range seconds {
		if s <= 0 {
			t.Errorf("%s took %g s", e.Plan().Ops[i].Name, s)
		}
	}
}
