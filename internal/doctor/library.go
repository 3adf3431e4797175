package doctor

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

// The functions that tell versions, by their signatures in the libraries' headers.
static int call_out(void *f, int *out) { return ((int (*)(int *))f)(out); }
static size_t call_size(void *f) { return ((size_t (*)(void))f)(); }
static int call_text(void *f, char *text, int *n) { return ((int (*)(char *, int *))f)(text, n); }
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// handle is an open library. It is never closed: what a library's constructors did cannot be undone.
type handle struct{ p unsafe.Pointer }

// open loads the first of the names that there is. Without one, the handle is empty; the error says why one that is there
// does not load.
func open(names []string) (h handle, name string, err error) {
	for _, name := range names {
		n := C.CString(name)
		p := C.dlopen(n, C.RTLD_LAZY|C.RTLD_LOCAL)
		C.free(unsafe.Pointer(n))
		if p != nil {
			return handle{p}, name, nil
		}
		// The message begins with the file that is missing: the library itself, or one that it needs.
		says := C.GoString(C.dlerror())
		if err == nil && !strings.HasPrefix(says, name+": cannot open shared object file: No such file") {
			err = errors.New(says)
		}
	}
	return handle{}, "", err
}

// symbol returns the address of a function, nil where there is none.
func (h handle) symbol(name string) unsafe.Pointer {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	return C.dlsym(h.p, n)
}

// number calls a function int f(int *out); ok is false where it is missing or does not return 0.
func (h handle) number(name string) (n int, ok bool) {
	f := h.symbol(name)
	if f == nil {
		return 0, false
	}
	var out C.int
	status := C.call_out(f, &out)
	return int(out), status == 0
}

// mpiVersion is the first line of what MPI says of itself; that may be asked before MPI_Init.
func mpiVersion(h handle) string {
	f := h.symbol("MPI_Get_library_version")
	if f == nil {
		return ""
	}
	text := make([]byte, 1<<14) // over MPI_MAX_LIBRARY_VERSION_STRING of all implementations
	var n C.int
	if C.call_text(f, (*C.char)(unsafe.Pointer(&text[0])), &n) != 0 || n < 0 || int(n) >= len(text) {
		return ""
	}
	line, _, _ := strings.Cut(string(text[:n]), "\n")
	line, _, _ = strings.Cut(line, ",")
	return strings.TrimRight(line, "\x00 ")
}

func cudnnVersion(h handle) string {
	f := h.symbol("cudnnGetVersion")
	if f == nil {
		return ""
	}
	v := int(C.call_size(f))
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

func ncclVersion(h handle) string {
	v, ok := h.number("ncclGetVersion")
	if !ok {
		return ""
	}
	if v >= 20900 { // two digits more since version 2.9
		return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/1000, v/100%10, v%100)
}
