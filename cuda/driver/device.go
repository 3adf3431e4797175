package driver

/*
#include "api.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Native is a device of the real driver, for libraries of NVIDIA's that make calls of their own.
type Native interface {
	Device

	// With runs a function on the caller's thread, with the device's context current meanwhile.
	With(func() error) error
}

// NativeStream is a stream of a Native.
type NativeStream interface {
	Stream

	// Handle is the CUstream.
	Handle() uintptr
}

// device makes its calls on a thread of its own, but for those that wait: these are made on the caller's, so that one
// goroutine can wait while another goes on giving work.
type device struct {
	*library
	ordinal int
	handle  C.CUdevice
	info    Info
	context C.CUcontext
	calls   chan func()
	done    chan struct{} // closed when the thread takes no more calls

	// Of the thread's goroutine alone.
	closing bool
	left    map[resource]bool // what has to be freed before the context is released
}

// Open retains the device's primary context. The error is *Unavailable for a device that the kernels do not run on.
func (l *library) Open(ordinal int) (Device, error) {
	handle, info, err := l.device(ordinal)
	if err != nil {
		return nil, err
	}
	if err := info.Supported(); err != nil {
		return nil, err
	}
	d := &device{library: l, ordinal: ordinal, handle: handle, info: info,
		calls: make(chan func()), done: make(chan struct{}), left: map[resource]bool{}}
	opened := make(chan error, 1)
	go d.run(opened)
	if err := <-opened; err != nil {
		return nil, err
	}
	return d, nil
}

// run is the goroutine of the device's thread.
func (d *device) run(opened chan<- error) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	defer close(d.done)
	if err := d.check("cuDevicePrimaryCtxRetain", C.call_cuDevicePrimaryCtxRetain(d.api, &d.context, d.handle), d.String()); err != nil {
		opened <- err
		return
	}
	if err := d.check("cuCtxSetCurrent", C.call_cuCtxSetCurrent(d.api, d.context), d.String()); err != nil {
		C.call_cuDevicePrimaryCtxRelease_v2(d.api, d.handle)
		opened <- err
		return
	}
	opened <- nil
	for !d.closing {
		(<-d.calls)()
	}
}

func (d *device) String() string { return fmt.Sprintf("device %d", d.ordinal) }
func (d *device) Info() Info     { return d.info }

// do runs a function on the device's thread.
func (d *device) do(f func() error) error {
	result := make(chan error, 1)
	select {
	case d.calls <- func() { result <- f() }:
		return <-result
	case <-d.done:
		return d.closed()
	}
}

// wait makes a call that waits, on the caller's thread.
func (d *device) wait(call string, f func() C.CUresult, what string) error {
	select {
	case <-d.done:
		return d.closed()
	default:
		return d.check(call, f(), what)
	}
}

// With keeps the goroutine on its thread meanwhile.
func (d *device) With(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.wait("cuCtxPushCurrent_v2", func() C.CUresult { return C.call_cuCtxPushCurrent_v2(d.api, d.context) }, d.String()); err != nil {
		return err
	}
	err := f()
	var popped C.CUcontext
	if pop := d.check("cuCtxPopCurrent_v2", C.call_cuCtxPopCurrent_v2(d.api, &popped), d.String()); err == nil {
		err = pop
	}
	return err
}

func (d *device) closed() error { return fmt.Errorf("%v is closed", d) }

// Synchronize waits for all streams.
func (d *device) Synchronize() error {
	return d.wait("cuCtxSynchronize", func() C.CUresult { return C.gotrain_cuda_wait_context(d.api, d.context) }, d.String())
}

// EnablePeer is asked for one direction.
func (d *device) EnablePeer(other Device) error {
	o, ok := other.(*device)
	if !ok {
		return fmt.Errorf("%v: the other device is not one of this driver", d)
	}
	if o.handle == d.handle {
		return nil
	}
	what := fmt.Sprintf("%v reaching %v", d, o)
	return d.do(func() error {
		var can C.int
		if err := d.check("cuDeviceCanAccessPeer", C.call_cuDeviceCanAccessPeer(d.api, &can, d.handle, o.handle), what); err != nil {
			return err
		}
		if can == 0 {
			return ErrNoPeer
		}
		switch rc := C.call_cuCtxEnablePeerAccess(d.api, o.context, 0); rc {
		case C.CUDA_SUCCESS, C.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
			return nil
		case C.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, C.CUDA_ERROR_TOO_MANY_PEERS:
			return ErrNoPeer
		default:
			return d.check("cuCtxEnablePeerAccess", rc, what)
		}
	})
}

// resource is what the driver has given.
type resource struct {
	kind   kind
	handle unsafe.Pointer // of the device's memory: its address, as a number
	memory Pointer
}

type kind int

// The kinds, in the order in which Close frees them.
const (
	executables kind = iota
	graphs
	events
	streams
	modules
	memories
	hosts
	kinds
)

// free gives a resource back, on the device's thread.
func (d *device) free(r resource) error {
	delete(d.left, r)
	switch r.kind {
	case executables:
		return d.check("cuGraphExecDestroy", C.call_cuGraphExecDestroy(d.api, C.CUgraphExec(r.handle)), d.String())
	case graphs:
		return d.check("cuGraphDestroy", C.call_cuGraphDestroy(d.api, C.CUgraph(r.handle)), d.String())
	case events:
		return d.check("cuEventDestroy_v2", C.call_cuEventDestroy_v2(d.api, C.CUevent(r.handle)), d.String())
	case streams:
		return d.check("cuStreamDestroy_v2", C.call_cuStreamDestroy_v2(d.api, C.CUstream(r.handle)), d.String())
	case modules:
		return d.check("cuModuleUnload", C.call_cuModuleUnload(d.api, C.CUmodule(r.handle)), d.String())
	case memories:
		return d.check("cuMemFree_v2", C.call_cuMemFree_v2(d.api, C.CUdeviceptr(r.memory)), d.String())
	default:
		return d.check("cuMemFreeHost", C.call_cuMemFreeHost(d.api, r.handle), d.String())
	}
}

// Close frees what is left and ends the thread. After a failure the context is as good as gone: the first one is the error.
func (d *device) Close() error {
	select {
	case <-d.done:
		return nil
	default:
	}
	err := d.do(func() error {
		d.closing = true
		err := d.check("cuCtxSynchronize", C.call_cuCtxSynchronize(d.api), d.String())
		for k := executables; k < kinds && err == nil; k++ {
			for r := range d.left {
				if r.kind == k && err == nil {
					err = d.free(r)
				}
			}
		}
		released := d.check("cuDevicePrimaryCtxRelease_v2", C.call_cuDevicePrimaryCtxRelease_v2(d.api, d.handle), d.String())
		if err == nil {
			err = released
		}
		return err
	})
	<-d.done
	return err
}
