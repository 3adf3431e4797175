package cuda_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotrain/cuda"
	"gotrain/cuda/cudatest"
	"gotrain/cuda/cudnn"
	"gotrain/cuda/driver"
	"gotrain/cuda/emulator"
	"gotrain/cuda/kernels"
	"gotrain/distributed"
	"gotrain/graph"
)

// twin is a provider that computes with gotrain's kernels, so that its results are the same to the bit. It leaves gradients by weights
// packed, as cuDNN does.
type twin struct {
	times   func(p cudnn.Pass) int                       // how often it computes the same; nil: once
	refuses func(p cudnn.Pass, s kernels.ConvShape) bool // nil: never

	mu      sync.Mutex
	planned [3]int // by pass
	run     [3]int
	live    int // handles and plans that are not freed
}

func (t *twin) String() string { return "twin 1" }

func (t *twin) count(n *int, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n += by
}

func (t *twin) Start(d driver.Device) (cuda.Convolver, error) {
	set, err := kernels.Load(d)
	if err != nil {
		return nil, err
	}
	t.count(&t.live, 1)
	return &twinOn{t, set}, nil
}

type twinOn struct {
	*twin
	set *kernels.Set
}

func (t *twinOn) Close() error {
	t.count(&t.live, -1)
	return nil
}

func (t *twinOn) Plan(p cudnn.Pass, s kernels.ConvShape, m kernels.Math, workspace int) (cuda.Convolution, error) {
	if m == kernels.Mixed && p != cudnn.Forward || t.refuses != nil && t.refuses(p, s) {
		return nil, fmt.Errorf("%v%v: %w", p, s, cudnn.ErrUnsupported)
	}
	t.count(&t.planned[p], 1)
	t.count(&t.live, 1)
	c := &twinPlan{twinOn: t, pass: p, shape: s, math: m}
	if c.Workspace() > workspace {
		return nil, fmt.Errorf("%d bytes of workspace are too few", workspace)
	}
	return c, nil
}

type twinPlan struct {
	*twinOn
	pass  cudnn.Pass
	shape kernels.ConvShape
	math  kernels.Math
	freed bool
}

func (c *twinPlan) Workspace() int {
	if c.pass == cudnn.BackwardWeights {
		return c.shape.ScratchBytes(c.math)
	}
	return 0
}

func (c *twinPlan) Free() error {
	if c.freed {
		return errors.New("the plan was freed before")
	}
	c.freed = true
	c.count(&c.live, -1)
	return nil
}

