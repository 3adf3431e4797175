package emulator

import (
	"fmt"
	"time"

	"gotrain/cuda/driver"
)

// event is a point in a stream: behind what the stream was given before it was recorded.
type event struct {
	device   *device
	recorded bool
	freed    bool
	tail     []*op
	at       time.Duration // the time where tail is empty

	capture *capture // the event is in a capture, which may have ended
	nodes   []int
}

func (d *device) NewEvent() (driver.Event, error) {
	d.machine.mu.Lock()
	defer d.machine.mu.Unlock()
	if err := d.usable("cuEventCreate", "event"); err != nil {
		return nil, err
	}
	return &event{device: d}, nil
}

// event finds the emulator's own event behind an interface.
func (s *stream) event(call string, e driver.Event) (*event, error) {
	own, ok := e.(*event)
	if !ok || own.device.machine != s.device.machine || own.freed {
		return nil, failed(call, invalidHandle, s.String()+": the event was freed or is another driver's")
	}
	return own, nil
}

func (s *stream) Record(e driver.Event) error {
	const call = "cuEventRecord"
	m := s.device.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(call); err != nil {
		return err
	}
	v, err := s.event(call, e)
	if err != nil {
		return err
	}
	if v.device != s.device {
		return failed(call, invalidHandle, fmt.Sprintf("%s: the event is of device %d", s, v.device.number))
	}
	*v = event{device: s.device, recorded: true}
	if s.capture != nil {
		v.capture, v.nodes = s.capture, s.nodes
	} else {
		v.tail, v.at = s.tail, m.busy
	}
	return nil
}

func (s *stream) Wait(e driver.Event) error {
	const call = "cuStreamWaitEvent"
	m := s.device.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(call); err != nil {
		return err
	}
	v, err := s.event(call, e)
	if err != nil {
		return err
	}
	drop := m.options.DropWait != nil && m.options.DropWait(m.waits)
	m.waits++
	switch {
	case v.capture != nil:
		return s.join(call, v, drop)
	case s.capture != nil:
		return s.capture.fail(failed(call, captureIsolation, s.String()))
	case !drop:
		s.tail = union(s.tail, v.tail)
	}
	return nil
}

// union is a and what else b has.
func union[T comparable](a, b []T) []T {
	all := append([]T(nil), a...)
next:
	for _, x := range b {
		for _, y := range a {
			if x == y {
				continue next
			}
		}
		all = append(all, x)
	}
	return all
}

// waitable says why nobody can wait for the event.
func (e *event) waitable(call string) error {
	what := fmt.Sprintf("event of device %d", e.device.number)
	if err := e.device.usable(call, what); err != nil {
		return err
	}
	if e.freed {
		return failed(call, invalidHandle, what+" was freed")
	}
	if e.capture != nil {
		err := failed(call, capturedEvent, what)
		if !e.capture.ended {
			return e.capture.fail(err)
		}
		return err
	}
	return nil
}

func (e *event) Synchronize() error {
	const call = "cuEventSynchronize"
	m := e.device.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := e.waitable(call); err != nil {
		return err
	}
	if err := m.finish(call, e.tail); err != nil {
		return err
	}
	return e.waitable(call)
}

// Since is the time that the emulator spent in executing operations between the two.
func (e *event) Since(earlier driver.Event) (time.Duration, error) {
	const call = "cuEventElapsedTime"
	m := e.device.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	var at [2]time.Duration
	first, ok := earlier.(*event)
	if !ok {
		return 0, failed(call, invalidHandle, "the event is another driver's")
	}
	for i, v := range []*event{first, e} {
		if err := v.waitable(call); err != nil {
			return 0, err
		}
		if !v.recorded {
			return 0, failed(call, invalidHandle, "the event was not recorded")
		}
		if len(v.tail) == 0 {
			at[i] = v.at
		}
		for _, o := range v.tail {
			if !o.done {
				return 0, failed(call, notReady, o.String()+" was not waited for")
			}
			at[i] = max(at[i], o.end)
		}
	}
	return at[1] - at[0], nil
}

func (e *event) Free() error {
	e.device.machine.mu.Lock()
	defer e.device.machine.mu.Unlock()
	if e.freed {
		return failed("cuEventDestroy_v2", invalidHandle, "the event was freed before")
	}
	*e = event{device: e.device, freed: true}
	return nil
}
