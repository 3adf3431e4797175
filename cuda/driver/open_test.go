package driver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestOpenTellsWhyThereIsNoCUDA(t *testing.T) {
	fake(t)
	whole := os.Getenv("GOTRAIN_LIBCUDA")
	broken := filepath.Join(t.TempDir(), "broken.so")
	check(t, os.WriteFile(broken, []byte("text"), 0o666))
	other := filepath.Join(t.TempDir(), "other.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-DcuGraphLaunch=elsewhere", "-o", other, "testdata/fake.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const cpu = "; or train with device: cpu"
	const install = "install NVIDIA's driver (Debian: nvidia-driver, Ubuntu: ubuntu-drivers install); a container is given the host's by --gpus all"
	const nvidiaSMI = "see what nvidia-smi says"
	for _, c := range []struct {
		name   string
		env    string
		reason Reason
		want   string
	}{
		{"no library", "GOTRAIN_LIBCUDA=libnowhere.so.1", NoLibrary, "there is no NVIDIA driver here: no libnowhere.so.1: " + install},
		{"a broken library", "GOTRAIN_LIBCUDA=" + broken, BadLibrary, "NVIDIA's driver does not load: " + broken + ": file too short: mend that, or " + install},
		{"a missing function", "GOTRAIN_LIBCUDA=" + other, BadLibrary, other + " has no cuGraphLaunch, so it is no driver of CUDA 11.8 or newer: install a newer driver of NVIDIA"},
		{"an old driver", "FAKE_CUDA_VERSION=11070", OldDriver, "NVIDIA's driver is one for CUDA 11.7, and the kernels need CUDA 11.8, which is version 520 of the driver: install a newer driver of NVIDIA"},
		{"no device", "FAKE_CUDA_DEVICES=0", NoDevice, "NVIDIA's driver finds no GPU: see what nvidia-smi lists; a container is given GPUs by --gpus all"},
		{"hidden devices", "FAKE_CUDA_DEVICES=0 CUDA_VISIBLE_DEVICES=7", NoDevice, `NVIDIA's driver finds no GPU, where CUDA_VISIBLE_DEVICES is "7": unset CUDA_VISIBLE_DEVICES, or let it name GPUs that nvidia-smi lists`},
		{"a stub", "FAKE_CUDA_FAIL=cuInit=34", BadLibrary, "the libcuda.so.1 that was found is the stub of the CUDA toolkit, and not NVIDIA's driver: take the folder stubs out of LD_LIBRARY_PATH, or " + install},
		{"another failure", "FAKE_CUDA_FAIL=cuInit=3", DriverFailed, "NVIDIA's driver does not start: cuInit: CUDA_ERROR_FAKE (3): as the test wants it: " + nvidiaSMI},
		{"a failure that the driver cannot name", "FAKE_CUDA_FAIL=cuInit=12345", DriverFailed, "NVIDIA's driver does not start: cuInit: unknown to this driver (12345): no description: " + nvidiaSMI},
		{"an update without a restart", "FAKE_CUDA_FAIL=cuInit=803", DriverFailed, "NVIDIA's driver does not start: cuInit: CUDA_ERROR_FAKE (803): as the test wants it: the kernel's module and the library are of different versions: restart the machine after an update of the driver"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOTRAIN_LIBCUDA", whole)
			os.Unsetenv("CUDA_VISIBLE_DEVICES")
			for v := range strings.FieldsSeq(c.env) {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			_, err := Open()
			var u *Unavailable
			if !errors.As(err, &u) {
				t.Fatalf("%v", err)
			}
			if u.Reason != c.reason || u.Error() != c.want+cpu {
				t.Errorf("reason %d, %v\nwant   %d, %s", u.Reason, u, c.reason, c.want+cpu)
			}
		})
	}
}

func TestADriverAndItsDevicesAreDescribed(t *testing.T) {
	fake(t)
	d := must[Driver](t)(Open())
	if d.String() != "CUDA driver 12.8" || d.Emulated() || d.Devices() != 2 {
		t.Errorf("%v, emulated %v, %d devices", d, d.Emulated(), d.Devices())
	}
	want := Info{Name: "Fake B", UUID: "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe0b", Major: 9, Multiprocessors: 132, Memory: 80 << 30, Shared: 232448, L2: 50 << 20}
	if info := must[Info](t)(d.Info(1)); info != want {
		t.Errorf("%+v\nwant %+v", info, want)
	}
	for _, n := range []int{-1, 2} {
		if _, err := d.Open(n); err == nil || err.Error() != fmt.Sprintf("there is no device %d: the driver has 2, from 0", n) {
			t.Errorf("%v", err)
		}
	}
	t.Setenv("FAKE_CUDA_MAJOR", "7")
	_, err := d.Open(0)
	var u *Unavailable
	if !errors.As(err, &u) || u.Reason != OldDevice || u.Text != "Fake A has compute capability 7.0, and the kernels need 8.0, which NVIDIA's cards have since Ampere" {
		t.Errorf("%v", err)
	}
}

// TestDeclarationsAgreeWithNVIDIAsHeader compares api.h with the cuda.h in one of the folders that GOTRAIN_CUDA_INCLUDE names.
func TestDeclarationsAgreeWithNVIDIAsHeader(t *testing.T) {
	args := []string{"-fsyntax-only", "-Werror", "-I."}
	found := false
	for _, f := range filepath.SplitList(os.Getenv("GOTRAIN_CUDA_INCLUDE")) {
		args = append(args, "-I"+f)
		if _, err := os.Stat(filepath.Join(f, "cuda.h")); err == nil {
			found = true
		}
	}
	if !found {
		t.Skip("GOTRAIN_CUDA_INCLUDE names no folder with cuda.h (pip download nvidia-cuda-runtime has it)")
	}
	header, err := os.ReadFile("api.h")
	check(t, err)
	constants := regexp.MustCompile(`(?m)(?:^\t|#define )(CU\w+)(?: =)? (\d+)\b`).FindAllStringSubmatch(string(header), -1)
	if len(constants) < 25 {
		t.Fatalf("%d constants found in api.h", len(constants))
	}
	source := "#include <cuda.h>\n#include \"api.h\"\n#define F(name, arguments, ...) static CUresult (*check_##name)(__VA_ARGS__) = name;\nGOTRAIN_CUDA_FUNCTIONS(F)\n"
	for _, c := range constants {
		source += fmt.Sprintf("_Static_assert(%s == %s, \"%[1]s\");\n", c[1], c[2])
	}
	gcc := exec.Command("gcc", append(args, "-x", "c", "-")...)
	gcc.Stdin = strings.NewReader(source)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
