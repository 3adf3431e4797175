package pipeline

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/configs"
	"gotrain/cpu"
	"gotrain/cpu/reference"
	"gotrain/cuda"
	"gotrain/cuda/cudatest"
	"gotrain/cuda/emulator"
	"gotrain/graph"
	"gotrain/internal/safetensors"
	"gotrain/network"
)

// goldenExecutors are the executors that every golden file is run on.
var goldenExecutors = []struct {
	name      string
	precision graph.DType
	open      func(graph.Source) (graph.Executor, error)
}{
	{"reference", graph.Float32, func(s graph.Source) (graph.Executor, error) { return reference.New(s) }},
	{"cpu", graph.Float32, func(s graph.Source) (graph.Executor, error) { return cpu.New(s, cpu.Options{}) }},
	{"cpu direct", graph.Float32, func(s graph.Source) (graph.Executor, error) { return cpu.New(s, cpu.Options{Direct: true}) }},
	{"cpu bfloat16", graph.BFloat16, func(s graph.Source) (graph.Executor, error) { return cpu.New(s, cpu.Options{}) }},
	{"cuda", graph.Float32, onGPU},
	{"cuda bfloat16", graph.BFloat16, onGPU},
}

// onGPU opens an executor on an emulated GPU, or on a real one where the tests are to.
func onGPU(s graph.Source) (graph.Executor, error) {
	d, err := cudatest.Open(emulator.Options{})
	if err != nil {
		return nil, err
	}
	f, err := cuda.NewFleet(d, s, cuda.Options{})
	if err != nil {
		return nil, err
	}
	return f.Executor(0), nil
}

// The limits of what rounding may do.
const (
	goldenTolerance  = 2e-4 // float32: of a tensor's norm
	bfloat16Loss     = 0.01 // of the first loss
	bfloat16Cosine   = 0.8  // of each tensor's gradient with the golden one
	bfloat16Together = 0.97 // of all gradients as one vector
)

