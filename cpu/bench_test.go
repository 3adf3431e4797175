package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"testing"
	"text/tabwriter"

	"gotrain/configs"
	"gotrain/cpu"
	"gotrain/graph"
	"gotrain/network"
)

// resnet compiles a CIFAR ResNet for the benchmarks.
func resnet(depth int, precision graph.DType) graph.Source {
	spec := network.Spec{Config: configs.Network{Type: "resnet", Form: "cifar", Depth: depth, Shortcut: "B",
		BatchNorm: configs.BatchNorm{Epsilon: 1e-5, RunningUpdate: 0.1}}, Channels: 3, Height: 32, Width: 32, Classes: 10, Precision: precision}
	return func(samples int, inference bool) (*graph.Plan, error) {
		return spec.Compile(samples, graph.Options{Inference: inference})
	}
}

// BenchmarkStep measures a whole training step on one minibatch of 128 and reports samples/s.
func BenchmarkStep(b *testing.B) {
	for _, depth := range []int{20, 110} {
		for _, precision := range []graph.DType{graph.Float32, graph.BFloat16} {
			for _, direct := range []bool{false, true} {
				b.Run(fmt.Sprintf("resnet%d/%s/direct=%v", depth, precision, direct), func(b *testing.B) {
					e, batch := prepare(b, depth, precision, direct)
					for b.Loop() {
						if _, err := e.Gradients(batch, nil); err != nil {
							b.Fatal(err)
						}
						if err := e.Update(graph.Update{Rule: graph.Momentum, Rate: 1e-3, Momentum: 0.9, Gain: 1}); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(batch.N*b.N)/b.Elapsed().Seconds(), "samples/s")
				})
			}
		}
	}
}

func prepare(b testing.TB, depth int, precision graph.DType, direct bool) (*cpu.Executor, *graph.Batch) {
	e, err := cpu.New(resnet(depth, precision), cpu.Options{Batch: 128, Direct: direct})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	parameters, statistics := e.Layouts()
	network.Initialize(parameters, 1, e.Arena(graph.Parameters))
	network.Initialize(statistics, 1, e.Arena(graph.Statistics))
	batch := randomBatch(rand.New(rand.NewPCG(1, 2)), 128, 3, 32, 32, 10)
	for range 2 {
		if _, err := e.Gradients(batch, nil); err != nil {
			b.Fatal(err)
		}
	}
	return e, batch
}

// BenchmarkOperations prints where the time of a ResNet-20 step goes: for each kind of operation and size of image the
// median of several steps. It is what docs/performance.md shows.
func BenchmarkOperations(b *testing.B) {
	for _, precision := range []graph.DType{graph.Float32, graph.BFloat16} {
		b.Run(precision.String(), func(b *testing.B) {
			e, batch := prepare(b, 20, precision, false)
			const steps = 15
			ops := e.Plan().Ops
			seconds := make([][]float64, len(ops))
			for b.Loop() {
				for range steps {
					s, err := e.Profile(batch)
					if err != nil {
						b.Fatal(err)
					}
					for i := range s {
						seconds[i] = append(seconds[i], s[i])
					}
				}
			}
			type row struct {
				ms, gflop, mb float64
				n             int
			}
			rows, order := map[string]*row{}, []string{}
			for i, o := range ops[:e.Plan().Backward] {
				sort.Float64s(seconds[i])
				name := o.Kind.String()
				for _, t := range append(slices.Clone(o.In), o.Out...) {
					if len(t.Shape) == 4 && t.Shape[0] == batch.N {
						name += fmt.Sprintf(" %d@%dx%d", t.Shape[1], t.Shape[2], t.Shape[3])
						break
					}
				}
				if o.Attr.Kernel > 0 {
					name += fmt.Sprintf(" k%d s%d", o.Attr.Kernel, o.Attr.Stride)
				}
				r := rows[name]
				if r == nil {
					r = &row{}
					rows[name], order = r, append(order, name)
				}
				r.n++
				r.ms += 1e3 * seconds[i][len(seconds[i])/2]
				r.gflop += float64(o.FLOPs()) * 1e-9
				for _, t := range append(slices.Clone(o.In), o.Out...) {
					r.mb += float64(t.Bytes()) * 1e-6
				}
			}
			w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintf(w, "\n%s\tcalls\tms\tGFLOP/s\tGB/s\t\n", precision)
			var total float64
			for _, name := range order {
				r := rows[name]
				total += r.ms
				fmt.Fprintf(w, "%s\t%d\t%.2f\t%.0f\t%.0f\t\n", name, r.n, r.ms, r.gflop/r.ms*1e3, r.mb/r.ms)
			}
			fmt.Fprintf(w, "all\t\t%.1f\t\t\t\n", total)
			w.Flush()
		})
	}
}
