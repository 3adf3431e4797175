// Package driver is what gotrain needs of a CUDA driver: devices, memory, modules, streams, events and captured graphs, as
// interfaces with two implementations. Open gives the real one, over libcuda.so.1, which is looked for when it is called, so
// that one program runs on machines with and without a GPU. Package cuda/emulator gives one that executes the same PTX on the
// CPU and checks every access.
//
// It follows the CUDA driver API (docs.nvidia.com/cuda/cuda-driver-api) in names and meaning: unified addressing, primary
// contexts, streams that do not synchronize with the default stream, graphs by stream capture.
package driver

import (
	"errors"
	"fmt"
	"time"
)

// Driver is a CUDA driver with its devices.
type Driver interface {
	// String names the driver for people, such as "CUDA driver 12.8" or "emulator".
	String() string

	// Emulated says that there is no GPU behind it.
	Emulated() bool

	// Devices is the number of devices.
	Devices() int

	// Info describes a device without opening it.
	Info(device int) (Info, error)

	// Open makes a device's primary context current on an OS thread of the device's own, on which all of its calls run.
	Open(device int) (Device, error)
}

// Info is what a device is.
type Info struct {
	Name            string // such as "NVIDIA H200"
	UUID            string
	Major, Minor    int // compute capability
	Multiprocessors int
	Memory          int64 // bytes
	Shared          int   // bytes of shared memory that a block can have, when its function asks for it
	L2              int   // bytes
}

// Pointer is an address in unified addressing: of a device's memory, or of pinned host memory.
type Pointer uint64

// Host is pinned memory of the host, which devices can read and write too.
type Host struct {
	Bytes   []byte
	Pointer Pointer
}

// Dim is the extent of a grid or a block.
type Dim struct{ X, Y, Z int }

// Launch is a kernel with all that it is launched with.
type Launch struct {
	Function    Function
	Grid, Block Dim
	Shared      int    // bytes of dynamic shared memory
	Params      []byte // as they lie in PTX's parameter space: each aligned to its size, little endian
}

// Device is an opened device. Its methods can be called from any goroutine.
type Device interface {
	Info() Info

	// Allocate gives memory, aligned to 256 bytes, that nothing has written; what names it in messages.
	Allocate(bytes int, what string) (Pointer, error)
	Free(Pointer) error

	// AllocateHost gives pinned host memory.
	AllocateHost(bytes int, what string) (Host, error)
	FreeHost(Host) error

	// Load compiles a module of PTX. name is for messages: the file's name.
	Load(name string, ptx []byte) (Module, error)

	NewStream(name string) (Stream, error)
	NewEvent() (Event, error)

	// EnablePeer lets this device's kernels and copies reach another's memory. The error is ErrNoPeer where they cannot; copies
	// between the two go through the host then.
	EnablePeer(other Device) error

	// Synchronize waits for all that was given to the device.
	Synchronize() error

	// Close frees what is left and releases the primary context.
	Close() error
}

// Module is a loaded module of kernels.
type Module interface {
	Function(name string) (Function, error)
}

// Function is a kernel on one device.
type Function interface {
	Name() string

	// AllowShared lets launches have so many bytes of dynamic shared memory, where that is more than 48 KiB.
	AllowShared(bytes int) error
}

// Stream runs what it is given one after the other. While it captures, or has joined a capture by waiting for an event of one,
// what it is given becomes nodes of the graph and does not run.
type Stream interface {
	// Launch gives the stream kernels; they cross to the driver in one call.
	Launch(...Launch) error

	// Copy copies between any two of device and pinned host memory.
	Copy(to, from Pointer, bytes int) error

	// Fill sets words of four bytes.
	Fill(to Pointer, value uint32, words int) error

	// Record makes the event stand for what the stream was given before, and Wait lets what comes after wait for the event.
	Record(Event) error
	Wait(Event) error

	// BeginCapture starts a capture, which streams of any device join by waiting for its events. All of them have to be
	// joined back, by events that this stream waits for, when EndCapture makes a graph of it that can run many times.
	BeginCapture() error
	EndCapture() (Graph, error)

	// Run gives the stream a whole graph.
	Run(Graph) error

	// Synchronize waits for all that the stream was given.
	Synchronize() error
}

// Event is a point in a stream.
type Event interface {
	// Synchronize waits until the event has come.
	Synchronize() error

	// Since is the time between two events that have come, by the device's clock.
	Since(earlier Event) (time.Duration, error)

	Free() error
}

// Graph is a captured and instantiated graph.
type Graph interface {
	Nodes() int
	Free() error
}

// ErrNoPeer is what EnablePeer returns for devices that do not reach each other.
var ErrNoPeer = errors.New("the devices do not reach each other's memory")

// Error is a call of the driver that failed.
type Error struct {
	Call string // such as cuMemAlloc_v2
	Code int
	Name string // such as CUDA_ERROR_OUT_OF_MEMORY
	Text string // what the driver says about it
	What string // what the call was for: the memory, the module or the kernel; may be empty
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
	if e.What != "" {
		return e.What + ": " + s
	}
	return s
}
