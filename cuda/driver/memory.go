package driver

/*
#include "api.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Allocate gives memory of the device. Where there is not enough, the error tells how much is unused.
func (d *device) Allocate(bytes int, what string) (Pointer, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("%s: asked for %d bytes of memory of %v", what, bytes, d)
	}
	var p C.CUdeviceptr
	err := d.do(func() error {
		rc := C.call_cuMemAlloc_v2(d.api, &p, C.size_t(bytes))
		if rc == C.CUDA_ERROR_OUT_OF_MEMORY {
			var unused, total C.size_t
			if C.call_cuMemGetInfo_v2(d.api, &unused, &total) == C.CUDA_SUCCESS {
				what += fmt.Sprintf(" (%s; %v has %s unused of %s)", mib(bytes), d, mib(int(unused)), mib(int(total)))
			}
		}
		if err := d.check("cuMemAlloc_v2", rc, what); err != nil {
			return err
		}
		d.left[resource{kind: memories, memory: Pointer(p)}] = true
		return nil
	})
	return Pointer(p), err
}

func mib(bytes int) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// Free gives memory back, after what was given to the device before.
func (d *device) Free(p Pointer) error {
	return d.do(func() error {
		r := resource{kind: memories, memory: p}
		if !d.left[r] {
			return fmt.Errorf("%#x is no memory of %v that could be freed", uint64(p), d)
		}
		return d.free(r)
	})
}

// AllocateHost gives memory that all devices reach.
func (d *device) AllocateHost(bytes int, what string) (Host, error) {
	if bytes <= 0 {
		return Host{}, fmt.Errorf("%s: asked for %d bytes of pinned memory", what, bytes)
	}
	var p unsafe.Pointer
	var address C.CUdeviceptr
	err := d.do(func() error {
		rc := C.call_cuMemHostAlloc(d.api, &p, C.size_t(bytes), C.CU_MEMHOSTALLOC_PORTABLE|C.CU_MEMHOSTALLOC_DEVICEMAP)
		if rc == C.CUDA_ERROR_OUT_OF_MEMORY {
			what += fmt.Sprintf(" (%s of pinned memory; ulimit -l, or a container's limit of memory, may be too low)", mib(bytes))
		}
		if err := d.check("cuMemHostAlloc", rc, what); err != nil {
			return err
		}
		r := resource{kind: hosts, handle: p}
		d.left[r] = true
		if err := d.check("cuMemHostGetDevicePointer_v2", C.call_cuMemHostGetDevicePointer_v2(d.api, &address, p, 0), what); err != nil {
			d.free(r)
			return err
		}
		return nil
	})
	if err != nil {
		return Host{}, err
	}
	return Host{Bytes: unsafe.Slice((*byte)(p), bytes), Pointer: Pointer(address)}, nil
}

// FreeHost gives pinned memory back.
func (d *device) FreeHost(h Host) error {
	return d.do(func() error {
		r := resource{kind: hosts, handle: unsafe.Pointer(unsafe.SliceData(h.Bytes))}
		if !d.left[r] {
			return fmt.Errorf("%#x is no pinned memory of %v that could be freed", uint64(h.Pointer), d)
		}
		return d.free(r)
	})
}
