package driver

/*
#include <stdlib.h>
#include "api.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

type module struct {
	device *device
	name   string
	handle C.CUmodule
}

type function struct {
	device *device
	name   string
	handle C.CUfunction
}

// Load has the driver compile PTX, which it remembers in ~/.nv/ComputeCache. What the compiler objects to is in the error.
func (d *device) Load(name string, ptx []byte) (Module, error) {
	text := C.CString(string(ptx)) // ends with a zero, as the driver wants it
	defer C.free(unsafe.Pointer(text))
	m := &module{device: d, name: name}
	err := d.do(func() error {
		log := make([]C.char, 16<<10)
		rc := C.gotrain_cuda_compile(d.api, &m.handle, text, &log[0], C.size_t(len(log)))
		if rc != C.CUDA_SUCCESS {
			e := d.failure("cuModuleLoadDataEx", rc, name)
			if rc == C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION {
				e.Text += " (" + updatesDriver + ")"
			}
			if says := strings.TrimSpace(C.GoString(&log[0])); says != "" {
				e.Text += ":\n" + says
			}
			return e
		}
		d.left[resource{kind: modules, handle: unsafe.Pointer(m.handle)}] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Function finds a kernel.
func (m *module) Function(name string) (Function, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	f := &function{device: m.device, name: name}
	err := m.device.do(func() error {
		return m.device.check("cuModuleGetFunction", C.call_cuModuleGetFunction(m.device.api, &f.handle, m.handle, text),
			fmt.Sprintf("%s, kernel %s", m.name, name))
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *function) Name() string { return f.name }

func (f *function) AllowShared(bytes int) error {
	return f.device.do(func() error {
		return f.device.check("cuFuncSetAttribute",
			C.call_cuFuncSetAttribute(f.device.api, f.handle, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)),
			fmt.Sprintf("kernel %s, %d bytes of shared memory, where a block can have %d", f.name, bytes, f.device.info.Shared))
	})
}
