package cuda_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"gotrain/cpu"
	"gotrain/cuda"
	"gotrain/cuda/emulator"
	"gotrain/distributed"
	"gotrain/distributed/group"
	"gotrain/graph"
)

const workers = 4

// aggregator is what both packages' aggregators have.
type aggregator interface {
	Step(step int64, bits int, stop bool) graph.Exchange
	Stop() bool
	Residuals() (worker, owner []float32, owed bool, err error)
}

// crew is workers with aggregators.
type crew struct {
	executors   []graph.Executor
	aggregators []aggregator
}

func (c *crew) residuals(t *testing.T, w int) (worker, owner []float32, owed bool) {
	t.Helper()
	worker, owner, owed, err := c.aggregators[w].Residuals()
	if err != nil {
		t.Fatal(err)
	}
	return worker, owner, owed
}

// onDevices are the workers of a fleet that aggregates by itself.
func onDevices(t *testing.T, f *cuda.Fleet, s distributed.Settings) *crew {
	t.Helper()
	c := &crew{}
	for w := range f.Workers() {
		a, err := f.Executor(w).NewAggregator(s)
		if err != nil {
			t.Fatal(err)
		}
		c.executors, c.aggregators = append(c.executors, f.Executor(w)), append(c.aggregators, a)
	}
	return c
}

// onHost are executors whose gradients package distributed aggregates.
func onHost(t *testing.T, executors []graph.Executor, plan *graph.Plan, s distributed.Settings) *crew {
	t.Helper()
	c := &crew{executors: executors}
	for w, m := range group.Local(len(executors), time.Minute) {
		parameters, _ := executors[w].Layouts()
		c.aggregators = append(c.aggregators, distributed.New(m, parameters, plan.Buckets, executors[w].Arena(graph.Gradients), s))
	}
	return c
}

func executors(f *cuda.Fleet) (all []graph.Executor) {
	for w := range f.Workers() {
		all = append(all, f.Executor(w))
	}
	return all
}

// step trains all workers on their shares of a batch.
func (c *crew) step(number int64, bits int, b *graph.Batch) ([]graph.Result, []error) {
	n := len(c.executors)
	u := graph.Update{Rule: graph.Momentum, Rate: 0.05, Momentum: 0.9, Gain: 1, L2: 1e-4, Step: number}
	return together(n, func(w int) (graph.Result, error) {
		return c.executors[w].Step(cut(b, w, n), u, c.aggregators[w].Step(number, bits, w == 2 && number == 3))
	})
}

// must is step where nothing goes wrong and all workers come to the same.
func (c *crew) must(t *testing.T, number int64, bits int, b *graph.Batch) graph.Result {
	t.Helper()
	results, errs := c.step(number, bits, b)
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("step %d: %v", number, err)
	}
	for w, r := range results {
		if r != results[0] {
			t.Errorf("step %d: worker %d finds %+v, worker 0 %+v", number, w, r, results[0])
		}
	}
	return results[0]
}

// same demands that two crews have equal bits everywhere.
func same(t *testing.T, when string, got, want *crew) {
	t.Helper()
	for w := range got.executors {
		for a := range graph.Arenas {
			equal(t, fmt.Sprintf("%s: worker %d: %s", when, w, a), pull(t, got.executors[w], a), pull(t, want.executors[w], a))
		}
		worker, owner, owed := got.residuals(t, w)
		worker2, owner2, owed2 := want.residuals(t, w)
		if owed != owed2 {
			t.Fatalf("%s: worker %d owes: %v, want %v", when, w, owed, owed2)
		}
		equal(t, fmt.Sprintf("%s: worker %d: residuals", when, w), worker, worker2)
		equal(t, fmt.Sprintf("%s: worker %d: residuals of sums", when, w), owner, owner2)
	}
}

// minibatches have shares of equal and of different sizes, and shares of none.
func minibatches() []*graph.Batch {
	var all []*graph.Batch
	for i, n := range []int{8, 6, 3, 8, 4} {
		all = append(all, randomBatch(uint64(i), n, 3, 8, 8, 10))
	}
	return all
}

