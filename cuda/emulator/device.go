package emulator

import (
	"fmt"

	"gotrain/cuda/driver"
)

// device is one device with its primary context. Everything in it is guarded by the machine's lock.
type device struct {
	machine *machine
	number  int
	opened  int // how often
	used    int64
	peers   map[*device]bool
	streams []*stream
	stopped error // what the first operation that went wrong did; nothing works after it
}

func (d *device) Info() driver.Info {
	info, _ := d.machine.Info(d.number)
	return info
}

// ready says why a call that may not come while a stream of the device captures cannot be made now. A driver that captures in relaxed
// mode would bear some of these calls; none of them belongs there.
func (d *device) ready(call, what string) error {
	if err := d.usable(call, what); err != nil {
		return err
	}
	for _, s := range d.streams {
		if s.capture != nil {
			return s.capture.fail(failed(call, captureUnsupported, what+": "+s.String()+" captures"))
		}
	}
	return nil
}

// usable says why nothing can be called: the device is closed, or an operation went wrong.
func (d *device) usable(call, what string) error {
	switch {
	case d.opened == 0:
		return failed(call, invalidContext, fmt.Sprintf("%s: device %d is closed", what, d.number))
	case d.stopped != nil:
		return failed(call, codeOf(d.stopped), fmt.Sprintf("%s: device %d was stopped before: %v", what, d.number, d.stopped))
	}
	return nil
}

func (d *device) EnablePeer(other driver.Device) error {
	const call = "cuCtxEnablePeerAccess"
	m := d.machine
	o, ok := other.(*device)
	if !ok || o.machine != m || o == d {
		return failed(call, invalidDevice, fmt.Sprintf("device %d", d.number))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.options.NoPeers {
		return driver.ErrNoPeer
	}
	if err := d.ready(call, "peer"); err != nil {
		return err
	}
	if d.peers == nil {
		d.peers = map[*device]bool{}
	}
	d.peers[o] = true
	return nil
}

func (d *device) Synchronize() error {
	const call = "cuCtxSynchronize"
	m := d.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	what := fmt.Sprintf("device %d", d.number)
	if err := d.ready(call, what); err != nil {
		return err
	}
	for _, s := range d.streams {
		if err := m.finish(call, s.tail); err != nil {
			return err
		}
	}
	return d.usable(call, what)
}

// Close frees memory and streams when it was called as often as Open. What streams were given and nobody waited for is not executed.
func (d *device) Close() error {
	m := d.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.opened == 0 {
		return failed("cuDevicePrimaryCtxRelease_v2", invalidContext, fmt.Sprintf("device %d is closed", d.number))
	}
	d.opened--
	if d.opened > 0 {
		return nil
	}
	for _, a := range m.allocs {
		if a.device == d && a.data != nil {
			a.release()
		}
	}
	for _, o := range m.order.ops {
		if o.device == d && !o.done {
			o.done, o.after = true, nil
			m.pending--
		}
	}
	d.streams, d.peers, d.stopped = nil, nil, nil
	return nil
}
