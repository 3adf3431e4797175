package driver

/*
#include "api.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

type stream struct {
	device *device
	name   string
	handle C.CUstream
}

// NewStream makes a stream that does not wait for the default one.
func (d *device) NewStream(name string) (Stream, error) {
	s := &stream{device: d, name: name}
	err := d.do(func() error {
		if err := d.check("cuStreamCreate", C.call_cuStreamCreate(d.api, &s.handle, C.CU_STREAM_NON_BLOCKING), s.String()); err != nil {
			return err
		}
		d.left[resource{kind: streams, handle: unsafe.Pointer(s.handle)}] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *stream) String() string  { return fmt.Sprintf("stream %s of %v", s.name, s.device) }
func (s *stream) Handle() uintptr { return uintptr(unsafe.Pointer(s.handle)) }

// give makes a call on the device's thread.
func (s *stream) give(call string, f func() C.CUresult) error {
	return s.device.do(func() error { return s.device.check(call, f(), s.String()) })
}

// Launch packs the parameters of all kernels into one buffer, from which the driver takes them before it returns.
func (s *stream) Launch(launches ...Launch) error {
	if len(launches) == 0 {
		return nil
	}
	packed := make([]C.struct_gotrain_launch, len(launches))
	bytes := 0
	for i, l := range launches {
		f, ok := l.Function.(*function)
		if !ok || f.device != s.device {
			return fmt.Errorf("%v: kernel %s was loaded by another device", s, nameOf(l.Function))
		}
		for _, n := range [...]int{l.Grid.X, l.Grid.Y, l.Grid.Z, l.Block.X, l.Block.Y, l.Block.Z} {
			if n <= 0 || n > 1<<31-1 {
				return fmt.Errorf("%v: %v: no extent may be %d", s, describe(l), n)
			}
		}
		packed[i] = C.struct_gotrain_launch{
			function: C.uintptr_t(uintptr(unsafe.Pointer(f.handle))),
			grid:     [3]C.uint{C.uint(l.Grid.X), C.uint(l.Grid.Y), C.uint(l.Grid.Z)},
			block:    [3]C.uint{C.uint(l.Block.X), C.uint(l.Block.Y), C.uint(l.Block.Z)},
			shared:   C.uint(l.Shared),
			offset:   C.size_t(bytes),
			bytes:    C.size_t(len(l.Params)),
		}
		bytes += (len(l.Params) + 15) &^ 15
	}
	parameters := make([]byte, bytes+16)
	for i, l := range launches {
		copy(parameters[packed[i].offset:], l.Params)
	}
	return s.device.do(func() error {
		var done C.int
		rc := C.gotrain_cuda_launch(s.device.api, s.handle, &packed[0], C.int(len(packed)), (*C.char)(unsafe.Pointer(&parameters[0])), &done)
		if rc == C.CUDA_SUCCESS {
			return nil
		}
		return s.device.check("cuLaunchKernel", rc, fmt.Sprintf("%v, %s", s, describe(launches[done])))
	})
}

func nameOf(f Function) string {
	if f == nil {
		return "nil"
	}
	return f.Name()
}

func describe(l Launch) string {
	return fmt.Sprintf("kernel %s (grid %dx%dx%d, block %dx%dx%d, %d bytes of shared memory, %d of parameters)", nameOf(l.Function),
		l.Grid.X, l.Grid.Y, l.Grid.Z, l.Block.X, l.Block.Y, l.Block.Z, l.Shared, len(l.Params))
}

func (s *stream) Copy(to, from Pointer, bytes int) error {
	if bytes == 0 {
		return nil
	}
	if bytes < 0 {
		return fmt.Errorf("%v: a copy of %d bytes", s, bytes)
	}
	return s.give("cuMemcpyAsync", func() C.CUresult {
		return C.call_cuMemcpyAsync(s.device.api, C.CUdeviceptr(to), C.CUdeviceptr(from), C.size_t(bytes), s.handle)
	})
}

func (s *stream) Fill(to Pointer, value uint32, words int) error {
	if words == 0 {
		return nil
	}
	if words < 0 {
		return fmt.Errorf("%v: a fill of %d words", s, words)
	}
	return s.give("cuMemsetD32Async", func() C.CUresult {
		return C.call_cuMemsetD32Async(s.device.api, C.CUdeviceptr(to), C.uint(value), C.size_t(words), s.handle)
	})
}

func (s *stream) Record(e Event) error {
	ev, ok := e.(*event)
	if !ok {
		return fmt.Errorf("%v: the event is not one of this driver", s)
	}
	return s.give("cuEventRecord", func() C.CUresult { return C.call_cuEventRecord(s.device.api, ev.handle, s.handle) })
}

func (s *stream) Wait(e Event) error {
	ev, ok := e.(*event)
	if !ok {
		return fmt.Errorf("%v: the event is not one of this driver", s)
	}
	return s.give("cuStreamWaitEvent", func() C.CUresult { return C.call_cuStreamWaitEvent(s.device.api, s.handle, ev.handle, 0) })
}

func (s *stream) Synchronize() error {
	d := s.device
	return d.wait("cuStreamSynchronize", func() C.CUresult { return C.gotrain_cuda_wait_stream(d.api, d.context, s.handle) }, s.String())
}