// A fleet does on devices what its executors and package distributed do through the host, to the bit: encoding, owners' sums, residuals
// and updates.
func TestDevicesAggregateAsTheHostDoes(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings distributed.Settings
		bits     []int // of each step
		emulated emulator.Options
	}{
		{"dense", distributed.Settings{Overlap: true, BucketBytes: 1 << 16}, []int{32, 32, 32}, emulator.Options{Devices: workers}},
		{"1 bit, and then dense", distributed.Settings{ZeroThreshold: true, Overlap: true, BucketBytes: 1 << 15}, []int{1, 1, 1, 32}, emulator.Options{Devices: workers}},
		{"1 bit by means, no overlap, no peers", distributed.Settings{BucketBytes: 1 << 17}, []int{1, 1}, emulator.Options{Devices: workers, NoPeers: true}},
		{"other bits on two devices", distributed.Settings{Overlap: true, Columns: 50}, []int{2, 4, 8, 16, 32}, emulator.Options{Devices: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src := resnet8(graph.Float32)
			o := cuda.Options{Workers: workers, Batch: 2}
			f, g := fleet(t, src, c.emulated, o), fleet(t, src, c.emulated, o)
			devices, host := onDevices(t, f, c.settings), onHost(t, executors(g), g.Executor(0).Plan(), c.settings)
			for w := range workers {
				start(t, devices.executors[w], 1)
				start(t, host.executors[w], 1)
			}
			for i, bits := range c.bits {
				b := minibatches()[i]
				got, want := devices.must(t, int64(i), bits, b), host.must(t, int64(i), bits, b)
				if got != want {
					t.Errorf("step %d: %+v, want %+v", i, got, want)
				}
				same(t, fmt.Sprintf("step %d", i), devices, host)
				if got, want := devices.aggregators[0].Stop(), i >= 3; got != want {
					t.Errorf("step %d: stop: %v, want %v", i, got, want)
				}
			}
		})
	}
}

