package cudnn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator"
	"gotrain/cuda/kernels"
)

// fake compiles a libcudnn and a libcuda for one test, with a state of their own, and lets Open find them.
func fake(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no gcc, which compiles the libraries for this test")
	}
	dir := t.TempDir()
	for source, library := range map[string]string{"testdata/fake.c": "libcudnn.so.9", "../driver/testdata/fake.c": "libcuda.so.1"} {
		if out, err := exec.Command("gcc", "-O1", "-shared", "-fPIC", "-o", filepath.Join(dir, library), source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Setenv("GOTRAIN_LIBCUDNN", filepath.Join(dir, "libcudnn.so.9"))
	t.Setenv("GOTRAIN_LIBCUDA", filepath.Join(dir, "libcuda.so.1"))
	t.Setenv("FAKE_CUDNN_LOG", filepath.Join(dir, "log"))
}

// left is how many descriptors were left when handles were closed, a line for each.
func left() string {
	text, _ := os.ReadFile(os.Getenv("FAKE_CUDNN_LOG"))
	os.Remove(os.Getenv("FAKE_CUDNN_LOG"))
	return string(text)
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// open opens cuDNN on the first device.
func open(t *testing.T) (*Handle, driver.Device, driver.Stream) {
	t.Helper()
	d, err := driver.Open()
	check(t, err)
	device, err := d.Open(0)
	check(t, err)
	t.Cleanup(func() { device.Close() })
	s, err := device.NewStream("compute")
	check(t, err)
	l, err := Open()
	check(t, err)
	h, err := l.New(device)
	check(t, err)
	return h, device, s
}

func TestOpenTellsWhyThereIsNoCuDNN(t *testing.T) {
	fake(t)
	whole := os.Getenv("GOTRAIN_LIBCUDNN")
	broken := filepath.Join(t.TempDir(), "broken.so")
	check(t, os.WriteFile(broken, []byte("text"), 0o666))
	other := os.Getenv("GOTRAIN_LIBCUDA")
	const install = ": install libcudnn9 from NVIDIA's repository, or set network.convolution to own"
	for _, c := range []struct{ name, env, want string }{
		{"no library", "GOTRAIN_LIBCUDNN=libnowhere.so.9", "there is no cuDNN 9 here: no libnowhere.so.9" + install},
		{"a broken library", "GOTRAIN_LIBCUDNN=" + broken, "cuDNN does not load: " + broken + ": file too short" + install},
		{"another library", "GOTRAIN_LIBCUDNN=" + other, other + " has no cudnnGetVersion" + install},
		{"another version", "FAKE_CUDNN_VERSION=100100", whole + " is cuDNN 10, not 9" + install},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOTRAIN_LIBCUDNN", whole)
			name, value, _ := strings.Cut(c.env, "=")
			t.Setenv(name, value)
			_, err := Open()
			var u *Unavailable
			if !errors.As(err, &u) || err.Error() != c.want {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
	l, err := Open()
	check(t, err)
	if l.String() != "cuDNN 9.10.2" {
		t.Errorf("%v", l)
	}
}

var shape = kernels.ConvShape{N: 2, H: 6, W: 5, C: 3, K: 12, Kernel: 3, Stride: 1, Pad: 1}

func TestTheFirstEngineThatDoesIsTaken(t *testing.T) {
	fake(t)
	h, _, _ := open(t)
	const plenty = 1 << 20
	for _, c := range []struct {
		name    string
		engines string
		math    kernels.Math
		limit   int
		want    int // -1: none
	}{
		{"tensor cores for tf32", "01234", kernels.TF32, plenty, 0},
		{"tensor cores for bfloat16", "01234", kernels.BF16, plenty, 0},
		{"none for float32", "01234", kernels.FFMA, plenty, 4},
		{"none for float32 beside bfloat16", "01234", kernels.Mixed, plenty, 4},
		{"never one that differs from run to run", "1340", kernels.TF32, plenty, 4},
		{"one with much workspace, where there is much", "1240", kernels.TF32, 1 << 30, 2},
		{"the fallback where all are wrong", "0123", kernels.FFMA, plenty, 5},
		{"the fallback where there are none", "", kernels.FFMA, plenty, 5},
		{"none with so little workspace", "01234", kernels.FFMA, 100, -1},
		{"the best where there are many", "0" + strings.Repeat("4", 60), kernels.FFMA, plenty, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("FAKE_CUDNN_ENGINES", c.engines)
			p, err := h.Plan(Forward, shape, c.math, c.limit)
			if c.want < 0 {
				const want = "3x3 convolution by 1 with padding 1 of 2x6x5x3 to 12 channels in f32: cuDNN has no engine for it that is as precise, gives the same in every run and is content with the workspace"
				if !errors.Is(err, ErrUnsupported) || err.Error() != want {
					t.Errorf("%v\nwant %s", err, want)
				}
				return
			}
			check(t, err)
			if p.Engine() != c.want || p.Workspace() > c.limit {
				t.Errorf("engine %d with %d bytes of workspace, want engine %d", p.Engine(), p.Workspace(), c.want)
			}
			check(t, p.Free(), p.Free())
		})
	}
	if _, err := h.Plan(BackwardWeights, shape, kernels.Mixed, plenty); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
	check(t, h.Close(), h.Close())
	if got := left(); got != "left 0\n" {
		t.Errorf("%q", got)
	}
}

func TestTheFailureOfAnyCallIsReturned(t *testing.T) {
	fake(t)
	header, err := os.ReadFile("api.h")
	check(t, err)
	var calls []string
	for _, m := range regexp.MustCompile(`(?m)^\tCUDNN_(BACKEND|ATTR)_\w+ = (\d+),`).FindAllStringSubmatch(string(header), -1) {
		if m[1] == "BACKEND" {
			calls = append(calls, "cudnnBackendCreateDescriptor/"+m[2], "cudnnBackendFinalize/"+m[2])
		} else {
			calls = append(calls, "cudnnBackendSetAttribute/"+m[2], "cudnnBackendGetAttribute/"+m[2])
		}
	}
	if len(calls) < 100 {
		t.Fatalf("%d calls found in api.h", len(calls))
	}
	_, device, s := open(t)
	memory, err := device.Allocate(1<<16, "memory")
	check(t, err)
	seen := 0
	for _, call := range append(calls, "cudnnCreate", "cudnnDestroy", "cudnnSetStream", "cudnnBackendExecute") {
		t.Setenv("FAKE_CUDNN_FAIL", call+"=4000")
		name, number, _ := strings.Cut(call, "/")
		err := everything(device, s, memory)
		var e *Error
		if errors.As(err, &e) && e.Call == name && e.Code == 4000 && (number == "" && e.Concerns == 0 || fmt.Sprint(e.Concerns) == number) && !errors.Is(err, ErrUnsupported) {
			seen++
		} else if call == "cudnnBackendFinalize/5" { // an engine may refuse for any reason
			if !errors.Is(err, ErrUnsupported) {
				t.Errorf("%s: %v", call, err)
			}
		} else if err != nil || number == "" {
			t.Errorf("%s: %v", call, err)
		}
		if got := left(); got != "left 0\n" && call != "cudnnCreate" {
			t.Errorf("%s: %q", call, got)
		}
	}
	// Made, finalized, set, read, and the calls that concern none.
	if want := 11 + 8 + 39 + 5 + 4; seen != want {
		t.Errorf("%d calls fail, want %d", seen, want)
	}
	t.Setenv("FAKE_CUDNN_FAIL", "cudnnBackendFinalize/15=3003")
	const want = "3x3 convolution by 1 with padding 1 of 2x6x5x3 to 12 channels in f32: cudnnBackendFinalize of 15: as the test wants it (3003): the last error (cuDNN has no engine"
	if err := everything(device, s, memory); !errors.Is(err, ErrUnsupported) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// everything makes use of all functions, and returns the first error.
func everything(d driver.Device, s driver.Stream, m driver.Pointer) (err error) {
	l, err := Open()
	if err != nil {
		return err
	}
	h, err := l.New(d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for _, pass := range []Pass{Forward, BackwardData, BackwardWeights} {
		p, err := h.Plan(pass, shape, kernels.FFMA, 1<<20)
		if err != nil {
			return err
		}
		err = p.Run(s, m, m+1<<14, m+2<<14, m+3<<14)
		if err := errors.Join(err, p.Free()); err != nil {
			return err
		}
	}
	return nil
}

func TestMistakesAreErrors(t *testing.T) {
	fake(t)
	h, _, s := open(t)
	emulated, err := emulator.New(emulator.Options{}).Open(0)
	check(t, err)
	defer emulated.Close()
	es, err := emulated.NewStream("compute")
	check(t, err)
	l, err := Open()
	check(t, err)
	p, err := h.Plan(BackwardData, shape, kernels.BF16, 1<<20)
	check(t, err)
	freed, err := h.Plan(Forward, shape, kernels.BF16, 1<<20)
	check(t, err)
	check(t, freed.Free())
	const what = "3x3 convolution by 1 with padding 1 of 2x6x5x3 to 12 channels in bf16"
	second := func(_ any, err error) error { return err }
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"an emulated device", second(l.New(emulated)), "cuDNN runs on GPUs, and " + emulated.Info().Name + " is emulated: set network.convolution to own or auto"},
		{"an emulated stream", p.Run(es, 0, 0, 0, 0), "gradient by data of " + what + ": the stream is not one of a GPU"},
		{"a plan that was freed", freed.Run(s, 0, 0, 0, 0), what + ": the plan was freed before"},
		{"an address that is not aligned", p.Run(s, 1<<20, 1<<20, 1<<20+8, 1<<20), "gradient by data of " + what + ": cudnnBackendExecute: CUDNN_STATUS_BAD_PARAM (2000): the last error"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.name, c.err, c.want)
		}
	}
	check(t, p.Free())
}

// TestDeclarationsAgreeWithNVIDIAsHeader compares api.h with the cudnn.h in one of the folders that GOTRAIN_CUDA_INCLUDE names,
// which needs CUDA's headers too.
func TestDeclarationsAgreeWithNVIDIAsHeader(t *testing.T) {
	args := []string{"-fsyntax-only", "-Werror", "-Wno-deprecated-declarations", "-I.", "-D__CUDA_FP16_H__"} // whose header needs more
	found := false
	for _, f := range filepath.SplitList(os.Getenv("GOTRAIN_CUDA_INCLUDE")) {
		args = append(args, "-I"+f)
		if _, err := os.Stat(filepath.Join(f, "cudnn.h")); err == nil {
			found = true
		}
	}
	if !found {
		t.Skip("GOTRAIN_CUDA_INCLUDE names no folder with cudnn.h (pip download nvidia-cudnn-cu12 has it)")
	}
	header, err := os.ReadFile("api.h")
	check(t, err)
	constants := regexp.MustCompile(`(?m)^\t(CUDNN_\w+) = (\d+),`).FindAllStringSubmatch(string(header), -1)
	if len(constants) < 80 {
		t.Fatalf("%d constants found in api.h", len(constants))
	}
	source := "#include <cudnn.h>\n#include \"api.h\"\n#define F(name, arguments, result, ...) static result (*check_##name)(__VA_ARGS__) = name;\nGOTRAIN_CUDNN_FUNCTIONS(F)\n"
	for _, c := range constants {
		source += fmt.Sprintf("_Static_assert(%s == %s, \"%[1]s\");\n", c[1], c[2])
	}
	gcc := exec.Command("gcc", append(args, "-x", "c", "-")...)
	gcc.Stdin = strings.NewReader(source)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
