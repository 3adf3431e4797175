package kernels

import (
	"gotrain/cuda/driver"
	"gotrain/graph"
)

// elementwise launches an operation on activations of one shape, 16 bytes a thread.
func (s *Set) elementwise(name string, t graph.DType, shape graph.Shape, operands ...any) driver.Launch {
	vectors := ActivationBytes(shape, t) / 16
	return s.launch(name+suffix(t), flat(vectors), threads, append(operands, int64(vectors))...)
}

// ReLU is max(x, 0). y may be x. It reads and writes each value once.
func (s *Set) ReLU(t graph.DType, shape graph.Shape, x, y driver.Pointer) driver.Launch {
	return s.elementwise("relu", t, shape, x, y)
}

// ReLUBackward is dy where y is positive. dx may be dy. It reads two values for each that it writes.
func (s *Set) ReLUBackward(t graph.DType, shape graph.Shape, y, dy, dx driver.Pointer) driver.Launch {
	return s.elementwise("relu_backward", t, shape, y, dy, dx)
}

// Add is a + b. y may be either. It reads two values for each that it writes.
func (s *Set) Add(t graph.DType, shape graph.Shape, a, b, y driver.Pointer) driver.Launch {
	return s.elementwise("add", t, shape, a, b, y)
}
