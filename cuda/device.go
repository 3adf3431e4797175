package cuda

import (
	"errors"
	"fmt"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// device is an opened device with what its workers share: the kernels, the training set where it is resident, and another provider
// of convolutions.
type device struct {
	driver.Device
	number    int
	set       *kernels.Set
	resident  *resident
	convolver Convolver // nil: none
}

// openDevice returns the device with an error too, where it has been opened and has to be closed.
func openDevice(d driver.Driver, number int, r *graph.Resident) (*device, error) {
	if number < 0 || number >= d.Devices() {
		return nil, fmt.Errorf("there is no device %d: %s has %d", number, d, d.Devices())
	}
	opened, err := d.Open(number)
	if err != nil {
		return nil, fmt.Errorf("opening device %d: %w", number, err)
	}
	v := &device{Device: opened, number: number}
	if v.set, err = kernels.Load(opened); err != nil {
		return v, fmt.Errorf("device %d: %w", number, err)
	}
	if r != nil {
		if v.resident, err = v.hold(r); err != nil {
			return v, fmt.Errorf("device %d: %w", number, err)
		}
	}
	return v, nil
}

// startProvider starts one on the device.
func (d *device) startProvider(p Provider) (err error) {
	if d.convolver, err = p.Start(d.Device); err != nil {
		return fmt.Errorf("starting %s on device %d: %w", p, d.number, err)
	}
	return nil
}

// Close closes the device when nothing uses it any more.
func (d *device) Close() (err error) {
	if d.convolver != nil {
		err = d.convolver.Close()
	}
	return errors.Join(err, d.Device.Close())
}

// block is memory of a device that grows.
type block struct {
	at    driver.Pointer
	bytes int
	what  string
}

// reserve makes it at least so large, and says whether it has moved.
func (d *device) reserve(b *block, bytes int) (moved bool, err error) {
	if b.bytes >= bytes {
		return false, nil
	}
	if b.bytes > 0 {
		if err := d.Free(b.at); err != nil {
			return false, fmt.Errorf("freeing %s: %w", b.what, err)
		}
		b.bytes = 0
	}
	if b.at, err = d.Allocate(bytes, b.what); err != nil {
		return false, fmt.Errorf("device %d has no memory for %s (%.1f MiB): lower learner.minibatchSize, or give it fewer workers: %w", d.number, b.what, float64(bytes)/(1<<20), err)
	}
	b.bytes = bytes
	return true, nil
}

// hostBlock is pinned memory of the host that grows.
type hostBlock struct {
	driver.Host
	what string
}

func (d *device) reserveHost(b *hostBlock, bytes int) (moved bool, err error) {
	if len(b.Bytes) >= bytes {
		return false, nil
	}
	if len(b.Bytes) > 0 {
		if err := d.FreeHost(b.Host); err != nil {
			return false, fmt.Errorf("freeing %s: %w", b.what, err)
		}
		b.Host = driver.Host{}
	}
	if b.Host, err = d.AllocateHost(bytes, b.what); err != nil {
		return false, fmt.Errorf("no pinned memory for %s (%.1f MiB): %w", b.what, float64(bytes)/(1<<20), err)
	}
	return true, nil
}
