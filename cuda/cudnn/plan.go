package cudnn

/*
#include <stdlib.h>
#include "api.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
)

// Pass is what is computed of a convolution.
type Pass int

// The passes, with the tensors that Run takes and, in capitals, the one that it fills. Tensors are [N][H][W][C] with padded channels,
// weights [K][kernel][kernel][C] with both padded: what kernels.PackWeights makes for the forward pass.
const (
	Forward         Pass = iota // x, w, Y; Y is float32
	BackwardData                // DX, w, dy; DX is stored as dy is
	BackwardWeights             // x, DW, dy; DW is float32
)

func (p Pass) String() string {
	return [...]string{"", "gradient by data of ", "gradient by weights of "}[p]
}

// Plan is an engine's way to compute a convolution.
type Plan struct {
	handle *Handle
	what   string
	c      *C.struct_gotrain_cudnn_conv // nil: freed
}

// Plan asks cuDNN how to compute a convolution with at most so many bytes of workspace. The error is ErrUnsupported, wrapped, where
// it has no way.
func (h *Handle) Plan(p Pass, s kernels.ConvShape, m kernels.Math, workspace int) (*Plan, error) {
	plan := &Plan{handle: h, what: fmt.Sprintf("%v%v in %v", p, s, m)}
	if m == kernels.Mixed {
		if p != Forward {
			return nil, fmt.Errorf("%s: %w", plan.what, ErrUnsupported)
		}
		m = kernels.FFMA // that is what it is, forward
	}
	plan.c = (*C.struct_gotrain_cudnn_conv)(C.calloc(1, C.sizeof_struct_gotrain_cudnn_conv))
	c := plan.c
	c.pass, c.stride, c.pad, c.limit, c.refused = C.int(p), C.int64_t(s.Stride), C.int64_t(s.Pad), C.int64_t(workspace), refused(m)
	stored := C.int(C.CUDNN_DATA_FLOAT)
	if m == kernels.BF16 {
		stored = C.CUDNN_DATA_BFLOAT16
	}
	x, w, y := stored, stored, stored
	switch p {
	case Forward:
		y = C.CUDNN_DATA_FLOAT
	case BackwardWeights:
		w = C.CUDNN_DATA_FLOAT
	}
	channels, filters := kernels.Padded(s.C), kernels.Padded(s.K)
	c.x = tensor(x, s.N, channels, s.H, s.W)
	c.w = tensor(w, filters, channels, s.Kernel, s.Kernel)
	c.y = tensor(y, s.N, filters, s.OH(), s.OW())
	err := h.with(func() error { return plan.check(C.gotrain_cudnn_plan(h.library.api, h.handle, c)) })
	if err == nil && c.plan == nil {
		err = fmt.Errorf("%s: %w", plan.what, ErrUnsupported)
	}
	if err != nil {
		C.free(unsafe.Pointer(c))
		return nil, err
	}
	return plan, nil
}

func tensor(stored C.int, dimensions ...int) (t C.struct_gotrain_cudnn_tensor) {
	t._type = stored
	for i, n := range dimensions {
		t.dimensions[i] = C.int64_t(n)
	}
	return t
}

// refused are the notes of engines whose results differ from run to run, or are less precise than the math asks for.
func refused(m kernels.Math) C.int {
	notes := []int{C.CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, C.CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, C.CUDNN_NUMERICAL_NOTE_FFT}
	if m == kernels.FFMA {
		notes = append(notes, C.CUDNN_NUMERICAL_NOTE_TENSOR_CORE, C.CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, C.CUDNN_NUMERICAL_NOTE_WINOGRAD,
			C.CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, C.CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, C.CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13)
	}
	bits := 0
	for _, n := range notes {
		bits |= 1 << n
	}
	return C.int(bits)
}

// check makes an error of what a call returned, nil of success. Statuses from 3000 on say why something is not supported.
func (p *Plan) check(status C.cudnnStatus_t) error {
	if status == C.CUDNN_STATUS_SUCCESS {
		return nil
	}
	e := p.handle.library.failure(C.GoString(p.c.call), int(p.c.concerns), status, p.what)
	if status >= C.CUDNN_STATUS_NOT_SUPPORTED && status < C.CUDNN_STATUS_NOT_SUPPORTED+1000 {
		return fmt.Errorf("%w (%w)", e, ErrUnsupported)
	}
	return e
}

// Workspace is the bytes of memory that Run needs beside the tensors.
func (p *Plan) Workspace() int { return int(p.c.workspace) }

// Engine is the number that cuDNN gives to the engine: with a version of cuDNN and a kind of GPU, it tells how sums are made.
func (p *Plan) Engine() int { return int(p.c.engine) }

// Run gives a stream the convolution. Streams may capture: the plan has to live as long as a graph that holds it.
func (p *Plan) Run(s driver.Stream, x, w, y, workspace driver.Pointer) error {
	native, ok := s.(driver.NativeStream)
	if !ok {
		return fmt.Errorf("%s: the stream is not one of a GPU", p.what)
	}
	return p.handle.with(func() error {
		if p.c == nil {
			return fmt.Errorf("%s: the plan was freed before", p.what)
		}
		return p.check(C.gotrain_cudnn_run(p.handle.library.api, p.handle.handle, p.c, C.uintptr_t(native.Handle()),
			C.uint64_t(x), C.uint64_t(w), C.uint64_t(y), C.uint64_t(workspace)))
	})
}

// Free gives back what the plan holds.
func (p *Plan) Free() error {
	return p.handle.with(func() error {
		if p.c != nil {
			C.gotrain_cudnn_release(p.handle.library.api, p.c)
			C.free(unsafe.Pointer(p.c))
			p.c = nil
		}
		return nil
	})
}
