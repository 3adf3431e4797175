package cuda_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
			src, p := resnet8(c.storage), &cudatest.Twin{}
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
			programs := p.Planned()[cudnn.Forward] / in[cudnn.Forward]
			if want := [3]int{programs * in[0], (programs - 1) * in[1], (programs - 1) * in[2]}; p.Planned() != want || programs < 4 {
				t.Errorf("planned %v, want %v", p.Planned(), want)
			}
			if err := f.Close(); err != nil || p.Live() != 0 {
				t.Errorf("%d handles and plans are left, %v", p.Live(), err)
			}
		})
	}
}

// Several workers aggregate what a provider has computed, on one device and on two.
func TestProvidersComputeForFleets(t *testing.T) {
	for _, devices := range []int{1, 2} {
		p := &cudatest.Twin{}
		var crews []*crew
		for _, o := range []cuda.Options{{Workers: 2, Batch: 2}, {Workers: 2, Batch: 2, Provider: p}} {
			f, err := cuda.NewFleet(cudatest.Driver(t, emulator.Options{Devices: devices}), resnet8(graph.Float32), o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := f.Close(); err != nil || p.Live() != 0 && o.Provider != nil {
					t.Errorf("%d handles and plans are left, %v", p.Live(), err)
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
	f := fleet(t, unnormed, emulator.Options{}, cuda.Options{Provider: &cudatest.Twin{}, Batch: 2})
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
	p := &cudatest.Twin{Refuses: func(p cudnn.Pass, s kernels.ConvShape) bool { return p == cudnn.BackwardData }}
	_, err := cuda.NewFleet(cudatest.Driver(t, emulator.Options{}), unnormed, cuda.Options{Provider: p, Batch: 2})
	const want = "c2: conv backward data: gradient by data of 3x3 convolution by 2 with padding 1 of 2x6x5x10 to 12 channels: " +
		"cuDNN has no engine for it that is as precise, gives the same in every run and is content with the workspace: set network.convolution to auto"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if p.Live() != 0 {
		t.Errorf("%d handles and plans are left", p.Live())
	}
	// What was chosen for another number of samples, and is too much for it with this one, is gotrain's.
	p = &cudatest.Twin{Refuses: func(p cudnn.Pass, s kernels.ConvShape) bool { return s.N == 3 }}
	o := cuda.Options{Provider: p, Batch: 2, Chosen: &cuda.Choices{Forward: []string{"c1", "c2"}}}
	e := fleet(t, unnormed, emulator.Options{}, o).Executor(0)
	start(t, e, 1)
	for _, n := range []int{2, 3} {
		if _, err := e.Step(randomBatch(1, n, 3, 6, 5, 5), graph.Update{Rule: graph.SGD, Rate: 1, Gain: 1}, nil); err != nil {
			t.Error(err)
		}
	}
	if p.Planned() != [3]int{2, 0, 0} {
		t.Errorf("planned %v, want the 2 convolutions of 2 samples", p.Planned())
	}
}

// The faster is taken in each pass, and what was measured is said of each layer.
func TestTheFasterIsChosen(t *testing.T) {
	p := &cudatest.Twin{
		Times: func(p cudnn.Pass) int {
			return [...]int{cudnn.Forward: 0, cudnn.BackwardData: 0, cudnn.BackwardWeights: 8}[p]
		},
		Refuses: func(p cudnn.Pass, s kernels.ConvShape) bool {
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
		var forward, data []string
		for _, o := range plan.Ops[:plan.Backward] {
			switch {
			case o.Kind == graph.Conv:
				forward = append(forward, o.Name)
			case o.Kind == graph.ConvBackwardData:
				data = append(data, o.Name)
			}
		}
		if !slices.Equal(c.Forward, forward) || !slices.Equal(c.BackwardData, data) || c.BackwardWeights != nil {
			t.Errorf("%+v\nwant %v and %v", *c, forward, data)
		}
		n := len(forward)
		if want := fmt.Sprintf("Convolutions: %d of %d by twin 1, the others by gotrain's kernels: the faster in each, as measured when the run began", 2*n-1, 3*n-1); c.String() != want {
			t.Errorf("says %s\nwant %s", c, want)
		}
		if l := c.Lines(); len(l) != n || !strings.HasPrefix(l[0], forward[0]+": forward by twin 1 in ") || !strings.HasSuffix(l[0], "; gradient by weights by gotrain, twin 1 cannot") ||
			!strings.Contains(l[1], "; gradient by weights by gotrain in ") {
			t.Errorf("%d lines:\n%s", len(l), strings.Join(l, "\n"))
		}
		if p.Live() != 0 {
			t.Errorf("%d handles and plans are left", p.Live())
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

// A provider that does not start is told from what keeps gotrain's kernels from being measured.
func TestAProviderThatDoesNotStart(t *testing.T) {
	libraries(t)
	d, err := driver.Open()
	if err != nil {
		t.Fatal(err)
	}
	l, err := cudnn.Open()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := unnormed(2, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_CUDNN_FAIL", "cudnnCreate=1001")
	_, err = cuda.ChooseConvolutions(d, 0, plan, false, cuda.CuDNN(l))
	if want := "starting cuDNN 9.10.2 on device 0: "; !errors.As(err, new(*cuda.ProviderError)) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	t.Setenv("FAKE_CUDNN_FAIL", "cudnnBackendSetAttribute/200=4000") // a descriptor of each plan
	c, err := cuda.ChooseConvolutions(d, 0, plan, false, cuda.CuDNN(l))
	if err != nil || c.Provided() != 0 || !strings.Contains(c.Lines()[0], ": forward by gotrain, cuDNN 9.10.2 fails: 3x3 convolution by 1") {
		t.Errorf("%+v, %v\n%s", c, err, c.Lines())
	}
	if _, err := cuda.ChooseConvolutions(d, 99, plan, false, cuda.CuDNN(l)); err == nil || errors.As(err, new(*cuda.ProviderError)) {
		t.Errorf("%v", err)
	}
}

// On a GPU with cuDNN, the gradients that it leaves are those of gotrain's kernels, as far as the math goes.
func TestCuDNNAgreesWithTheKernels(t *testing.T) {
	if !cudatest.OnGPUs() {
		t.Skip(cudatest.Variable + " is not cuda: cuDNN computes on GPUs")
	}
	l, err := cudnn.Open()
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		name    string
		storage graph.DType
		tf32    bool
		limit   float64 // as in TestOperations, for more layers
	}{
		{"float32", graph.Float32, false, 1e-4},
		{"tf32", graph.Float32, true, 0.05},
		{"bfloat16", graph.BFloat16, false, 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var gradients [][]float32
			for _, p := range []cuda.Provider{nil, cuda.CuDNN(l)} {
				e := fleet(t, resnet8(c.storage), emulator.Options{}, cuda.Options{Batch: 16, TF32: c.tf32, Provider: p}).Executor(0)
				start(t, e, 1)
				if _, err := e.Step(randomBatch(1, 16, 3, 8, 8, 10), graph.Update{Rule: graph.SGD, Gain: 1}, nil); err != nil {
					t.Fatal(err)
				}
				gradients = append(gradients, pull(t, e, graph.Gradients))
			}
			if d := apart(gradients[1], gradients[0], 0); !(d <= c.limit) {
				t.Errorf("gradients are %.2g apart", d)
			}
		})
	}
}
