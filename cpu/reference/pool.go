package reference

import (
	"math"

	"gotrain/graph"
)

// windows calls visit for each value of y, with its index and those of the values of x under its window, row by row.
func (t taps) windows(visit func(y int, window []int)) {
	var window []int
	y := 0
	for channel := range t.x[0] * t.x[1] {
		for oy := range t.y[2] {
			for ox := range t.y[3] {
				window = window[:0]
				for ky := range t.attr.Kernel {
					for kx := range t.attr.Kernel {
						iy, inRows := t.at(oy, ky, t.x[2])
						ix, inColumns := t.at(ox, kx, t.x[3])
						if inRows && inColumns {
							window = append(window, (channel*t.x[2]+iy)*t.x[3]+ix)
						}
					}
				}
				visit(y, window)
				y++
			}
		}
	}
}

func maxPool(t taps, x, y []float64) {
	t.windows(func(j int, window []int) {
		y[j] = math.Inf(-1)
		for _, i := range window {
			y[j] = max(y[j], x[i])
		}
	})
}

// maxPoolBackward gives each dy to the first value under the window, row by row, that is the maximum.
func maxPoolBackward(t taps, x, y, dy, dx []float64) {
	clear(dx)
	t.windows(func(j int, window []int) {
		for _, i := range window {
			if x[i] == y[j] {
				dx[i] += dy[j]
				break
			}
		}
	})
}

func averagePool(x, y []float64) {
	image := len(x) / len(y)
	for channel := range y {
		sum := 0.0
		for _, v := range x[channel*image:][:image] {
			sum += v
		}
		y[channel] = sum / float64(image)
	}
}

func averagePoolBackward(dy, dx []float64) {
	image := len(dx) / len(dy)
	for i := range dx {
		dx[i] = dy[i/image] / float64(image)
	}
}

// sampled calls visit with the indices of each value of x [N][C][H][W] that a subsampling takes over, and of its place
// in y.
func sampled(x, y graph.Shape, stride int, visit func(x, y int)) {
	for n := range x[0] {
		for c := range x[1] {
			for row := range y[2] {
				for col := range y[3] {
					visit(((n*x[1]+c)*x[2]+row*stride)*x[3]+col*stride, ((n*y[1]+c)*y[2]+row)*y[3]+col)
				}
			}
		}
	}
}

func subsample(xs, ys graph.Shape, stride int, x, y []float64) {
	clear(y)
	sampled(xs, ys, stride, func(i, j int) { y[j] = x[i] })
}

func subsampleBackward(xs, ys graph.Shape, stride int, dy, dx []float64) {
	clear(dx)
	sampled(xs, ys, stride, func(i, j int) { dx[i] = dy[j] })
}