// TestGolden runs the training steps of every golden file beside this test and in the folder that GOTRAIN_GOLDEN names.
func TestGolden(t *testing.T) {
	for _, folder := range []string{filepath.Join("testdata", "golden"), os.Getenv("GOTRAIN_GOLDEN")} {
		if folder == "" {
			continue
		}
		paths, err := filepath.Glob(filepath.Join(folder, "*.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, path := range paths {
			g, err := openGolden(path)
			if err != nil {
				t.Fatal(err)
			}
			if g == nil { // of quantization, not of training
				continue
			}
			found = true
			t.Run(strings.TrimSuffix(filepath.Base(path), ".safetensors"), func(t *testing.T) {
				for _, x := range goldenExecutors {
					t.Run(x.name, func(t *testing.T) { g.check(t, x.precision, x.open) })
				}
			})
			g.file.Close()
		}
		if !found {
			t.Errorf("%s: no golden training file in this folder", folder)
		}
	}
}

// golden is a file of training steps.
type golden struct {
	file   *safetensors.File
	recipe struct {
		Depth             int
		Shortcut          string
		Channels          int
		ImageSize         int
		Classes           int
		Batch             int
		Steps             int
		LearningRate      float64
		Momentum          float64
		L2                float64
		Nesterov          bool
		UnitGain          bool
		BNEpsilon         float64
		BNRunningUpdate   float64
		BNRunningVariance string
		L2Applies         string
	}
}

// openGolden returns nil for a file without a recipe.
func openGolden(path string) (*golden, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	text, ok := f.Metadata()["recipe"]
	if !ok {
		return nil, f.Close()
	}
	g := &golden{file: f}
	if err := json.Unmarshal([]byte(text), &g.recipe); err != nil {
		return nil, fmt.Errorf("%s: recipe: %w", path, err)
	}
	if r := g.recipe; r.BNRunningVariance != "unbiased" || !strings.HasPrefix(r.L2Applies, "every parameter") {
		return nil, fmt.Errorf("%s: recipe: running variance %q with L2 on %q is another rule than this project's", path, r.BNRunningVariance, r.L2Applies)
	}
	return g, nil
}

// source compiles plans of the recipe's network.
func (g *golden) source(precision graph.DType) graph.Source {
	r := g.recipe
	spec := network.Spec{
		Config: configs.Network{Type: "resnet", Form: "cifar", Depth: r.Depth, Shortcut: r.Shortcut,
			BatchNorm: configs.BatchNorm{Epsilon: r.BNEpsilon, RunningUpdate: r.BNRunningUpdate}},
		Channels: r.Channels, Height: r.ImageSize, Width: r.ImageSize, Classes: r.Classes, Precision: precision,
	}
	return func(samples int, inference bool) (*graph.Plan, error) {
		return spec.Compile(samples, graph.Options{Inference: inference})
	}
}

// update is the recipe's rule.
func (g *golden) update(step int) graph.Update {
	r := g.recipe
	u := graph.Update{Rule: graph.Momentum, Rate: float32(r.LearningRate), Momentum: float32(r.Momentum), Gain: 1, L2: float32(r.L2),
		Nesterov: r.Nesterov, Step: int64(step)}
	if r.UnitGain {
		u.Gain = float32(1 - r.Momentum)
	}
	return u
}

// batch is that of one step.
func (g *golden) batch(t *testing.T, step int) *graph.Batch {
	r := g.recipe
	n, pixels := r.Batch, r.Channels*r.ImageSize*r.ImageSize
	b := &graph.Batch{N: n, Images: values[float32](t, g, "input")[step*n*pixels:][:n*pixels], Divisor: float32(n)}
	for _, l := range values[int64](t, g, "labels")[step*n:][:n] {
		b.Labels, b.Weights = append(b.Labels, int32(l)), append(b.Weights, 1)
	}
	return b
}

// values reads a tensor.
func values[T any](t *testing.T, g *golden, name string) []T {
	t.Helper()
	d, err := g.file.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := d.Data().([]T)
	if !ok {
		t.Fatalf("%s holds values of type %s", name, d.Dtype())
	}
	return v
}

// check runs the recipe.
func (g *golden) check(t *testing.T, precision graph.DType, open func(graph.Source) (graph.Executor, error)) {
	e, err := open(g.source(precision))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	g.start(t, e)

	losses := values[float64](t, g, "loss")
	for step := range g.recipe.Steps {
		b := g.batch(t, step)
		m, err := e.Step(b, g.update(step+1), nil)
		if err != nil {
			t.Fatal(err)
		}
		if m.Count != float64(b.N) {
			t.Errorf("step %d counts %v samples, want %d", step, m.Count, b.N)
		}
		loss := m.Loss / m.Count
		if step == 0 {
			if err := e.Pull(graph.Gradients); err != nil {
				t.Fatal(err)
			}
			if precision == graph.BFloat16 {
				g.checkRounded(t, e, loss, losses[0])
				return
			}
			// The interface of executors has no logits of training, as nothing but a test wants them: where an executor does not
			// give them, the loss stands for them.
			if l, ok := e.(interface{ Logits() []float32 }); ok {
				near(t, "logits", l.Logits(), values[float32](t, g, "logits"))
			}
			g.each(t, e, "grad/", graph.Gradients, func(name string, got, want []float32) { near(t, name, got, want) })
		}
		if off := math.Abs(loss-losses[step]) / losses[step]; !(off <= goldenTolerance) {
			t.Errorf("step %d: loss %v, want %v", step, loss, losses[step])
		}
	}
	for _, a := range []graph.Arena{graph.Parameters, graph.Statistics} {
		if err := e.Pull(a); err != nil {
			t.Fatal(err)
		}
		g.each(t, e, "after/", a, func(name string, got, want []float32) { near(t, name, got, want) })
	}
	logits := make([]float32, g.recipe.Batch*g.recipe.Classes)
	if _, err := e.Evaluate(g.batch(t, 0), logits); err != nil {
		t.Fatal(err)
	}
	near(t, "evalLogits", logits, values[float32](t, g, "evalLogits"))
}

// start loads the initial values, all of which have to have a place.
func (g *golden) start(t *testing.T, e graph.Executor) {
	given := 0
	for _, name := range g.file.Names() {
		if strings.HasPrefix(name, "init/") {
			given++
		}
	}
	for _, a := range []graph.Arena{graph.Parameters, graph.Statistics} {
		given -= g.each(t, e, "init/", a, func(_ string, place, init []float32) { copy(place, init) })
		if err := e.Push(a); err != nil {
			t.Fatal(err)
		}
	}
	if given != 0 {
		t.Fatalf("the file has initial values of %d tensors that the network lacks", given)
	}
}

// each visits the tensors of an arena with those of the file under a prefix, and counts them.
func (g *golden) each(t *testing.T, e graph.Executor, prefix string, a graph.Arena, visit func(name string, arena, file []float32)) int {
	t.Helper()
	layout, statistics := e.Layouts()
	if a == graph.Statistics {
		layout = statistics
	}
	for _, s := range layout.Slots {
		name := prefix + s.Name
		shape, _, ok := g.file.Shape(name)
		if !ok || !s.Shape.Equal(shape) {
			t.Fatalf("%s: the file has shape %v, the network %s", name, shape, s.Shape)
		}
		visit(name, e.Arena(a)[s.Offset:s.End()], values[float32](t, g, name))
	}
	return len(layout.Slots)
}

// checkRounded compares a step in bfloat16.
func (g *golden) checkRounded(t *testing.T, e graph.Executor, loss, want float64) {
	if off := math.Abs(loss-want) / want; !(off <= bfloat16Loss) {
		t.Errorf("first loss %v, want %v", loss, want)
	}
	var all [3]float64 // got*got, want*want, got*want
	worst := 1.0
	g.each(t, e, "grad/", graph.Gradients, func(name string, got, want []float32) {
		var p [3]float64
		for i := range got {
			x, y := float64(got[i]), float64(want[i])
			p[0], p[1], p[2] = p[0]+x*x, p[1]+y*y, p[2]+x*y
		}
		cosine := p[2] / math.Sqrt(p[0]*p[1])
		if !(cosine >= bfloat16Cosine) {
			t.Errorf("%s: cosine %.3f with the golden gradient, want %v at least", name, cosine, bfloat16Cosine)
		}
		worst = min(worst, cosine)
		for i := range all {
			all[i] += p[i]
		}
	})
	cosine := all[2] / math.Sqrt(all[0]*all[1])
	if !(cosine >= bfloat16Together) {
		t.Errorf("all gradients: cosine %.4f, want %v at least", cosine, bfloat16Together)
	}
	t.Logf("first loss off by %.2g, cosine %.4f, of the worst tensor %.3f", math.Abs(loss-want)/want, cosine, worst)
}

// near demands that got is within the tolerance of want, relative to want's norm.
func near(t *testing.T, name string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", name, len(got), len(want))
		return
	}
	var off, norm float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		off += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	if r := math.Sqrt(off) / (math.Sqrt(norm) + 1e-12); !(r <= goldenTolerance) {
		t.Errorf("%s: off by %.2g of its norm, want %g at most", name, r, goldenTolerance)
	}
}
