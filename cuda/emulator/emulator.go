// Package emulator is a CUDA driver without a GPU: it implements package driver's interfaces on the CPU, executes the very PTX that
// ships, and objects to what a GPU leaves undefined. It is for tests, and for users who have no GPU; it says nothing of a GPU's speed.
//
// What streams are given is executed as late as possible: when somebody waits for it, or when thousands of operations have piled up.
// One operation runs at a time, in an order that streams, events and graphs allow and that is the same in every run; memory of the host
// that changes too early is therefore seen changed. Whether two operations were ordered is not left to that order: every operation
// carries a vector clock, and each word of memory remembers who wrote and read it last (as in FastTrack, Flanagan and Freund, 2009).
// An access that no stream, event, graph or wait of the host orders behind an earlier conflicting one stops the device with a
// *Conflict, which names both. Blocks of one launch are checked alike, which nothing orders but atomics behind a fence, and warps of a
// block, which barriers order.
//
// Further objections, as *ptx.Fault or *AccessError: accesses outside of their allocation, to freed memory, to another device's memory
// that was not enabled, and reads of bytes that nothing wrote.
//
// It does not see: what the host reads and writes in pinned memory, which counts as written; conflicts between the threads of
// one warp in global memory; orders made by loads in a loop (a flag that another block sets) instead of atomics, which it takes for conflicts.
package emulator

import (
	"fmt"
	"sync"
	"time"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator/ptx"
)

// Options are settings of an emulator. The zero value is one device with all checks.
type Options struct {
	Devices int   // 0: 1
	Memory  int64 // bytes of each device's memory; 0: 8 GiB

	// Multiprocessors is what Info says, for grids that are sized by it; 0: 8. A large number makes emulation slower.
	Multiprocessors int

	NoPeers bool // devices do not reach each other's memory
	Workers int  // goroutines that run the blocks of a launch; 0: 1. Results do not depend on it.
	Loose   bool // leaves out the search for races and for reads of what nothing wrote, for speed; bounds are checked all the same

	// DropWait says of the n-th call of Stream.Wait of all streams, from 0, whether to leave it out, so that a test can show what
	// comes of a wait that was forgotten. A wait by which a stream joins a capture still lets it join, as a root of the graph.
	DropWait func(n int) bool
}

// queued is the number of operations that wait before they are executed without anybody asking, as a driver's queue is limited too.
const queued = 4096

// machine is the driver: all devices, under one lock.
type machine struct {
	mu      sync.Mutex
	options Options
	devices []*device
	allocs  allocations
	order   order
	pending int // operations given and not executed
	waits   int // calls of Stream.Wait
	graphs  int
	modules map[string]*ptx.Module // parsed, by name and text
	busy    time.Duration          // spent in executing operations: the clock of all devices
}

// New gives an emulated driver.
func New(o Options) driver.Driver {
	if o.Devices == 0 {
		o.Devices = 1
	}
	if o.Memory == 0 {
		o.Memory = 8 << 30
	}
	if o.Multiprocessors == 0 {
		o.Multiprocessors = 8
	}
	m := &machine{options: o, modules: map[string]*ptx.Module{}}
	for i := range o.Devices {
		m.devices = append(m.devices, &device{machine: m, number: i})
	}
	return m
}

func (m *machine) String() string { return "emulator" }
func (m *machine) Emulated() bool { return true }
func (m *machine) Devices() int   { return len(m.devices) }

func (m *machine) Info(device int) (driver.Info, error) {
	if err := m.check("cuDeviceGet", device); err != nil {
		return driver.Info{}, err
	}
	return driver.Info{
		Name: "emulated GPU", UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", device),
		Major: 8, Minor: 0, Multiprocessors: m.options.Multiprocessors,
		Memory: m.options.Memory, Shared: maxShared, L2: 40 << 20,
	}, nil
}

func (m *machine) Open(device int) (driver.Device, error) {
	if err := m.check("cuDeviceGet", device); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.devices[device]
	d.opened++
	return d, nil
}

func (m *machine) check(call string, device int) error {
	if device < 0 || device >= len(m.devices) {
		return failed(call, invalidDevice, fmt.Sprintf("device %d of %d", device, len(m.devices)))
	}
	return nil
}
