package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake compiles a libcuda for one test, with a state of its own, and lets Open find it. The function returned gives the lines
// that it has logged since.
func fake(t *testing.T, flags ...string) (log func() string) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no gcc, which compiles the driver for this test")
	}
	dir := t.TempDir()
	library, lines := filepath.Join(dir, "libcuda.so.1"), filepath.Join(dir, "log")
	args := append([]string{"-O1", "-shared", "-fPIC", "-o", library, "testdata/fake.c"}, flags...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("GOTRAIN_LIBCUDA", library)
	t.Setenv("FAKE_CUDA_LOG", lines)
	return func() string {
		text, _ := os.ReadFile(lines)
		os.Remove(lines)
		return string(text)
	}
}

// must gives the value of a call that succeeds.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, device int) Device {
	t.Helper()
	d := must[Device](t)(must[Driver](t)(Open()).Open(device))
	t.Cleanup(func() { d.Close() })
	return d
}

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

const text = ".version 7.8\n.visible .entry store1( .entry scale( .entry none("

// store is a launch of a kernel that stores a value.
func store(f Function, to Pointer, value uint32) Launch {
	p := binary.LittleEndian.AppendUint64(nil, uint64(to))
	return Launch{Function: f, Grid: Dim{1, 1, 1}, Block: Dim{32, 1, 1}, Params: binary.LittleEndian.AppendUint32(p, value)}
}

func TestAStreamRunsWhatItIsGiven(t *testing.T) {
	log := fake(t)
	d := open(t, 0)
	s := must[Stream](t)(d.NewStream("compute"))
	memory := must[Pointer](t)(d.Allocate(1024, "activations"))
	host := must[Host](t)(d.AllocateHost(64, "metrics"))
	if memory%256 != 0 || len(host.Bytes) != 64 {
		t.Errorf("memory at %#x, %d bytes of the host", memory, len(host.Bytes))
	}
	m := must[Module](t)(d.Load("conv.ptx", []byte(text)))
	scale, none, st := must[Function](t)(m.Function("scale")), must[Function](t)(m.Function("none")), must[Function](t)(m.Function("store1"))
	check(t, scale.AllowShared(100000))
	check(t, s.Fill(memory, 7, 4), s.Copy(host.Pointer, memory, 16), s.Fill(memory, 7, 0), s.Copy(host.Pointer, memory, 0), s.Launch())
	check(t, s.Launch(
		Launch{Function: scale, Grid: Dim{3, 2, 1}, Block: Dim{128, 1, 2}, Shared: 99999, Params: []byte{1, 2, 3}},
		Launch{Function: none, Grid: Dim{1, 1, 1}, Block: Dim{1, 1, 1}},
		store(st, host.Pointer+4, 9),
	))
	check(t, s.Synchronize(), d.Synchronize())
	if got := fmt.Sprint(host.Bytes[:16]); got != "[7 0 0 0 9 0 0 0 7 0 0 0 7 0 0 0]" {
		t.Errorf("the host's memory is %s", got)
	}
	var last []byte
	last = binary.LittleEndian.AppendUint64(last, uint64(host.Pointer+4))
	want := "allow scale 100000\nfill 0: 4 words\ncopy 0: 16\nlaunch 0: scale 3,2,1 128,1,2 99999 010203\nlaunch 0: none 1,1,1 1,1,1 0 \n" +
		fmt.Sprintf("launch 0: store1 1,1,1 32,1,1 0 %x09000000\n", last)
	if got := log(); got != want {
		t.Errorf("it did\n%swant\n%s", got, want)
	}
	check(t, d.Free(memory), d.FreeHost(host), d.Close())
	if got := log(); got != "release 0, left 0\n" {
		t.Errorf("it did\n%s", got)
	}
}

