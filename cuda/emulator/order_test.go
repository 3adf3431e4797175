package emulator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gotrain/cuda/driver"
)

func TestConflictsOfStreams(t *testing.T) {
	const nothing = ": no stream, event or graph orders the two [cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED]"
	tests := []struct {
		name string
		do   func(r *rig, a, b driver.Stream, p, q driver.Pointer)
		want string
	}{
		{"write after write", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 4))
			r.must(b.Fill(p+8, 2, 4))
		}, "fill of 16 bytes (operation 1 of stream b of device 0) writes bytes 8 to 11 of p (64 bytes of device 0), " +
			"written by fill of 16 bytes (operation 1 of stream a of device 0)"},
		{"read after write", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 4))
			r.must(b.Copy(q, p, 16))
		}, "copy of 16 bytes (operation 1 of stream b of device 0) reads bytes 0 to 3 of p (64 bytes of device 0), " +
			"written by fill of 16 bytes (operation 1 of stream a of device 0)"},
		{"write after read", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 4))
			r.order(a, b)
			r.must(a.Copy(q, p, 16))
			r.must(b.Fill(p+12, 1, 1))
		}, "fill of 4 bytes (operation 1 of stream b of device 0) writes bytes 12 to 15 of p (64 bytes of device 0), " +
			"read by copy of 16 bytes (operation 2 of stream a of device 0)"},
		{"write after one of two reads", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			c := r.stream(0, "c")
			r.must(a.Fill(p, 1, 4))
			r.order(a, b)
			r.order(a, c)
			r.must(a.Copy(q, p, 16))
			r.must(c.Copy(q+16, p, 16))
			r.order(a, b)
			r.order(c, a) // the host waits for a, and so for c, but b was given its fill before that
			r.must(b.Fill(p, 2, 4))
		}, "fill of 16 bytes (operation 1 of stream b of device 0) writes bytes 0 to 3 of p (64 bytes of device 0), " +
			"read by copy of 16 bytes (operation 1 of stream c of device 0)"},
		{"read after a later write", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 4))
			r.order(a, b)
			r.must(a.Fill(p, 1, 1)) // not what the event stands for
			r.must(b.Copy(q, p, 16))
		}, "copy of 16 bytes (operation 1 of stream b of device 0) reads bytes 0 to 3 of p (64 bytes of device 0), " +
			"written by fill of 4 bytes (operation 2 of stream a of device 0)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{})
			a, b := r.stream(0, "a"), r.stream(0, "b")
			test.do(r, a, b, r.memory(0, 64, "p"), r.memory(0, 64, "q"))
			r.must(a.Synchronize())
			err := b.Synchronize()
			wantError(t, err, test.want+nothing)
			var c *Conflict
			if !errors.As(err, &c) {
				t.Errorf("%v is no *Conflict", err)
			}
		})
	}
}

func TestOrderedAccessesAreNoConflict(t *testing.T) {
	tests := []struct {
		name string
		do   func(r *rig, a, b driver.Stream, p, q driver.Pointer)
	}{
		{"by an event", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 4))
			r.order(a, b)
			r.must(b.Copy(q, p, 16))
			r.order(b, a)
			r.must(a.Fill(p, 2, 4))
		}},
		{"by events over a third stream", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			c := r.stream(1, "c")
			r.must(a.Fill(p, 1, 4))
			r.order(a, c)
			r.order(c, b)
			r.must(b.Copy(q, p, 16))
		}},
		{"by the host that waits for a stream", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 4))
			r.must(a.Synchronize())
			r.must(b.Copy(q, p, 16))
		}},
		{"by the host that waits for an event", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			e := r.event(0)
			r.must(a.Fill(p, 1, 4))
			r.must(a.Record(e))
			r.must(a.Fill(p+16, 1, 4))
			r.must(e.Synchronize())
			r.must(b.Copy(q, p, 16))
		}},
		{"by the host that waits for the device", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 4))
			r.must(r.devices[0].Synchronize())
			r.must(b.Fill(p, 1, 4))
		}},
		{"reads of two streams", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 4))
			r.order(a, b)
			r.must(a.Copy(q, p, 16))
			r.must(b.Copy(q+16, p, 16))
			r.order(b, a)
			r.must(a.Fill(p, 2, 4)) // after both reads
		}},
		{"other bytes", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 4))
			r.must(b.Fill(p+16, 1, 4))
		}},
		{"other bytes of a word", func(r *rig, a, b driver.Stream, p, q driver.Pointer) {
			r.must(a.Fill(p, 1, 8))
			r.order(a, b)
			r.must(a.Copy(q, p, 3))
			r.must(b.Copy(q+3, p, 1))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{Devices: 2})
			a, b := r.stream(0, "a"), r.stream(0, "b")
			test.do(r, a, b, r.memory(0, 64, "p"), r.memory(0, 64, "q"))
			r.must(b.Synchronize())
			r.must(a.Synchronize())
		})
	}
}

