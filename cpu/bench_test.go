package cpu_test

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
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

// The limits of the machine that BenchmarkOperations compares with; those of 2 cores of an AMD EPYC of the Zen 4 generation.
var (
	peak      = flag.Float64("peak", 230, "GFLOP/s of float32 that the machine can do; in bfloat16 products are made in float32, too")
	bandwidth = flag.Float64("bandwidth", 75, "GB/s that the machine reads and writes from memory")
)

// BenchmarkOperations prints where the time of a ResNet-20 step goes: for each kind of operation and shape the median of
// several steps, beside the least that a direct computation would take by the limits above. It is what docs/performance.md
// shows. direct=true is without Winograd kernels, to compare versions of oneDNN layer by layer.
func BenchmarkOperations(b *testing.B) {
	for _, precision := range []graph.DType{graph.Float32, graph.BFloat16} {
		for _, direct := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/direct=%v", precision, direct), func(b *testing.B) {
				e, batch := prepare(b, 20, precision, direct)
				const steps = 15
				ops := e.Plan().Ops[:e.Plan().Backward]
				seconds := make([][]float64, len(ops))
				for b.Loop() {
					for range steps {
						s, err := e.Profile(batch)
						if err != nil {
							b.Fatal(err)
						}
						for i := range ops {
							seconds[i] = append(seconds[i], s[i])
						}
					}
				}
				printOperations(os.Stdout, fmt.Sprintf("%s, direct=%v", precision, direct), ops, seconds)
			})
		}
	}
}

// operationName is the kind of an operation with the shape of its first activation.
func operationName(o *graph.Op) string {
	name := o.Kind.String()
	for _, t := range append(slices.Clone(o.In), o.Out...) {
		if len(t.Shape) == 4 && t.Role != graph.Parameter && t.Role != graph.ParameterGradient {
			name += fmt.Sprintf(" %dx%dx%d", t.Shape[1], t.Shape[2], t.Shape[3])
			break
		}
	}
	if o.Attr.Kernel > 0 {
		name += fmt.Sprintf(", %dx%d/%d", o.Attr.Kernel, o.Attr.Kernel, o.Attr.Stride)
	}
	return name
}

func printOperations(out io.Writer, title string, ops []*graph.Op, seconds [][]float64) {
	type row struct {
		ms, gflop, mb, limit float64
		n                    int
	}
	rows, order, all := map[string]*row{}, []string{}, row{}
	for i, o := range ops {
		slices.Sort(seconds[i])
		gflop, mb := float64(o.FLOPs())*1e-9, 0.0
		for _, t := range append(slices.Clone(o.In), o.Out...) {
			mb += float64(t.Bytes()) * 1e-6
		}
		name := operationName(o)
		if rows[name] == nil {
			rows[name], order = &row{}, append(order, name)
		}
		for _, r := range []*row{rows[name], &all} {
			r.n++
			r.ms += 1e3 * seconds[i][len(seconds[i])/2]
			r.gflop += gflop
			r.mb += mb
			r.limit += max(1e3*gflop / *peak, mb / *bandwidth)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(rows[b].ms, rows[a].ms) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s\tcalls\tms\tlimit ms\tlimit/ms\tGFLOP/s\tGB/s\t\n", title)
	line := func(name string, r *row) {
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.0f %%\t%.0f\t%.0f\t\n", name, r.n, r.ms, r.limit, 100*r.limit/r.ms, r.gflop/r.ms*1e3, r.mb/r.ms)
	}
	for _, name := range order {
		line(name, rows[name])
	}
	line("all", &all)
	w.Flush()
}
