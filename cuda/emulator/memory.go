package emulator

import (
	"fmt"

	"gotrain/cuda/driver"
)

// A pointer is the number of its allocation, from 1, above 40 bits of offset. Allocations start in the middle of their range, so that
// what runs off their front is still known as theirs:
//
//	63      60 59           40 39                                     0
//	|    0    |    number     |   1<<39 + offset in the allocation    |
//
// Numbers are not used again, so that freed memory keeps its name.
const (
	numberShift = 40
	middle      = 1 << 39
)

// allocation is a piece of a device's memory, or of pinned host memory.
type allocation struct {
	what   string
	device *device // nil: host
	base   uint64
	data   []byte // nil once it is freed
	size   int
	shadow *shadow // nil: not checked
}

// String names the allocation with its place.
func (a *allocation) String() string {
	if a.device == nil {
		return fmt.Sprintf("%s (%d bytes of host memory)", a.what, a.size)
	}
	return fmt.Sprintf("%s (%d bytes of device %d)", a.what, a.size, a.device.number)
}

// allocations are all that there ever were, by number less one.
type allocations []*allocation

func (all *allocations) add(d *device, bytes int, what string) *allocation {
	a := &allocation{what: what, device: d, data: make([]byte, bytes), size: bytes}
	*all = append(*all, a)
	a.base = uint64(len(*all))<<numberShift | middle
	return a
}

// at is the allocation that an address belongs to, which may lie outside of its bytes; nil for none.
func (all allocations) at(address uint64) *allocation {
	n := address >> numberShift
	if n == 0 || n > uint64(len(all)) {
		return nil
	}
	return all[n-1]
}

// find looks for size bytes at an address, which op accesses. What is wrong is told as the rest of a sentence.
func (all allocations) find(address uint64, size int, o *op, writes bool) (*allocation, int, string) {
	a := all.at(address)
	do := verb(writes)
	if a == nil {
		return nil, 0, fmt.Sprintf("%s %d bytes at %#x, which no allocation has", do, size, address)
	}
	at := int(int64(address - a.base))
	switch {
	case a.data == nil:
		return nil, 0, fmt.Sprintf("%s bytes %d to %d of %s, which was freed", do, at, at+size-1, a)
	case at < 0 || at > a.size-size:
		return nil, 0, fmt.Sprintf("%s bytes %d to %d of %s", do, at, at+size-1, a)
	case o.kind == kernel && a.device != nil && a.device != o.device && !o.device.peers[a.device]:
		return nil, 0, fmt.Sprintf("%s bytes %d to %d of %s, for which device %d has not enabled peer access",
			do, at, at+size-1, a, o.device.number)
	}
	return a, at, ""
}

func (d *device) Allocate(bytes int, what string) (driver.Pointer, error) {
	const call = "cuMemAlloc_v2"
	d.machine.mu.Lock()
	defer d.machine.mu.Unlock()
	if err := d.ready(call, what); err != nil {
		return 0, err
	}
	if bytes <= 0 {
		return 0, failed(call, invalidValue, fmt.Sprintf("%s: %d bytes", what, bytes))
	}
	padded := (int64(bytes) + 255) &^ 255
	if free := d.machine.options.Memory - d.used; padded > free {
		return 0, failed(call, outOfMemory, fmt.Sprintf("%s: %d bytes, where device %d has %d of %d left",
			what, bytes, d.number, free, d.machine.options.Memory))
	}
	a := d.machine.allocs.add(d, bytes, what)
	if !d.machine.options.Loose {
		a.shadow = newShadow(bytes, 2)
	}
	d.used += padded
	return driver.Pointer(a.base), nil
}

func (d *device) Free(p driver.Pointer) error {
	d.machine.mu.Lock()
	defer d.machine.mu.Unlock()
	return d.free("cuMemFree_v2", uint64(p), d)
}

func (d *device) AllocateHost(bytes int, what string) (driver.Host, error) {
	const call = "cuMemHostAlloc"
	d.machine.mu.Lock()
	defer d.machine.mu.Unlock()
	if err := d.ready(call, what); err != nil {
		return driver.Host{}, err
	}
	if bytes <= 0 {
		return driver.Host{}, failed(call, invalidValue, fmt.Sprintf("%s: %d bytes", what, bytes))
	}
	a := d.machine.allocs.add(nil, bytes, what)
	if !d.machine.options.Loose {
		a.shadow = newShadow(bytes, 2)
		a.shadow.written = true
	}
	return driver.Host{Bytes: a.data, Pointer: driver.Pointer(a.base)}, nil
}

func (d *device) FreeHost(h driver.Host) error {
	d.machine.mu.Lock()
	defer d.machine.mu.Unlock()
	return d.free("cuMemFreeHost", uint64(h.Pointer), nil)
}

// free frees an allocation of a device, or of the host. It does not wait for what uses the memory: an operation that comes to it later
// is stopped.
func (d *device) free(call string, p uint64, of *device) error {
	if d.opened == 0 {
		return failed(call, invalidContext, fmt.Sprintf("device %d is closed", d.number))
	}
	a := d.machine.allocs.at(p)
	switch {
	case a == nil || p != a.base || a.device != of:
		return failed(call, invalidValue, fmt.Sprintf("%#x is not the start of an allocation of device %d", p, d.number))
	case a.data == nil:
		return failed(call, invalidValue, a.String()+" was freed before")
	}
	if err := d.ready(call, a.what); err != nil {
		return err
	}
	a.release()
	return nil
}

func (a *allocation) release() {
	a.data = nil
	a.shadow = nil
	if a.device != nil {
		a.device.used -= (int64(a.size) + 255) &^ 255
	}
}