func TestAGraphOfTwoDevicesRunsAgainAndAgain(t *testing.T) {
	log := fake(t)
	l := must[Driver](t)(Open())
	var devices [2]Device
	var streams [2]Stream
	var memory [2]Host
	var functions [2]Function
	for i := range devices {
		devices[i] = must[Device](t)(l.Open(i))
		defer devices[i].Close()
		streams[i] = must[Stream](t)(devices[i].NewStream("compute"))
		memory[i] = must[Host](t)(devices[i].AllocateHost(4, "a word"))
		functions[i] = must[Function](t)(must[Module](t)(devices[i].Load("k.ptx", []byte(text))).Function("store1"))
	}
	check(t, devices[0].EnablePeer(devices[1]), devices[1].EnablePeer(devices[0]), devices[0].EnablePeer(devices[0]))
	fork, join := must[Event](t)(devices[0].NewEvent()), must[Event](t)(devices[1].NewEvent())
	check(t, streams[0].BeginCapture(),
		streams[0].Launch(store(functions[0], memory[0].Pointer, 5)), streams[0].Record(fork), streams[1].Wait(fork),
		streams[1].Copy(memory[1].Pointer, memory[0].Pointer, 4), streams[1].Record(join), streams[0].Wait(join),
		streams[0].Fill(memory[0].Pointer, 0, 1))
	g := must[Graph](t)(streams[0].EndCapture())
	if got := log(); got != "" || g.Nodes() != 3 {
		t.Errorf("a graph of %d nodes; before it runs:\n%s", g.Nodes(), got)
	}
	for range 2 {
		memory[1].Bytes[0] = 0
		check(t, streams[0].Run(g), streams[0].Synchronize())
		if memory[0].Bytes[0] != 0 || memory[1].Bytes[0] != 5 {
			t.Errorf("memory is %d and %d", memory[0].Bytes[0], memory[1].Bytes[0])
		}
	}
	log()
	check(t, streams[1].Fill(memory[1].Pointer, 1, 1)) // has left the capture
	if got := log(); got != "fill 1: 1 words\n" {
		t.Errorf("it did\n%s", got)
	}
	check(t, g.Free())
	if err := g.Free(); err == nil || err.Error() != "a graph of device 0 was freed before" {
		t.Errorf("%v", err)
	}
	check(t, devices[0].Close(), devices[1].Close())
	if got := log(); got != "release 0, left 0\nrelease 1, left 0\n" {
		t.Errorf("it did\n%s", got)
	}
}

func TestEventsMeasure(t *testing.T) {
	fake(t)
	d := open(t, 0)
	s, m := must[Stream](t)(d.NewStream("compute")), must[Pointer](t)(d.Allocate(4, "m"))
	a, b := must[Event](t)(d.NewEvent()), must[Event](t)(d.NewEvent())
	check(t, s.Record(a), s.Fill(m, 0, 1), s.Fill(m, 0, 1), s.Fill(m, 0, 1), s.Record(b), b.Synchronize())
	if took := must[time.Duration](t)(b.Since(a)); took != 1500*time.Microsecond {
		t.Errorf("%v", took)
	}
	check(t, a.Free())
	if err := a.Free(); err == nil || err.Error() != "an event of device 0 was freed before" {
		t.Errorf("%v", err)
	}
}

