package driver

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "api.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"os"
	"unsafe"
)

// library is the driver on a machine with GPUs. Its functions can be called by any thread.
type library struct {
	api     *C.struct_gotrain_cuda // never freed, as the library is never unloaded
	version int                    // 12080 for CUDA 12.8
	devices int
}

// Open loads NVIDIA's driver. The error is *Unavailable where CUDA cannot be used on this machine.
func Open() (Driver, error) {
	name := cmp.Or(os.Getenv(libraryOverrides), libraryName)
	l := &library{api: (*C.struct_gotrain_cuda)(C.calloc(1, C.sizeof_struct_gotrain_cuda))}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var text [512]C.char
	if status := C.gotrain_cuda_load(l.api, cname, &text[0], C.size_t(len(text))); status != C.GOTRAIN_CUDA_LOADED {
		C.free(unsafe.Pointer(l.api))
		return nil, unloaded(name, status, C.GoString(&text[0]))
	}
	// The version can be asked before cuInit, which a driver that is too old may fail.
	var version C.int
	if err := l.check("cuDriverGetVersion", C.call_cuDriverGetVersion(l.api, &version), ""); err != nil {
		return nil, err
	}
	l.version = int(version)
	if l.version < minVersion {
		return nil, &Unavailable{OldDriver, fmt.Sprintf("NVIDIA's driver is one for CUDA %s, and the kernels need %s", l.cuda(), minVersionText), updatesDriver}
	}
	if rc := C.call_cuInit(l.api, 0); rc != C.CUDA_SUCCESS {
		return nil, unstarted(l.failure("cuInit", rc, ""))
	}
	var count C.int
	if err := l.check("cuDeviceGetCount", C.call_cuDeviceGetCount(l.api, &count), ""); err != nil {
		return nil, err
	}
	if l.devices = int(count); l.devices == 0 {
		return nil, unstarted(&Error{Code: C.CUDA_ERROR_NO_DEVICE})
	}
	return l, nil
}

func (l *library) String() string { return "CUDA driver " + l.cuda() }
func (l *library) cuda() string   { return fmt.Sprintf("%d.%d", l.version/1000, l.version%1000/10) }
func (l *library) Emulated() bool { return false }
func (l *library) Devices() int   { return l.devices }

// Info asks the driver for what a device is.
func (l *library) Info(device int) (Info, error) {
	_, info, err := l.device(device)
	return info, err
}

// device finds a device by its number.
func (l *library) device(ordinal int) (C.CUdevice, Info, error) {
	var info Info
	if ordinal < 0 || ordinal >= l.devices {
		return 0, info, fmt.Errorf("there is no device %d: the driver has %d, from 0", ordinal, l.devices)
	}
	what := fmt.Sprintf("device %d", ordinal)
	var d C.CUdevice
	if err := l.check("cuDeviceGet", C.call_cuDeviceGet(l.api, &d, C.int(ordinal)), what); err != nil {
		return 0, info, err
	}
	var name [256]C.char
	if err := l.check("cuDeviceGetName", C.call_cuDeviceGetName(l.api, &name[0], C.int(len(name)), d), what); err != nil {
		return 0, info, err
	}
	info.Name = C.GoString(&name[0])
	var id C.CUuuid
	if err := l.check("cuDeviceGetUuid_v2", C.call_cuDeviceGetUuid_v2(l.api, &id, d), what); err != nil {
		return 0, info, err
	}
	u := C.GoBytes(unsafe.Pointer(&id), C.sizeof_CUuuid)
	info.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]) // as nvidia-smi writes it
	var bytes C.size_t
	if err := l.check("cuDeviceTotalMem_v2", C.call_cuDeviceTotalMem_v2(l.api, &bytes, d), what); err != nil {
		return 0, info, err
	}
	info.Memory = int64(bytes)
	for _, a := range []struct {
		attribute C.CUdevice_attribute
		to        *int
	}{
		{C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info.Major},
		{C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info.Minor},
		{C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info.Multiprocessors},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &info.Shared},
		{C.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &info.L2},
	} {
		var value C.int
		if err := l.check("cuDeviceGetAttribute", C.call_cuDeviceGetAttribute(l.api, &value, a.attribute, d), what); err != nil {
			return 0, info, err
		}
		*a.to = int(value)
	}
	return d, info, nil
}

// check makes an error of what a call returned, nil of success.
func (l *library) check(call string, rc C.CUresult, what string) error {
	if rc == C.CUDA_SUCCESS {
		return nil
	}
	return l.failure(call, rc, what)
}

// failure names what a call returned.
func (l *library) failure(call string, rc C.CUresult, what string) *Error {
	e := &Error{Call: call, Code: int(rc), Name: "unknown to this driver", Text: "no description", What: what}
	var text *C.char
	if C.call_cuGetErrorName(l.api, rc, &text) == C.CUDA_SUCCESS && text != nil {
		e.Name = C.GoString(text)
	}
	if C.call_cuGetErrorString(l.api, rc, &text) == C.CUDA_SUCCESS && text != nil {
		e.Text = C.GoString(text)
	}
	// A kernel's fault is told by whatever call comes next, and by all after it.
	if rc == C.CUDA_ERROR_ILLEGAL_ADDRESS || rc == C.CUDA_ERROR_LAUNCH_TIMEOUT || rc == C.CUDA_ERROR_ASSERT ||
		rc >= C.CUDA_ERROR_HARDWARE_STACK_ERROR && rc <= C.CUDA_ERROR_LAUNCH_FAILED {
		e.Text += " (in what the device was given before: CUDA_LAUNCH_BLOCKING=1 in the environment, or device: emulator, finds the kernel)"
	}
	return e
}
