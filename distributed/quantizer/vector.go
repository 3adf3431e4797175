//go:build cgo

package quantizer

/*
#cgo CFLAGS: -std=c11 -O3 -Wall
#cgo noescape gt_quantizer_encode
#cgo nocallback gt_quantizer_encode
#cgo noescape gt_quantizer_decode
#cgo nocallback gt_quantizer_decode
#include "quantizer.h"
*/
import "C"

import "unsafe"

// Column is read by C as it is.
const (
	_ = -uint(unsafe.Sizeof(Column{}) ^ C.sizeof_gt_column)
	_ = -uint(unsafe.Offsetof(Column{}.Dense) ^ 8)
)

// A vectorized is the code for one instruction set.
type vectorized struct{ table *C.gt_quantizer }

// vectorizations lists what the machine can run, the best first.
func vectorizations() (list []vectorized) {
	for {
		t := C.gt_quantizer_for(C.int(len(list)))
		if t == nil {
			return list
		}
		list = append(list, vectorized{t})
	}
}

func (v vectorized) String() string { return C.GoString(v.table.isa) }

// best is what the machine runs fastest; ok is false where that is the definition.
func best() (v vectorized, ok bool) {
	v.table = C.gt_quantizer_for(0)
	return v, v.table != nil
}

func (v vectorized) encode(f Format, columns []Column, gradient, residual, next []float32, wire []byte) (bad int) {
	return int(C.gt_quantizer_encode(v.table, C.int(f.Bits), truth(f.ZeroThreshold), C.float(stepOf(f.Bits)),
		C.int64_t(len(columns)), unsafe.Pointer(unsafe.SliceData(columns)), floats(gradient), floats(residual), floats(next),
		(*C.uint8_t)(unsafe.SliceData(wire))))
}

func (v vectorized) decode(f Format, columns []Column, wire []byte, values []float32, add bool) {
	C.gt_quantizer_decode(v.table, C.int(f.Bits), C.int64_t(len(columns)), unsafe.Pointer(unsafe.SliceData(columns)),
		(*C.uint8_t)(unsafe.SliceData(wire)), floats(values), truth(add))
}

func floats(s []float32) *C.float { return (*C.float)(unsafe.SliceData(s)) }

func truth(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// memcpy is the measure of the benchmarks.
func memcpy(to, from []byte) {
	C.gt_quantizer_copy(unsafe.Pointer(unsafe.SliceData(to)), unsafe.Pointer(unsafe.SliceData(from)), C.int64_t(len(from)))
}