func TestDevicesThatDoNotReachEachOther(t *testing.T) {
	fake(t)
	l := must[Driver](t)(Open())
	a, b := must[Device](t)(l.Open(0)), must[Device](t)(l.Open(1))
	defer a.Close()
	defer b.Close()
	for _, env := range []string{"FAKE_CUDA_PEERS=0", "FAKE_CUDA_FAIL=cuCtxEnablePeerAccess=217", "FAKE_CUDA_FAIL=cuCtxEnablePeerAccess=711", "FAKE_CUDA_FAIL=cuCtxEnablePeerAccess=704"} {
		t.Run(env, func(t *testing.T) {
			name, value, _ := strings.Cut(env, "=")
			t.Setenv(name, value)
			want := ErrNoPeer
			if strings.HasSuffix(env, "704") {
				want = nil // enabled before, by another library of this process
			}
			if err := a.EnablePeer(b); err != want {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

// foreign is a kernel that another driver would make.
type foreign struct{ Function }

func (foreign) Name() string { return "k" }

func TestMistakesAreErrors(t *testing.T) {
	fake(t)
	d, e := open(t, 0), open(t, 1)
	s := must[Stream](t)(d.NewStream("compute"))
	m, h := must[Pointer](t)(d.Allocate(8, "m")), must[Host](t)(d.AllocateHost(8, "h"))
	check(t, d.Free(m), d.FreeHost(h))
	module := must[Module](t)(d.Load("k.ptx", []byte(text)))
	k, elsewhere := must[Function](t)(module.Function("scale")), must[Function](t)(must[Module](t)(e.Load("k.ptx", []byte(text))).Function("scale"))
	ev := must[Event](t)(d.NewEvent())
	one := Dim{1, 1, 1}
	second := func(_ any, err error) error { return err }
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no memory", second(d.Allocate(0, "weights")), "weights: asked for 0 bytes of memory of device 0"},
		{"no pinned memory", second(d.AllocateHost(-1, "ring")), "ring: asked for -1 bytes of pinned memory"},
		{"memory freed before", d.Free(m), fmt.Sprintf("%#x is no memory of device 0 that could be freed", uint64(m))},
		{"pinned memory freed before", d.FreeHost(h), fmt.Sprintf("%#x is no pinned memory of device 0 that could be freed", uint64(h.Pointer))},
		{"a kernel of another device", s.Launch(Launch{Function: elsewhere, Grid: one, Block: one}), "stream compute of device 0: kernel scale was loaded by another device"},
		{"a kernel of another driver", s.Launch(Launch{Function: foreign{}, Grid: one, Block: one}), "stream compute of device 0: kernel k was loaded by another device"},
		{"no kernel", s.Launch(Launch{Grid: one, Block: one}), "stream compute of device 0: kernel nil was loaded by another device"},
		{"an empty grid", s.Launch(Launch{Function: k, Grid: Dim{1, 0, 1}, Block: one}), "stream compute of device 0: kernel scale (grid 1x0x1, block 1x1x1, 0 bytes of shared memory, 0 of parameters): no extent may be 0"},
		{"a negative copy", s.Copy(0, 0, -4), "stream compute of device 0: a copy of -4 bytes"},
		{"a negative fill", s.Fill(0, 0, -4), "stream compute of device 0: a fill of -4 words"},
		{"events of another driver", s.Record(nil), "stream compute of device 0: the event is not one of this driver"},
		{"waiting for one", s.Wait(nil), "stream compute of device 0: the event is not one of this driver"},
		{"the time since one", second(ev.Since(nil)), "an event of device 0: the earlier event is not one of this driver"},
		{"a graph of another driver", s.Run(nil), "stream compute of device 0: the graph is not one of this driver"},
		{"a peer of another driver", d.EnablePeer(nil), "device 0: the other device is not one of this driver"},
		{"PTX that does not compile", second(d.Load("bad.ptx", []byte("bad"))), "bad.ptx: cuModuleLoadDataEx: CUDA_ERROR_FAKE (218): as the test wants it:\nptxas fatal : no .version"},
		{"no such kernel", second(module.Function("nothing")), "k.ptx, kernel nothing: cuModuleGetFunction: CUDA_ERROR_FAKE (500): as the test wants it"},
		{"too much shared memory", k.AllowShared(1 << 20), "kernel scale, 1048576 bytes of shared memory, where a block can have 232448: cuFuncSetAttribute: CUDA_ERROR_FAKE (1): as the test wants it"},
		{"an end without a capture", second(s.EndCapture()), "stream compute of device 0: cuStreamEndCapture: CUDA_ERROR_FAKE (901): as the test wants it"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.name, c.err, c.want)
		}
	}
	check(t, d.Close(), d.Close())
	for _, err := range []error{d.Synchronize(), s.Synchronize(), ev.Synchronize(), s.Fill(0, 0, 1), second(d.NewStream("x"))} {
		if err == nil || err.Error() != "device 0 is closed" {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestMemoryThatRunsOutIsToldWithWhatThereIs(t *testing.T) {
	fake(t)
	d := open(t, 0)
	t.Setenv("FAKE_CUDA_FAIL", "cuMemAlloc_v2=2")
	_, err := d.Allocate(5<<20, "activations of conv1")
	if want := "activations of conv1 (5.0 MiB; device 0 has 3.0 MiB unused of 81920.0 MiB): cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	t.Setenv("FAKE_CUDA_FAIL", "cuMemHostAlloc=2")
	_, err = d.AllocateHost(1<<20, "ring")
	if want := "ring (1.0 MiB of pinned memory; ulimit -l, or a container's limit of memory, may be too low): cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestALaunchThatFailsIsNamed(t *testing.T) {
	log := fake(t)
	d := open(t, 0)
	s := must[Stream](t)(d.NewStream("compute"))
	m := must[Module](t)(d.Load("k.ptx", []byte(text)))
	l := Launch{Function: must[Function](t)(m.Function("scale")), Grid: Dim{1, 1, 1}, Block: Dim{1, 1, 1}}
	bad := Launch{Function: must[Function](t)(m.Function("none")), Grid: Dim{7, 1, 1}, Block: Dim{64, 1, 1}, Params: []byte{1}}
	t.Setenv("FAKE_CUDA_FAIL", "cuLaunchKernel=700:3")
	err := s.Launch(l, l, bad, l)
	const want = "stream compute of device 0, kernel none (grid 7x1x1, block 64x1x1, 0 bytes of shared memory, 1 of parameters): cuLaunchKernel: " +
		"CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered (in what the device was given before: CUDA_LAUNCH_BLOCKING=1 in the environment, or device: emulator, finds the kernel)"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if got := strings.Count(log(), "launch"); got != 2 {
		t.Errorf("%d launches, want the 2 before the one that fails", got)
	}
}

// everything makes use of all functions, and returns the first error.
func everything() (err error) {
	l, err := Open()
	if err != nil {
		return err
	}
	d, err := l.Open(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	e, err := l.Open(1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := d.EnablePeer(e); err != nil {
		return err
	}
	h, err := d.AllocateHost(64, "h")
	if err != nil {
		return err
	}
	p, err := d.Allocate(64, "p")
	if err != nil {
		return err
	}
	s, err := d.NewStream("s")
	if err != nil {
		return err
	}
	a, err := d.NewEvent()
	if err != nil {
		return err
	}
	m, err := d.Load("k.ptx", []byte(text))
	if err != nil {
		return err
	}
	f, err := m.Function("scale")
	if err != nil {
		return err
	}
	var g Graph
	for _, step := range []func() error{
		func() error { return f.AllowShared(50000) },
		s.BeginCapture,
		func() error { return s.Launch(Launch{Function: f, Grid: Dim{1, 1, 1}, Block: Dim{1, 1, 1}}) },
		func() error { g, err = s.EndCapture(); return err },
		func() error { return s.Run(g) },
		func() error { return s.Fill(p, 1, 16) },
		func() error { return s.Copy(h.Pointer, p, 64) },
		func() error { return s.Record(a) },
		func() error { return s.Wait(a) },
		a.Synchronize, s.Synchronize, d.Synchronize,
		func() error { _, err := a.Since(a); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

var entry = regexp.MustCompile(`(?m)^\tF\((\w+),`)

func TestTheFailureOfAnyCallIsReturned(t *testing.T) {
	log := fake(t)
	check(t, everything())
	log()
	header, err := os.ReadFile("api.h")
	check(t, err)
	functions := entry.FindAllStringSubmatch(string(header), -1)
	if len(functions) < 40 {
		t.Fatalf("%d functions found in api.h", len(functions))
	}
	for _, f := range functions {
		name := f[1]
		switch name {
		case "cuGetErrorName", "cuGetErrorString", "cuMemGetInfo_v2": // tell about failures
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Setenv("FAKE_CUDA_FAIL", name+"=999")
			err := everything()
			if name == "cuInit" {
				var u *Unavailable
				if !errors.As(err, &u) || u.Reason != DriverFailed {
					t.Errorf("%v", err)
				}
				return
			}
			call := name
			switch name {
			case "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2": // are for the first call that waits
				call = "cuEventSynchronize"
			}
			var e *Error
			if !errors.As(err, &e) || e.Call != call || e.Code != 999 {
				t.Fatalf("%v", err)
			}
			freeing := regexp.MustCompile("Free|Destroy|Unload|Release|cuCtxSynchronize")
			if lines := log(); !freeing.MatchString(name) && strings.Contains(lines, ", left ") != strings.Contains(lines, ", left 0\n") {
				t.Errorf("something is left:\n%s", lines)
			}
		})
	}
}

func TestGoroutinesShareADevice(t *testing.T) {
	log := fake(t)
	d := open(t, 0)
	m := must[Module](t)(d.Load("k.ptx", []byte(text)))
	f := must[Function](t)(m.Function("store1"))
	var wg sync.WaitGroup
	for i := range 8 {
		s := must[Stream](t)(d.NewStream(fmt.Sprint(i)))
		wg.Go(func() {
			h, err := d.AllocateHost(4, "a word")
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 50 {
				if err := errors.Join(s.Launch(store(f, h.Pointer, uint32(n))), s.Synchronize()); err != nil {
					t.Error(err)
				}
				if got := binary.LittleEndian.Uint32(h.Bytes); got != uint32(n) {
					t.Errorf("stream %d: %d, want %d", i, got, n)
				}
			}
		})
	}
	wg.Wait()
	if got := strings.Count(log(), "launch 0: store1"); got != 400 {
		t.Errorf("%d launches, want 400", got)
	}
}

func TestOtherLibrariesAreGivenContextAndStream(t *testing.T) {
	fake(t)
	d := open(t, 0).(Native)
	s := must[Stream](t)(d.NewStream("s")).(NativeStream)
	if s.Handle() == 0 {
		t.Error("a stream without a handle")
	}
	want := errors.New("back")
	if err := d.With(func() error { return want }); err != want {
		t.Errorf("%v", err)
	}
	for _, call := range []string{"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"} {
		t.Setenv("FAKE_CUDA_FAIL", call+"=999")
		var e *Error
		if err := d.With(func() error { return nil }); !errors.As(err, &e) || e.Call != call {
			t.Errorf("%v", err)
		}
	}
	t.Setenv("FAKE_CUDA_FAIL", "")
	check(t, d.Close())
	if err := d.With(func() error { return nil }); err == nil || err.Error() != "device 0 is closed" {
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
