package emulator

import (
	"fmt"

	"gotrain/cuda/driver"
)

// stream is a queue of one device.
type stream struct {
	device *device
	name   string
	chain  int
	count  int   // what it was given
	tail   []*op // what comes next comes after these

	capture *capture // nil: none
	nodes   []int    // of the capture: what comes next comes after these
}

func (s *stream) String() string {
	return fmt.Sprintf("stream %s of device %d", s.name, s.device.number)
}

func (d *device) NewStream(name string) (driver.Stream, error) {
	d.machine.mu.Lock()
	defer d.machine.mu.Unlock()
	if err := d.usable("cuStreamCreate", name); err != nil {
		return nil, err
	}
	s := &stream{device: d, name: name, chain: d.machine.order.chain()}
	d.streams = append(d.streams, s)
	return s, nil
}

// usable says why the stream can be given nothing.
func (s *stream) usable(call string) error {
	if err := s.device.usable(call, s.String()); err != nil {
		return err
	}
	if s.capture != nil && s.capture.failed != nil {
		return failed(call, captureInvalidated, fmt.Sprintf("%s: %v", s, s.capture.failed))
	}
	return nil
}

// waitable says why nobody can wait for the stream.
func (s *stream) waitable(call string) error {
	if err := s.usable(call); err != nil {
		return err
	}
	if s.capture != nil {
		return s.capture.fail(failed(call, captureUnsupported, s.String()))
	}
	return nil
}

// give hands work over, or makes a node of it.
func (s *stream) give(call string, w *work) error {
	w.device, w.stream = s.device, s.name
	if s.capture != nil {
		s.nodes = []int{s.capture.add(w, s.nodes)}
		return nil
	}
	s.count++
	o := &op{work: w, chain: s.chain, count: s.count}
	m := s.device.machine
	m.give(o, s.tail)
	s.tail = []*op{o}
	return m.drain(call)
}

func (s *stream) Launch(launches ...driver.Launch) error {
	const call = "cuLaunchKernel"
	s.device.machine.mu.Lock()
	defer s.device.machine.mu.Unlock()
	if err := s.usable(call); err != nil {
		return err
	}
	for _, l := range launches {
		f, err := s.device.launchable(call, l)
		if err != nil {
			return err
		}
		l.Params = append([]byte(nil), l.Params...)
		if err := s.give(call, &work{kind: kernel, launch: l, function: f}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) Copy(to, from driver.Pointer, bytes int) error {
	const call = "cuMemcpyAsync"
	m := s.device.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(call); err != nil || bytes == 0 {
		return err
	}
	w := &work{kind: copying, device: s.device, to: to, from: from, bytes: bytes}
	if bytes < 0 {
		return failed(call, invalidValue, fmt.Sprintf("%s: %s", s, w))
	}
	o := &op{work: w}
	_, _, wrong := m.allocs.find(uint64(from), bytes, o, false)
	if wrong == "" {
		_, _, wrong = m.allocs.find(uint64(to), bytes, o, true)
	}
	if wrong == "" && to < from+driver.Pointer(bytes) && from < to+driver.Pointer(bytes) {
		wrong = "copies between places that overlap"
	}
	if wrong != "" {
		return failed(call, invalidValue, fmt.Sprintf("%s: %s %s", s, w, wrong))
	}
	return s.give(call, w)
}

func (s *stream) Fill(to driver.Pointer, value uint32, words int) error {
	const call = "cuMemsetD32Async"
	m := s.device.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(call); err != nil || words == 0 {
		return err
	}
	w := &work{kind: filling, device: s.device, to: to, bytes: 4 * words, value: value}
	if words < 0 {
		return failed(call, invalidValue, fmt.Sprintf("%s: %s", s, w))
	}
	a, _, wrong := m.allocs.find(uint64(to), w.bytes, &op{work: w}, true)
	if wrong == "" && to%4 != 0 {
		wrong = fmt.Sprintf("begins at byte %d of %s, which is not a multiple of 4", uint64(to)-a.base, a)
	}
	if wrong != "" {
		return failed(call, invalidValue, fmt.Sprintf("%s: %s %s", s, w, wrong))
	}
	return s.give(call, w)
}

func (s *stream) Synchronize() error {
	const call = "cuStreamSynchronize"
	m := s.device.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.waitable(call); err != nil {
		return err
	}
	if err := m.finish(call, s.tail); err != nil {
		return err
	}
	return s.usable(call)
}
