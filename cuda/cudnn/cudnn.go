// Package cudnn has NVIDIA's cuDNN 9 compute convolutions, as a second provider beside package kernels. The library is looked for
// when Open is called. A convolution and its gradients take and leave what package kernels' do, but for the gradient of the
// weights, which comes in the layout of packed weights, and that cuDNN does not know a Mixed math.
//
// It makes graphs of one operation with cuDNN's backend API (docs.nvidia.com/deeplearning/cudnn/backend), has its heuristics
// list engines, and takes the first whose results are the same in every run, as precise as the math asks for, and whose workspace
// is small enough. It measures nothing.
package cudnn

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "api.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"gotrain/cuda/driver"
)

const (
	libraryName      = "libcudnn.so.9"
	libraryOverrides = "GOTRAIN_LIBCUDNN" // the environment variable that names another library, for tests
	remedy           = "install libcudnn9 from NVIDIA's repository, or set network.convolution to own"
)

// Unavailable is the error of Open where there is no cuDNN that can be used.
type Unavailable struct{ Text string }

func (u *Unavailable) Error() string { return u.Text + ": " + remedy }

// ErrUnsupported is that of a convolution for which cuDNN has no engine that does what is wanted.
var ErrUnsupported = errors.New("cuDNN has no engine for it that is as precise, gives the same in every run and is content with the workspace")

// Library is a loaded cuDNN.
type Library struct {
	api     *C.struct_gotrain_cudnn // never freed, as the library is never unloaded
	version int
}

// Open loads cuDNN. The error is *Unavailable where there is none.
func Open() (*Library, error) {
	name := cmp.Or(os.Getenv(libraryOverrides), libraryName)
	l := &Library{api: (*C.struct_gotrain_cudnn)(C.calloc(1, C.sizeof_struct_gotrain_cudnn))}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var text [512]C.char
	switch status := C.gotrain_cudnn_load(l.api, cname, &text[0], C.size_t(len(text))); {
	case status == C.GOTRAIN_CUDNN_LOADED:
	case status == C.GOTRAIN_CUDNN_NO_FUNCTION:
		return nil, &Unavailable{fmt.Sprintf("%s has no %s", name, C.GoString(&text[0]))}
	case strings.HasPrefix(C.GoString(&text[0]), name+": cannot open shared object file: No such file"):
		return nil, &Unavailable{"there is no cuDNN 9 here: no " + name}
	default:
		return nil, &Unavailable{"cuDNN does not load: " + C.GoString(&text[0])}
	}
	l.version = int(C.call_cudnnGetVersion(l.api))
	if l.version/10000 != 9 {
		return nil, &Unavailable{fmt.Sprintf("%s is cuDNN %d, not 9", name, l.version/10000)}
	}
	return l, nil
}

func (l *Library) String() string {
	return fmt.Sprintf("cuDNN %d.%d.%d", l.version/10000, l.version/100%100, l.version%100)
}

// Error is a call of cuDNN that failed.
type Error struct {
	Call     string // such as cudnnBackendFinalize
	Concerns int    // the type of the descriptor, or the attribute, by its number in cudnn_graph.h; 0: neither
	Code     int
	Text     string // what the code means
	Last     string // what cuDNN says about its last error; may be empty
	What     string // what the call was for; may be empty
}

func (e *Error) Error() string {
	s := e.Call
	if e.Concerns != 0 {
		s += fmt.Sprintf(" of %d", e.Concerns)
	}
	s += fmt.Sprintf(": %s (%d)", e.Text, e.Code)
	if e.Last != "" {
		s += ": " + e.Last
	}
	if e.What != "" {
		s = e.What + ": " + s
	}
	return s
}

// failure names what a call returned, on the thread that made it.
func (l *Library) failure(call string, concerns int, status C.cudnnStatus_t, what string) *Error {
	var last [1024]C.char
	C.call_cudnnGetLastErrorString(l.api, &last[0], C.size_t(len(last)))
	return &Error{Call: call, Concerns: concerns, Code: int(status), What: what,
		Text: C.GoString(C.call_cudnnGetErrorString(l.api, status)), Last: strings.TrimSpace(C.GoString(&last[0]))}
}

// Handle is cuDNN on a device. Its methods and those of its plans can be called from any goroutine.
type Handle struct {
	library *Library
	device  driver.Native
	mu      sync.Mutex // cuDNN's handles are for one thread at a time
	handle  C.cudnnHandle_t
}

// New starts cuDNN on a device, which is a driver.Native.
func (l *Library) New(d driver.Device) (*Handle, error) {
	native, ok := d.(driver.Native)
	if !ok {
		return nil, fmt.Errorf("cuDNN runs on GPUs, and %s is emulated: set network.convolution to own or auto", d.Info().Name)
	}
	h := &Handle{library: l, device: native}
	err := native.With(func() error {
		if status := C.call_cudnnCreate(l.api, &h.handle); status != C.CUDNN_STATUS_SUCCESS {
			return l.failure("cudnnCreate", 0, status, d.Info().Name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Close ends cuDNN on the device. All plans have to be freed before.
func (h *Handle) Close() error {
	return h.with(func() error {
		if h.handle == nil {
			return nil
		}
		status := C.call_cudnnDestroy(h.library.api, h.handle)
		h.handle = nil
		if status != C.CUDNN_STATUS_SUCCESS {
			return h.library.failure("cudnnDestroy", 0, status, "")
		}
		return nil
	})
}

// with makes calls on the caller's thread, one at a time.
func (h *Handle) with(f func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.device.With(f)
}
