// Package graph holds a training step as data: tensors, operations with shape inference, the backward pass by
// reverse-mode differentiation, the passes that fuse operations and drop dead ones, the layout of the parameter arenas,
// and the memory plan of everything else.
//
// It computes nothing: executors (packages cpu and cuda) run a compiled Plan, through the Executor interface. It knows
// nothing of ResNets either: package network builds them with it.
package graph

import (
	"fmt"
	"strings"
)

// DType is the type of a tensor's values in memory.
type DType uint8

// The types of values.
const (
	Float32 DType = iota
	BFloat16
	Int32
	Float64
)

// Size is the bytes of one value.
func (d DType) Size() int { return [...]int{4, 2, 4, 8}[d] }

func (d DType) String() string { return [...]string{"float32", "bfloat16", "int32", "float64"}[d] }

// Shape lists the extents of a tensor, slowest first: [N][C][H][W] for activations whatever an executor's layout in
// memory, [out][in][kh][kw] for the weights of a convolution.
type Shape []int

// Values is the product of the extents; 1 for a scalar.
func (s Shape) Values() int {
	n := 1
	for _, e := range s {
		n *= e
	}
	return n
}

func (s Shape) String() string {
	t := make([]string, len(s))
	for i, e := range s {
		t[i] = fmt.Sprint(e)
	}
	return "[" + strings.Join(t, "x") + "]"
}

// Equal says whether two shapes have the same extents.
func (s Shape) Equal(o Shape) bool {
	if len(s) != len(o) {
		return false
	}
	for i := range s {
		if s[i] != o[i] {
			return false
		}
	}
	return true
}

// Role says who owns a tensor's memory.
type Role uint8

// The roles of tensors.
const (
	Intermediate      Role = iota // lives within a step, placed by the memory plan
	Input                         // filled from the batch before a step
	Output                        // lives within a step and is read after it
	Parameter                     // in the parameter arena
	ParameterGradient             // in the gradient arena, at its parameter's offset
	Statistic                     // running statistics, in an arena of their own
)

// Tensor is a value of the graph. It has one producer at most.
type Tensor struct {
	ID    int // index in Graph.Tensors
	Name  string
	Shape Shape
	DType DType
	Role  Role
	Of    *Tensor // of a gradient: the tensor whose gradient it is
}

// Bytes is the memory that the tensor's values take.
func (t *Tensor) Bytes() int { return t.Shape.Values() * t.DType.Size() }

func (t *Tensor) String() string { return fmt.Sprintf("%s %s", t.Name, t.Shape) }
