package kernels

import (
	"gotrain/cuda/driver"
	"gotrain/graph"
)

// windowed launches an operation between images x and smaller ones y, with a thread for four channels of each pixel of `of`.
func (s *Set) windowed(name string, t graph.DType, of, x, y graph.Shape, a graph.Attr, operands ...any) driver.Launch {
	quads := of[0] * of[2] * of[3] * Padded(of[1]) / 4
	params := append(operands, x[0], x[2], x[3], Padded(x[1]), y[2], y[3], Padded(y[1]), a.Kernel, a.Stride, a.Pad, x[1])
	return s.launch(name+suffix(t), flat(quads), threads, params...)
}

// Subsample takes every Stride-th row and column of x and gives y zeros for the channels that x lacks. It moves each value of y twice.
func (s *Set) Subsample(t graph.DType, xs, ys graph.Shape, a graph.Attr, x, y driver.Pointer) driver.Launch {
	return s.windowed("subsample", t, ys, xs, ys, a, x, y)
}

// SubsampleBackward writes dx, zero where nothing was taken.
func (s *Set) SubsampleBackward(t graph.DType, xs, ys graph.Shape, a graph.Attr, dy, dx driver.Pointer) driver.Launch {
	return s.windowed("subsample_backward", t, xs, xs, ys, a, dy, dx)
}

// MaxPool is bound by memory: windows overlap in cache.
func (s *Set) MaxPool(t graph.DType, xs, ys graph.Shape, a graph.Attr, x, y driver.Pointer) driver.Launch {
	return s.windowed("max_pool", t, ys, xs, ys, a, x, y)
}

// MaxPoolBackward finds maxima again, so that none of their places is stored.
func (s *Set) MaxPoolBackward(t graph.DType, xs, ys graph.Shape, a graph.Attr, x, y, dy, dx driver.Pointer) driver.Launch {
	return s.windowed("max_pool_backward", t, xs, xs, ys, a, x, y, dy, dx)
}

// AveragePool is the mean over the pixels of x: y is float32 [N][C]. It reads each value of x once.
func (s *Set) AveragePool(t graph.DType, xs graph.Shape, x, y driver.Pointer) driver.Launch {
	grid := driver.Dim{X: xs[0], Y: ceil(Padded(xs[1]), 32), Z: 1}
	return s.launch("average_pool"+suffix(t), grid, threads, x, y, xs[1], xs[2]*xs[3])
}

// AveragePoolBackward gives each pixel its part of dy, float32 [N][C].
func (s *Set) AveragePoolBackward(t graph.DType, xs graph.Shape, dy, dx driver.Pointer) driver.Launch {
	return s.launch("average_pool_backward"+suffix(t), flat(ActivationBytes(xs, t)/t.Size()/4), threads, dy, dx, xs[0], xs[1], xs[2]*xs[3])
}
