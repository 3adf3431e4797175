// Package cpu runs a compiled graph on the CPU: convolutions and dense layers by oneDNN, the rest, and the 3x3
// convolutions for which Winograd's method is faster than oneDNN, by kernels of its own (kernels.h).
//
// A plan becomes a program once: a list of calls with all their arguments in C memory. A step then is one crossing from Go
// into C, or one for each bucket of gradients that something waits for. Activations are blocked by channels throughout
// (nChw16c with AVX-512, nChw8c otherwise); the images before the first convolution, the pooled features after the last,
// and everything in an arena are plain.
//
// Package cpu/reference is the definition that this package is tested against.
package cpu

// #cgo CFLAGS: -O3 -fopenmp -Wall -Wno-psabi
// #cgo LDFLAGS: -ldnnl -lgomp -lm
// #include <stdlib.h>
// #include "kernels.h"
// #include "onednn.h"
import "C"

import "fmt"

// Info describes what computes on this machine.
type Info struct {
	OneDNN  string // version
	ISA     string // the instruction set that oneDNN uses
	Kernels string // the one that our kernels use
}

// Describe returns the libraries and instruction sets in use.
func Describe() Info {
	return Info{OneDNN: C.GoString(C.gt_dnnl_version()), ISA: C.GoString(C.gt_dnnl_isa()), Kernels: C.GoString(C.gt_kernels_isa())}
}

func (i Info) String() string {
	return fmt.Sprintf("oneDNN %s (%s), own kernels (%s)", i.OneDNN, i.ISA, i.Kernels)
}