// Two steps with 1 bit on four devices are those on the CPU, to rounding: no value is so near to zero that its bit is another.
func TestOneBitOnDevicesIsOneBitOnTheCPU(t *testing.T) {
	src := resnet8(graph.Float32)
	s := distributed.Settings{ZeroThreshold: true, Overlap: true, BucketBytes: 1 << 16}
	devices := onDevices(t, fleet(t, src, emulator.Options{Devices: workers}, cuda.Options{Workers: workers, Batch: 2}), s)
	var all []graph.Executor
	for range workers {
		e, err := cpu.New(src, cpu.Options{Threads: 1, Batch: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		all = append(all, e)
	}
	host := onHost(t, all, all[0].(*cpu.Executor).Plan(), s)
	for w := range workers {
		start(t, devices.executors[w], 1)
		start(t, host.executors[w], 1)
	}
	for i, b := range minibatches()[:2] {
		got, want := devices.must(t, int64(i), 1, b), host.must(t, int64(i), 1, b)
		if math.Abs(got.Loss-want.Loss) > 1e-5*want.Loss || got.Errors != want.Errors || got.Count != want.Count || math.Abs(got.Norm-want.Norm) > 1e-5*want.Norm {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
		for w := range workers {
			worker, owner, _ := devices.residuals(t, w)
			worker2, owner2, _ := host.residuals(t, w)
			for what, v := range map[string][2][]float32{
				"residuals": {worker, worker2}, "residuals of sums": {owner, owner2},
				"gradients": {pull(t, devices.executors[w], graph.Gradients), pull(t, host.executors[w], graph.Gradients)}} {
				if d := apart(v[0], v[1], 0); !(d <= 1e-5) {
					t.Errorf("step %d, worker %d: %s are %.2g from the CPU's", i, w, what, d)
				}
			}
		}
	}
}

// plain is a network without batch norm, so that the gradient of a batch is the sum of those of its parts.
func plain(g *graph.Graph, x *graph.Tensor, _ graph.Norm) *graph.Tensor { return x }

func unnormed(samples int, inference bool) (*graph.Plan, error) {
	g := graph.New(graph.Float32)
	in := g.Inputs(samples, 3, 6, 5)
	x := g.ReLU("r1", g.Conv("c1", in.Images, 10, 3, 1, 1))
	x = g.ReLU("r2", g.Conv("c2", x, 12, 3, 2, 1))
	g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", x), 5), in)
	return graph.Compile(g, graph.Options{Inference: inference, BucketBytes: 1})
}

func TestFourDevicesEqualOne(t *testing.T) {
	four := onDevices(t, fleet(t, unnormed, emulator.Options{Devices: workers}, cuda.Options{Workers: workers, Batch: 3}), distributed.Settings{Overlap: true})
	one := fleet(t, unnormed, emulator.Options{}, cuda.Options{Batch: 11}).Executor(0)
	for _, e := range append(four.executors, one) {
		start(t, e, 3)
	}
	for i := range 3 {
		b := randomBatch(uint64(i), 11, 3, 6, 5, 5)
		got := four.must(t, int64(i), 32, b)
		want, err := one.Step(b, graph.Update{Rule: graph.Momentum, Rate: 0.05, Momentum: 0.9, Gain: 1, L2: 1e-4, Step: int64(i)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Loss-want.Loss) > 1e-5*want.Loss || got.Errors != want.Errors || got.Count != want.Count {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
		for w, e := range four.executors {
			for _, a := range []graph.Arena{graph.Parameters, graph.Gradients} {
				if d := apart(pull(t, e, a), pull(t, one, a), 0); !(d <= 1e-5) {
					t.Errorf("step %d: the %s of worker %d are %.2g from those of one worker", i, a, w, d)
				}
			}
		}
	}
}

// Captured graphs do what the same work does when it is launched anew in every step.
func TestReplayedGraphsEqualEagerSteps(t *testing.T) {
	s := distributed.Settings{ZeroThreshold: true, Overlap: true, BucketBytes: 1 << 16}
	var crews []*crew
	for _, eager := range []bool{false, true} {
		f := fleet(t, resnet8(graph.BFloat16), emulator.Options{Devices: 2}, cuda.Options{Workers: 2, Batch: 4, Eager: eager})
		c := onDevices(t, f, s)
		for _, e := range c.executors {
			start(t, e, 1)
		}
		crews = append(crews, c)
	}
	for i, n := range []int{8, 8, 5, 8} {
		b := randomBatch(uint64(i), n, 3, 8, 8, 10)
		if got, want := crews[0].must(t, int64(i), 1, b), crews[1].must(t, int64(i), 1, b); got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
		same(t, fmt.Sprintf("step %d", i), crews[0], crews[1])
	}
}

// A gradient that is not finite stops all workers before anything is touched, and the error is the one that the host's aggregator gives.
func TestWhatIsNotFiniteChangesNothing(t *testing.T) {
	s := distributed.Settings{ZeroThreshold: true, Overlap: true, BucketBytes: 1 << 16}
	var f [2]*cuda.Fleet
	for i := range f {
		f[i] = fleet(t, resnet8(graph.Float32), emulator.Options{Devices: 2}, cuda.Options{Workers: 2, Batch: 4})
	}
	devices, host := onDevices(t, f[0], s), onHost(t, executors(f[1]), f[1].Executor(0).Plan(), s)
	for w := range 2 {
		start(t, devices.executors[w], 1)
		start(t, host.executors[w], 1)
	}
	good, bad := randomBatch(1, 8, 3, 8, 8, 10), randomBatch(2, 8, 3, 8, 8, 10)
	bad.Images[7*3*8*8] = float32(math.Inf(1)) // of worker 1
	devices.must(t, 1, 1, good)
	host.must(t, 1, 1, good)
	before := pull(t, devices.executors[0], graph.Parameters)
	_, got := devices.step(2, 1, bad)
	_, want := host.step(2, 1, bad)
	for w := range 2 {
		if got[w] == nil || want[w] == nil || got[w].Error() != want[w].Error() || !errors.As(got[w], new(*distributed.NotFiniteError)) {
			t.Errorf("worker %d: error %v, the host's is %v", w, got[w], want[w])
		}
	}
	equal(t, "parameters", pull(t, devices.executors[0], graph.Parameters), before)
	for w := range 2 {
		for i, e := range []*crew{devices, host} {
			worker, owner, _ := e.residuals(t, w)
			worker2, owner2, _ := host.residuals(t, w)
			equal(t, fmt.Sprint("residuals ", i), worker, worker2)
			equal(t, fmt.Sprint("residuals of sums ", i), owner, owner2)
		}
	}
}

// Without workers beside it, a step whose loss is not finite updates nothing.
func TestAStepThatIsNotFiniteIsNotTaken(t *testing.T) {
	e := fleet(t, unnormed, emulator.Options{}, cuda.Options{Batch: 3}).Executor(0)
	start(t, e, 1)
	before := pull(t, e, graph.Parameters)
	b := randomBatch(1, 3, 3, 6, 5, 5)
	b.Images[4] = float32(math.NaN())
	r, err := e.Step(b, graph.Update{Rule: graph.SGD, Rate: 1, Gain: 1}, nil)
	if err != nil || r.Finite() {
		t.Errorf("%+v, %v", r, err)
	}
	equal(t, "parameters", pull(t, e, graph.Parameters), before)
}

// The resident set and a sample plan give the images that the host would.
func TestResidentSetsGiveTheImagesOfTheirPlans(t *testing.T) {
	const n, c, h, w = 7, 3, 6, 5
	set := &graph.Resident{Pixels: make([]byte, n*c*h*w), Labels: make([]int32, n), Table: make([][256]float32, c), Fill: []float32{-1, -2, -3}}
	for i := range set.Pixels {
		set.Pixels[i] = byte(i * 37)
	}
	for i := range set.Labels {
		set.Labels[i] = int32(i % 5)
	}
	for k := range set.Table {
		for v := range set.Table[k] {
			set.Table[k][v] = float32(v-100*k) / 64
		}
	}
	samples := []graph.Sample{{Index: 3}, {Index: 6, Y: 2, X: -1}, {Index: 0, Y: -3, X: 4, Flip: true}, {Index: 3, X: 1, Flip: true}}
	planned := &graph.Batch{N: len(samples), Plan: samples, Divisor: 4, Weights: []float32{1, 1, 1, 1}}
	for _, s := range samples {
		planned.Labels = append(planned.Labels, set.Labels[s.Index])
	}
	drawn := *planned
	for _, s := range samples {
		for k := range c {
			for y := range h {
				for x := range w {
					fromY, fromX := y+int(s.Y), x+int(s.X)
					if s.Flip {
						fromX = w - 1 - x + int(s.X)
					}
					v := set.Fill[k]
					if fromY >= 0 && fromY < h && fromX >= 0 && fromX < w {
						v = set.Table[k][set.Pixels[((int(s.Index)*c+k)*h+fromY)*w+fromX]]
					}
					drawn.Images = append(drawn.Images, v)
				}
			}
		}
	}
	var e [2]*cuda.Executor
	for i, r := range []*graph.Resident{set, nil} {
		e[i] = fleet(t, unnormed, emulator.Options{}, cuda.Options{Batch: 4, Resident: r}).Executor(0)
		start(t, e[i], 1)
	}
	u := graph.Update{Rule: graph.SGD, Rate: 1, Gain: 1}
	got, err := e[0].Step(planned, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := e[1].Step(&drawn, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	equal(t, "parameters", pull(t, e[0], graph.Parameters), pull(t, e[1], graph.Parameters))

	for _, c := range []struct {
		spoil func(b *graph.Batch)
		want  string
	}{
		{func(b *graph.Batch) { b.Plan = nil }, "the batch has a plan of 0 samples, 4 labels and 4 weights for images [4x3x6x5]"},
		{func(b *graph.Batch) { b.Plan = []graph.Sample{{}, {Index: 7}, {}, {}} }, "sample 1 of the batch is number 7 of a set of 7"},
	} {
		b := *planned
		c.spoil(&b)
		if _, err := e[0].Step(&b, u, nil); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
