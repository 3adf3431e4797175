// Package nccl exchanges gradients between GPUs of several processes with NVIDIA's NCCL, from libnccl.so.2, which is looked for
// when Open is called. Each process has one GPU and one Member.
//
// It moves bytes between memories of devices, on streams, and within captured graphs too; what the bytes are, and how members
// find each other to share an ID, is their owners' business. It is no group.Member: data never comes by the host, and the order of
// AllReduce's sums is NCCL's own, so that dense results differ in rounding from those of other transports.
//
// It follows NCCL's user guide (docs.nvidia.com/deeplearning/nccl/user-guide).
package nccl

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
	"strings"
	"unsafe"
)

const (
	libraryName      = "libnccl.so.2"
	libraryOverrides = "GOTRAIN_LIBNCCL" // the environment variable that names another library, for tests
	minVersion       = 20900             // can be captured into graphs
	idBytes          = 128
	remedy           = "install libnccl2 from NVIDIA's repository, or set distributed.transport to mpi"
)

// Unavailable is the error of Open where there is no NCCL that can be used.
type Unavailable struct{ Text string }

func (u *Unavailable) Error() string { return u.Text + ": " + remedy }

// Library is a loaded NCCL.
type Library struct {
	api     *C.struct_gotrain_nccl // never freed, as the library is never unloaded
	version int
}

// Open loads NCCL. The error is *Unavailable where there is none, or too old a one.
func Open() (*Library, error) {
	name := cmp.Or(os.Getenv(libraryOverrides), libraryName)
	l := &Library{api: (*C.struct_gotrain_nccl)(C.calloc(1, C.sizeof_struct_gotrain_nccl))}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var text [512]C.char
	switch status := C.gotrain_nccl_load(l.api, cname, &text[0], C.size_t(len(text))); {
	case status == C.GOTRAIN_NCCL_LOADED:
	case status == C.GOTRAIN_NCCL_NO_FUNCTION:
		return nil, &Unavailable{fmt.Sprintf("%s has no %s", name, C.GoString(&text[0]))}
	case strings.HasPrefix(C.GoString(&text[0]), name+": cannot open shared object file: No such file"):
		return nil, &Unavailable{"there is no NCCL here: no " + name}
	default:
		return nil, &Unavailable{"NCCL does not load: " + C.GoString(&text[0])}
	}
	var version C.int
	if err := l.check("ncclGetVersion", C.call_ncclGetVersion(l.api, &version), nil); err != nil {
		return nil, err
	}
	if l.version = int(version); l.version < minVersion {
		return nil, &Unavailable{fmt.Sprintf("%v is too old: 2.9 is the first that CUDA graphs can hold", l)}
	}
	return l, nil
}

func (l *Library) String() string {
	v := l.version
	if v < minVersion { // one digit less before version 2.9
		return fmt.Sprintf("NCCL %d.%d.%d", v/1000, v/100%10, v%100)
	}
	return fmt.Sprintf("NCCL %d.%d.%d", v/10000, v/100%100, v%100)
}

// NewID makes what members of one communicator have in common: rank 0 makes it, and gives it to the others by other means.
func (l *Library) NewID() ([]byte, error) {
	var id C.ncclUniqueId
	if err := l.check("ncclGetUniqueId", C.call_ncclGetUniqueId(l.api, &id), nil); err != nil {
		return nil, err
	}
	return C.GoBytes(unsafe.Pointer(&id), idBytes), nil
}

// Error is a call of NCCL that failed.
type Error struct {
	Call string // such as ncclAllReduce
	Code int
	Text string // what the code means
	Last string // what NCCL says about its last error; may be empty
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Text, e.Code)
	if e.Last != "" {
		s += ": " + e.Last
	}
	return s + " (NCCL_DEBUG=INFO in the environment tells more)"
}

// check makes an error of what a call returned, nil of success.
func (l *Library) check(call string, rc C.ncclResult_t, comm C.ncclComm_t) error {
	if rc == C.ncclSuccess {
		return nil
	}
	return &Error{Call: call, Code: int(rc), Text: C.GoString(C.call_ncclGetErrorString(l.api, rc)),
		Last: strings.TrimSpace(C.GoString(C.gotrain_nccl_last_error(l.api, comm)))}
}
