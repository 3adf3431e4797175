package kernels

import "gotrain/cuda/driver"

// product is the grid of a product with m rows and n columns.
func product(m, n int) driver.Dim { return driver.Dim{X: ceil(n, 32), Y: ceil(m, 32), Z: 1} }

// Dense is x [n][in] times weight [out][in], transposed, plus bias [out]: y [n][out].
func (s *Set) Dense(n, in, out int, x, weight, bias, y driver.Pointer) driver.Launch {
	return s.launch("dense_forward", product(n, out), threads, x, weight, bias, y, n, in, out)
}

// DenseBackwardData is dy [n][out] times weight: dx [n][in].
func (s *Set) DenseBackwardData(n, in, out int, weight, dy, dx driver.Pointer) driver.Launch {
	return s.launch("dense_backward_data", product(n, in), threads, weight, dy, dx, n, in, out)
}

// DenseBackwardWeights is dy, transposed, times x: dweight [out][in], and the sums of dy: dbias [out].
func (s *Set) DenseBackwardWeights(n, in, out int, x, dy, dweight, dbias driver.Pointer) driver.Launch {
	return s.launch("dense_backward_weights", product(out, in), threads, x, dy, dweight, dbias, n, in, out)
}
