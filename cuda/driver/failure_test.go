package driver

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

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
