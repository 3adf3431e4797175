package emulator

import (
	"errors"
	"fmt"
	"testing"

	"gotrain/cuda/driver"
)

// rig is an emulator with everything that tests use, of which every call has to succeed unless it is tested.
type rig struct {
	t       *testing.T
	driver  driver.Driver
	devices []driver.Device
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{t: t, driver: New(o)}
	for i := range r.driver.Devices() {
		d, err := r.driver.Open(i)
		r.must(err)
		r.devices = append(r.devices, d)
	}
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) stream(device int, name string) driver.Stream {
	r.t.Helper()
	s, err := r.devices[device].NewStream(name)
	r.must(err)
	return s
}

func (r *rig) event(device int) driver.Event {
	r.t.Helper()
	e, err := r.devices[device].NewEvent()
	r.must(err)
	return e
}

func (r *rig) memory(device, bytes int, what string) driver.Pointer {
	r.t.Helper()
	p, err := r.devices[device].Allocate(bytes, what)
	r.must(err)
	return p
}

func (r *rig) host(bytes int, what string) driver.Host {
	r.t.Helper()
	h, err := r.devices[0].AllocateHost(bytes, what)
	r.must(err)
	return h
}

// order makes what b is given next come after what a was given.
func (r *rig) order(a, b driver.Stream) {
	r.t.Helper()
	e := r.event(a.(*stream).device.number)
	r.must(a.Record(e))
	r.must(b.Wait(e))
}

// capture makes a graph of what f gives streams.
func (r *rig) capture(s driver.Stream, f func()) driver.Graph {
	r.t.Helper()
	r.must(s.BeginCapture())
	f()
	g, err := s.EndCapture()
	r.must(err)
	return g
}

// words are the 32-bit words of device memory.
func (r *rig) words(device int, p driver.Pointer, n int) []uint32 {
	r.t.Helper()
	h := r.host(4*n, "result")
	s := r.stream(device, "result")
	r.must(s.Copy(h.Pointer, p, 4*n))
	r.must(s.Synchronize())
	w := make([]uint32, n)
	for i := range w {
		w[i] = uint32(h.Bytes[4*i]) | uint32(h.Bytes[4*i+1])<<8 | uint32(h.Bytes[4*i+2])<<16 | uint32(h.Bytes[4*i+3])<<24
	}
	return w
}

func (r *rig) wantWords(device int, p driver.Pointer, want ...uint32) {
	r.t.Helper()
	if got := r.words(device, p, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("memory has %v, want %v", got, want)
	}
}

// wantError compares a message, and demands that it is a *driver.Error.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want:\n%s", want)
	}
	if err.Error() != want {
		t.Errorf("error\n%s\nwant\n%s", err, want)
	}
	var e *driver.Error
	if !errors.As(err, &e) || e.Code == 0 || e.Name == "" {
		t.Errorf("%v has no code of the driver", err)
	}
}