func TestOperationsThatTheHostWaitedForAreForgotten(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.stream(0, "a"), r.stream(0, "b")
	p, q := r.memory(0, 64, "p"), r.memory(0, 64, "q")
	m := r.driver.(*machine)
	var before driver.Event
	for i := range 1000 {
		r.must(a.Fill(p, uint32(i), 4))
		r.order(a, b)
		r.must(b.Copy(q, p, 16))
		r.must(a.Copy(q+16, p, 16))
		r.order(b, a)
		now := r.event(0)
		r.must(a.Record(now))
		if before != nil { // the host is one step ahead
			r.must(before.Synchronize())
		}
		before = now
	}
	r.must(a.Synchronize())
	if len(m.order.ops) > 20 || len(m.order.sets) > 20 {
		t.Errorf("%d operations and %d sets are kept", len(m.order.ops), len(m.order.sets))
	}
	r.wantWords(0, q, 999, 999, 999, 999, 999, 999, 999, 999)
}

func TestOperationsThatPileUpAreExecuted(t *testing.T) {
	r := newRig(t, Options{})
	s, p := r.stream(0, "s"), r.memory(0, 4, "p")
	for i := range queued {
		r.must(s.Fill(p, uint32(i), 1))
	}
	if m := r.driver.(*machine); m.pending != 0 {
		t.Errorf("%d operations wait", m.pending)
	}
}

func TestEventsTellTime(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	s, p := r.stream(0, "s"), r.memory(0, 1<<20, "p")
	a, b := r.event(0), r.event(0)
	_, err := b.Since(a)
	wantError(t, err, "the event was not recorded: cuEventElapsedTime: CUDA_ERROR_INVALID_HANDLE (400): invalid resource handle")
	r.must(s.Record(a))
	r.must(s.Fill(p, 0, 1<<18))
	r.must(s.Record(b))
	_, err = b.Since(a)
	wantError(t, err, "fill of 1048576 bytes (operation 1 of stream s of device 0) was not waited for: "+
		"cuEventElapsedTime: CUDA_ERROR_NOT_READY (600): device not ready")
	r.must(b.Synchronize())
	if d, err := b.Since(a); err != nil || d <= 0 {
		t.Error(d, err)
	}
	wantError(t, r.stream(1, "t").Record(a), "stream t of device 1: the event is of device 0: "+
		"cuEventRecord: CUDA_ERROR_INVALID_HANDLE (400): invalid resource handle")
	r.must(a.Free())
	wantError(t, s.Record(a), "stream s of device 0: the event was freed or is another driver's: "+
		"cuEventRecord: CUDA_ERROR_INVALID_HANDLE (400): invalid resource handle")
}

func TestMethodsCanBeCalledFromManyGoroutines(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	done := make(chan error)
	for i := range 8 {
		go func() {
			done <- func() error {
				d := r.devices[i%2]
				s, err := d.NewStream(fmt.Sprint(i))
				if err != nil {
					return err
				}
				for range 50 {
					p, err := d.Allocate(64, "p")
					if err != nil {
						return err
					}
					if err := errors.Join(s.Fill(p, 1, 16), s.Synchronize(), d.Free(p)); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range 8 {
		r.must(<-done)
	}
}

func TestAFaultStopsItsDeviceOnly(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	p, q, other := r.memory(0, 16, "p"), r.memory(0, 16, "q"), r.memory(1, 16, "other")
	a, b := r.stream(0, "a"), r.stream(1, "b")
	r.must(a.Copy(q, p, 16))
	r.must(a.Fill(q, 1, 4)) // is passed over
	r.order(a, b)
	r.must(b.Fill(other, 2, 4))
	// Whoever waits first is told, whose device it is.
	wantError(t, b.Synchronize(), "copy of 16 bytes (operation 1 of stream a of device 0) reads bytes 0 to 3 of p (16 bytes of device 0), "+
		"which nothing wrote [cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS]")
	r.must(b.Synchronize())
	const stopped = "device 0 was stopped before: copy of 16 bytes (operation 1 of stream a of device 0) reads bytes 0 to 3 of p (16 bytes of device 0), which nothing wrote: "
	wantError(t, a.Synchronize(), "stream a of device 0: "+stopped+
		"cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered")
	wantError(t, r.devices[0].Synchronize(), "device 0: "+stopped+
		"cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered")
	_, err := r.devices[0].NewStream("c")
	wantError(t, err, "c: "+stopped+"cuStreamCreate: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered")
	r.wantWordsOf(1, other, 2, 2, 2, 2)
}

// wantWordsOf is wantWords without the first device, which may be stopped.
func (r *rig) wantWordsOf(device int, p driver.Pointer, want ...uint32) {
	r.t.Helper()
	first := r.devices[0]
	r.devices[0] = r.devices[device]
	defer func() { r.devices[0] = first }()
	r.wantWords(device, p, want...)
}

func TestLooseEmulatorsOnlyCheckBounds(t *testing.T) {
	r := newRig(t, Options{Loose: true})
	p, q := r.memory(0, 16, "p"), r.memory(0, 16, "q")
	a, b := r.stream(0, "a"), r.stream(0, "b")
	r.must(a.Copy(q, p, 16)) // nothing wrote p
	r.must(b.Fill(q, 1, 4))  // nothing orders the two
	r.must(r.devices[0].Synchronize())
	r.must(a.Launch(r.kernel(0, "increment", 1, p, q)))
	err := a.Synchronize()
	if err == nil || !strings.Contains(err.Error(), "thread (4,0,0): reads bytes 16 to 19 of p (16 bytes of device 0): test.ptx") {
		t.Error(err)
	}
}
