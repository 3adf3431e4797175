package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