func (c *twinPlan) Run(s driver.Stream, x, w, y, workspace driver.Pointer) error {
	if c.freed {
		return errors.New("the plan was freed")
	}
	c.count(&c.twin.run[c.pass], 1)
	times := 1
	if c.times != nil {
		times = c.times(c.pass)
	}
	for range times {
		var err error
		switch c.pass {
		case cudnn.Forward:
			err = s.Launch(c.set.ConvForward(c.shape, c.math, x, w, y))
		case cudnn.BackwardData:
			err = s.Launch(c.set.ConvBackwardData(c.shape, c.math, y, w, x))
		case cudnn.BackwardWeights: // partial sums, and their sums as if these were of a 1x1 convolution, which keeps their order
			flat := kernels.ConvShape{K: c.shape.K, C: c.shape.Kernel * c.shape.Kernel * kernels.Padded(c.shape.C), Kernel: 1}
			splits := c.Workspace() / (4 * flat.K * flat.C)
			err = s.Launch(c.set.ConvBackwardWeights(c.shape, c.math, x, y, 0, workspace)[0], c.set.SumWeights(flat, workspace, w, splits))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trained is what training on batches of several sizes, with an evaluation between, leaves.
func trained(t *testing.T, e graph.Executor) []float32 {
	t.Helper()
	start(t, e, 1)
	var out []float32
	for i, n := range []int{3, 2, 3, 5, 3} {
		b := randomBatch(uint64(i), n, 3, 8, 8, 10)
		if i == 2 {
			logits := make([]float32, n*10)
			if _, err := e.Evaluate(b, logits); err != nil {
				t.Fatal(err)
			}
			out = append(out, logits...)
		}
		if _, err := e.Step(b, graph.Update{Rule: graph.Momentum, Rate: 0.05, Momentum: 0.9, Gain: 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return append(out, pull(t, e, graph.Parameters)...)
}

// What a provider computes lands where package kernels' results do, in graphs and without, whatever the sizes of batches.
func TestProvidersComputeInPlace(t *testing.T) {
	for _, c := range []struct {
		name    string
		storage graph.DType
		options cuda.Options
		some    bool
	}{
		{"all", graph.Float32, cuda.Options{}, false},
		{"all, launched anew", graph.Float32, cuda.Options{Eager: true}, false},
		{"all in tf32", graph.Float32, cuda.Options{TF32: true}, false},
		{"all in bfloat16", graph.BFloat16, cuda.Options{}, false},
		{"some", graph.Float32, cuda.Options{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, p := resnet8(c.storage), &twin{}
			o := c.options
			o.Batch = 3
			own := fleet(t, src, emulator.Options{}, o)
			plan := own.Executor(0).Plan()
			if c.some { // of a layer
				i := slices.IndexFunc(plan.Ops, func(o *graph.Op) bool { return o.Kind == graph.ConvBackwardData })
				o.Chosen = &cuda.Choices{Forward: []string{plan.Ops[i].Name}, BackwardWeights: []string{plan.Ops[i].Name}}
			}
			o.Provider = p
			f, err := cuda.NewFleet(cudatest.Driver(t, emulator.Options{}), src, o)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "logits and parameters", trained(t, f.Executor(0)), trained(t, own.Executor(0)))
			var in [3]int // operations of a pass
			for _, o := range plan.Ops {
				switch o.Kind {
				case graph.Conv:
					in[cudnn.Forward]++
				case graph.ConvBackwardData:
					in[cudnn.BackwardData]++
				case graph.ConvBackwardWeights:
					in[cudnn.BackwardWeights]++
				}
			}
			if c.storage == graph.BFloat16 {
				in[cudnn.BackwardWeights]-- // of the images
			}
			if c.some {
				in = [3]int{1, 0, 1}
			}
			// Programs: of 3, 2, an evaluation of 3, and of 5, which moves memory, so that that of 3 is made again.
			programs := p.planned[cudnn.Forward] / in[cudnn.Forward]
			if want := [3]int{programs * in[0], (programs - 1) * in[1], (programs - 1) * in[2]}; p.planned != want || programs < 4 {
				t.Errorf("planned %v, want %v", p.planned, want)
			}
			if err := f.Close(); err != nil || p.live != 0 {
				t.Errorf("%d handles and plans are left, %v", p.live, err)
			}
		})
	}
}

// Several workers aggregate what a provider has computed, on one device and on two.
func TestProvidersComputeForFleets(t *testing.T) {
	for _, devices := range []int{1, 2} {
		p := &twin{}
		var crews []*crew
		for _, o := range []cuda.Options{{Workers: 2, Batch: 2}, {Workers: 2, Batch: 2, Provider: p}} {
			f, err := cuda.NewFleet(cudatest.Driver(t, emulator.Options{Devices: devices}), resnet8(graph.Float32), o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := f.Close(); err != nil || p.live != 0 && o.Provider != nil {
					t.Errorf("%d handles and plans are left, %v", p.live, err)
				}
			}()
			c := onDevices(t, f, distributed.Settings{ZeroThreshold: true, Overlap: true})
			for _, e := range c.executors {
				start(t, e, 3)
			}
			for i, n := range []int{4, 3} {
				c.must(t, int64(i+1), 1, randomBatch(uint64(i), n, 3, 8, 8, 10))
			}
			crews = append(crews, c)
		}
		same(t, fmt.Sprintf("%d devices", devices), crews[1], crews[0])
	}
}

// The description says who computes what.
func TestDescriptionsNameProviders(t *testing.T) {
	f := fleet(t, unnormed, emulator.Options{}, cuda.Options{Provider: &twin{}, Batch: 2})
	nodes, err := f.Describe(0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, node := range nodes {
		if strings.HasSuffix(node.What, ", by twin 1") {
			n++
		}
	}
	if want := 2 + 2 + 1; n != want {
		t.Errorf("%d operations by the provider, want %d: %+v", n, want, nodes)
	}
}

func TestWhatAProviderRefuses(t *testing.T) {
	p := &twin{refuses: func(p cudnn.Pass, s kernels.ConvShape) bool { return p == cudnn.BackwardData }}
	_, err := cuda.NewFleet(cudatest.Driver(t, emulator.Options{}), unnormed, cuda.Options{Provider: p, Batch: 2})
	const want = "c2: conv backward data: gradient by data of 3x3 convolution by 2 with padding 1 of 2x6x5x10 to 12 channels: " +
		"cuDNN has no engine for it that is as precise, gives the same in every run and is content with the workspace: set network.convolution to auto"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if p.live != 0 {
		t.Errorf("%d handles and plans are left", p.live)
	}
	// What was chosen for another number of samples, and is too much for it with this one, is gotrain's.
	p = &twin{refuses: func(p cudnn.Pass, s kernels.ConvShape) bool { return s.N == 3 }}
	o := cuda.Options{Provider: p, Batch: 2, Chosen: &cuda.Choices{Forward: []string{"c1", "c2"}}}
	e := fleet(t, unnormed, emulator.Options{}, o).Executor(0)
	start(t, e, 1)
	for _, n := range []int{2, 3} {
		if _, err := e.Step(randomBatch(1, n, 3, 6, 5, 5), graph.Update{Rule: graph.SGD, Rate: 1, Gain: 1}, nil); err != nil {
			t.Error(err)
		}
	}
	if p.planned != [3]int{2, 0, 0} {
		t.Errorf("planned %v, want the 2 convolutions of 2 samples", p.planned)
	}
}

// The faster is taken in each pass, and what was measured is said of each layer.
func TestTheFasterIsChosen(t *testing.T) {
	p := &twin{
		times: func(p cudnn.Pass) int {
			return [...]int{cudnn.Forward: 0, cudnn.BackwardData: 4, cudnn.BackwardWeights: 0}[p]
		},
		refuses: func(p cudnn.Pass, s kernels.ConvShape) bool {
			return p == cudnn.BackwardWeights && s.C == 3
		},
	}
	for _, storage := range []graph.DType{graph.Float32, graph.BFloat16} {
		plan, err := resnet8(storage)(2, false)
		if err != nil {
			t.Fatal(err)
		}
		c, err := cuda.ChooseConvolutions(cudatest.Driver(t, emulator.Options{}), 0, plan, false, p)
		if err != nil {
			t.Fatal(err)
		}
		var forward, weights []string
		for _, o := range plan.Ops[:plan.Backward] {
			switch {
			case o.Kind == graph.Conv:
				forward = append(forward, o.Name)
			case o.Kind == graph.ConvBackwardWeights && o.In[0] != plan.Inputs.Images:
				weights = append(weights, o.Name)
			}
		}
		if !slices.Equal(c.Forward, forward) || c.BackwardData != nil || !slices.Equal(c.BackwardWeights, weights) {
			t.Errorf("%+v\nwant %v and %v", c, forward, weights)
		}
		n := len(forward)
		if want := fmt.Sprintf("Convolutions: %d of %d by twin 1, the others by gotrain's kernels: the faster in each, as measured when the run began", 2*n-1, 3*n-1); c.String() != want {
			t.Errorf("says %s\nwant %s", c, want)
		}
		if l := c.Lines(); len(l) != n || !strings.HasPrefix(l[0], forward[0]+": forward by twin 1 in ") || !strings.HasSuffix(l[0], "; gradient by weights by gotrain, twin 1 cannot") ||
			!strings.Contains(l[1], "; gradient by data by gotrain in ") {
			t.Errorf("%d lines:\n%s", len(l), strings.Join(l, "\n"))
		}
		if p.live != 0 {
			t.Errorf("%d handles and plans are left", p.live)
		}
	}
	if got := (&cuda.Choices{}).String(); got != "Convolutions: all by gotrain's kernels" {
		t.Error(got)
	}
}

// libraries compiles a libcuda and a libcudnn that stand in for NVIDIA's, and lets them be found.
func libraries(t *testing.T) (log string) {
	t.Helper()
	if cudatest.OnGPUs() {
		t.Skip("this machine's own libcuda is in use")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no gcc, which compiles the libraries for this test")
	}
	dir := t.TempDir()
	for source, library := range map[string]string{"cudnn/testdata/fake.c": "libcudnn.so.9", "driver/testdata/fake.c": "libcuda.so.1"} {
		if out, err := exec.Command("gcc", "-O1", "-shared", "-fPIC", "-o", filepath.Join(dir, library), source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	log = filepath.Join(dir, "log")
	t.Setenv("GOTRAIN_LIBCUDNN", filepath.Join(dir, "libcudnn.so.9"))
	t.Setenv("GOTRAIN_LIBCUDA", filepath.Join(dir, "libcuda.so.1"))
	t.Setenv("FAKE_CUDNN_LOG", log)
	return log
}

// cuDNN itself is called as it is on GPUs: through a driver's own devices and streams, in graphs, and all is given back. Libraries that
// stand in compute no kernels, and convolutions at once, when they are captured.
func TestCuDNNIsAProvider(t *testing.T) {
	log := libraries(t)
	d, err := driver.Open()
	if err != nil {
		t.Fatal(err)
	}
	l, err := cudnn.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, storage := range []graph.DType{graph.Float32, graph.BFloat16} {
		f, err := cuda.NewFleet(d, resnet8(storage), cuda.Options{Provider: cuda.CuDNN(l), Batch: 3, Devices: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		trained(t, f.Executor(0))
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if text, _ := os.ReadFile(log); string(text) != "left 0\n" {
			t.Errorf("%q", text)
		}
		os.Remove(log)
	}
	plan, err := resnet8(graph.Float32)(2, false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cuda.ChooseConvolutions(d, 0, plan, true, cuda.CuDNN(l))
	if err != nil || c.Provider != "cuDNN 9.10.2" || len(c.Lines()) == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("FAKE_CUDNN_ENGINES", "3") // whose results differ from run to run
	t.Setenv("FAKE_CUDNN_FAIL", "cudnnBackendFinalize/5=3000")
	_, err = cuda.NewFleet(d, resnet8(graph.Float32), cuda.Options{Provider: cuda.CuDNN(l), Batch: 3, Devices: []int{0}})
	if !errors.Is(err, cudnn.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
