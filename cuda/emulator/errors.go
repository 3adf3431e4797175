package emulator

import (
	"errors"
	"fmt"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator/ptx"
)

// code is a CUresult.
type code int

// Codes that the emulator returns, from cuda.h.
const (
	invalidValue       code = 1
	outOfMemory        code = 2
	invalidDevice      code = 101
	invalidContext     code = 201
	invalidPTX         code = 218
	invalidHandle      code = 400
	illegalState       code = 401
	notFound           code = 500
	notReady           code = 600
	illegalAddress     code = 700
	misalignedAddress  code = 716
	launchFailed       code = 719
	captureUnsupported code = 900
	captureInvalidated code = 901
	captureMerge       code = 902
	captureUnmatched   code = 903
	captureUnjoined    code = 904
	captureIsolation   code = 905
	capturedEvent      code = 907
)

// codes has their names and what the driver says of them.
var codes = map[code]struct{ name, text string }{
	invalidValue:       {"CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	outOfMemory:        {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	invalidDevice:      {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	invalidContext:     {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	invalidPTX:         {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	invalidHandle:      {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	illegalState:       {"CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
	notFound:           {"CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	notReady:           {"CUDA_ERROR_NOT_READY", "device not ready"},
	illegalAddress:     {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	misalignedAddress:  {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
	launchFailed:       {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	captureUnsupported: {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	captureInvalidated: {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
	captureMerge:       {"CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
	captureUnmatched:   {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
	captureUnjoined:    {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
	captureIsolation:   {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
	capturedEvent:      {"CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
}

// failed is a call that returns a code; what says what it was for.
func failed(call string, c code, what string) *driver.Error {
	return &driver.Error{Call: call, Code: int(c), Name: codes[c].name, Text: codes[c].text, What: what}
}

// Stopped is the first error of a device whose operation did something wrong: a *driver.Error with its cause, both of which
// errors.As finds. Later calls return a *driver.Error that tells the cause's text.
type Stopped struct {
	Driver *driver.Error
	Cause  error // a *ptx.Fault, a *Conflict or an *AccessError
}

func (e *Stopped) Error() string {
	s := e.Cause.Error()
	var f *ptx.Fault
	if errors.As(e.Cause, &f) {
		s = e.Driver.What + ": " + s // a fault does not know its stream
	}
	return fmt.Sprintf("%s [%s: %s]", s, e.Driver.Call, e.Driver.Name)
}

func (e *Stopped) Unwrap() []error { return []error{e.Driver, e.Cause} }
