package doctor

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// compile makes a shared library of a C text.
func compile(t *testing.T, text string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lib.so")
	c := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", path}, flags...)...)
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestVersionsAreReadFromTheLibraries(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		version          func(handle) string
	}{
		{"mpi", `int MPI_Get_library_version(char *s, int *n) { const char *v = "Open MPI v4.1.4, package: x\nmore"; for (*n = 0; v[*n]; (*n)++) s[*n] = v[*n]; return 0; }`,
			"Open MPI v4.1.4", mpiVersion},
		{"cudnn", `unsigned long cudnnGetVersion(void) { return 91002; }`, "9.10.2", cudnnVersion},
		{"nccl", `int ncclGetVersion(int *v) { *v = 22107; return 0; }`, "2.21.7", ncclVersion},
		{"old nccl", `int ncclGetVersion(int *v) { *v = 2804; return 0; }`, "2.8.4", ncclVersion},
		{"a version that fails", `int ncclGetVersion(int *v) { return 1; }`, "", ncclVersion},
		{"no function", `int other;`, "", mpiVersion},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := compile(t, c.text)
			f := library("it", []string{"libnowhere.so.1", path}, c.version, "get it")
			if want := strings.TrimSpace(path + " " + c.want); f.State != want || f.Advice != "" {
				t.Errorf("%+v, want state %q and no advice", f, want)
			}
		})
	}
}

func TestALibraryThatIsNotThereOrDoesNotLoad(t *testing.T) {
	none := func(handle) string { return "" }
	f := library("it", []string{"libnowhere.so.2", "libnowhere.so.1"}, none, "get it")
	if want := (Finding{"it", "not found (libnowhere.so.2, libnowhere.so.1)", "get it"}); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	broken := filepath.Join(t.TempDir(), "broken.so")
	if err := os.WriteFile(broken, []byte("no library"), 0o666); err != nil {
		t.Fatal(err)
	}
	f = library("it", []string{broken}, none, "get it")
	if want := (Finding{"it", "found, but does not load: " + broken + ": file too short", "get it"}); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	needed := compile(t, `int f(void) { return 1; }`)
	lame := compile(t, `int f(void); int g(void) { return f(); }`, needed)
	os.Remove(needed)
	f = library("it", []string{lame}, none, "get it")
	if !strings.HasPrefix(f.State, "found, but does not load: "+needed+": cannot open shared object file") {
		t.Errorf("%+v does not name what is missing", f)
	}
}

func TestGPUsAreListedOrWhatIsWrong(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "libcuda.so.1")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", fake, "../../cuda/driver/testdata/fake.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("GOTRAIN_LIBCUDA", fake)
	const tooOld = " has compute capability 7.0, and the kernels need 8.0, which NVIDIA's cards have since Ampere"
	const newer = "for NVIDIA GPUs: let CUDA_VISIBLE_DEVICES name newer ones"
	for _, c := range []struct {
		env  string
		want []Finding
	}{
		{"FAKE_CUDA_VERSION=13000", []Finding{
			{What: "CUDA driver", State: "for CUDA 13.0, devices: 2"},
			{What: "GPU 0", State: "Fake A, compute capability 9.0, 132 multiprocessors, 80.0 GiB"},
			{What: "GPU 1", State: "Fake B, compute capability 9.0, 132 multiprocessors, 80.0 GiB"},
		}},
		{"FAKE_CUDA_MAJOR=7", []Finding{{What: "CUDA driver", State: "for CUDA 12.8, devices: 2"}, {"GPU 0", "Fake A" + tooOld, newer}, {"GPU 1", "Fake B" + tooOld, newer}}},
		{"FAKE_CUDA_VERSION=11040", []Finding{{"CUDA driver", "NVIDIA's driver is one for CUDA 11.4, and the kernels need CUDA 11.8, which is version 520 of the driver",
			"for NVIDIA GPUs: install a newer driver of NVIDIA"}}},
		{"FAKE_CUDA_FAIL=cuDriverGetVersion=3", []Finding{{"CUDA driver", "does not work: cuDriverGetVersion: CUDA_ERROR_FAKE (3): as the test wants it", "see what nvidia-smi says"}}},
		{"GOTRAIN_LIBCUDA=libnowhere.so.1", []Finding{{"CUDA driver", "there is no NVIDIA driver here: no libnowhere.so.1",
			"for NVIDIA GPUs: install NVIDIA's driver (Debian: nvidia-driver, Ubuntu: ubuntu-drivers install); a container is given the host's by --gpus all"}}},
	} {
		t.Run(c.env, func(t *testing.T) {
			name, value, _ := strings.Cut(c.env, "=")
			t.Setenv(name, value)
			if got := gpus(); !slices.Equal(got, c.want) {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

func TestALimitOnCoresIsSeen(t *testing.T) {
	if f := threads(8, 8); f != (Finding{What: "cores", State: "8"}) {
		t.Errorf("%+v", f)
	}
	want := Finding{What: "cores", State: "64, of which an affinity mask or a container's limit leaves 2"}
	if f := threads(64, 2); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
}

func TestSettingsOfThreadsAreShown(t *testing.T) {
	f := openMP(func(name string) string { return map[string]string{"OMP_NUM_THREADS": "1"}[name] })
	if f.State != "OMP_NUM_THREADS=1" || f.Advice == "" {
		t.Errorf("%+v", f)
	}
	if f := openMP(func(string) string { return "" }); f != (Finding{What: "OpenMP", State: "default settings"}) {
		t.Errorf("%+v", f)
	}
}

func TestMPIIsInTheBinaryOrIsNot(t *testing.T) {
	all := func(name string) (string, error) { return "/opt/" + name, nil }
	without := func(missing string) func(string) (string, error) {
		return func(name string) (string, error) {
			if name == missing {
				return "", errors.New("not in PATH")
			}
			return all(name)
		}
	}
	library := library("MPI", mpiNames, mpiVersion, installMPI)
	build := buildMPI
	if library.Advice != "" {
		build = installMPI // this machine has no MPI
	}
	for _, c := range []struct {
		built    string
		lookPath func(string) (string, error)
		want     Finding
	}{
		{"Open MPI v4.1.4", all, Finding{State: "in this binary: Open MPI v4.1.4, /opt/mpicc, /opt/mpiexec"}},
		{"Open MPI v4.1.4", without("mpicc"), Finding{State: "in this binary: Open MPI v4.1.4, no mpicc, /opt/mpiexec"}},
		{"Open MPI v4.1.4", without("mpiexec"), Finding{State: "in this binary: Open MPI v4.1.4, /opt/mpicc, no mpiexec", Advice: installMPI}},
		{"", all, Finding{State: "not in this binary; here: " + library.State + ", /opt/mpicc, /opt/mpiexec", Advice: build}},
		{"", without("mpicc"), Finding{State: "not in this binary; here: " + library.State + ", no mpicc, /opt/mpiexec", Advice: installMPI}},
	} {
		c.want.What = "MPI"
		if f := mpi(c.built, c.lookPath); f != c.want {
			t.Errorf("%+v, want %+v", f, c.want)
		}
	}
}

func TestFindingsAreWrittenWithAdviceBelow(t *testing.T) {
	var b bytes.Buffer
	Write(&b, []Finding{{"cores", "2", ""}, {"NCCL", "not found", "get it"}})
	if want := "cores        2\nNCCL         not found\n               get it\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	for _, f := range Examine(os.Getenv) {
		if f.What == "" || f.State == "" || strings.ContainsAny(f.State+f.Advice, "\n\x00") {
			t.Errorf("%+v", f)
		}
	}
}
