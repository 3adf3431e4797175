package reference

import "gotrain/graph"

// taps enumerates what a sliding window over images combines: the places that it touches, without those in the padding.
type taps struct {
	x, y graph.Shape // [N][C][H][W]: of the images, and of what the window makes of them
	attr graph.Attr
}

// within calls visit with the place of each value under the window that makes y's row oy and column ox, in one channel
// whose first value lies at base: its index among the images, and that in the kernel.
func (t taps) within(base, oy, ox int, visit func(x, k int)) {
	kernel, height, width := t.attr.Kernel, t.x[2], t.x[3]
	for ky := range kernel {
		iy := oy*t.attr.Stride - t.attr.Pad + ky
		if iy < 0 || iy >= height {
			continue
		}
		for kx := range kernel {
			ix := ox*t.attr.Stride - t.attr.Pad + kx
			if ix >= 0 && ix < width {
				visit(base+iy*width+ix, ky*kernel+kx)
			}
		}
	}
}

// products calls visit with the indices of each product x*w that is part of a y, which is all that a convolution and its
// gradients are.
func (t taps) products(visit func(x, w, y int)) {
	samples, in, image := t.x[0], t.x[1], t.x[2]*t.x[3]
	out, kernel := t.y[1], t.attr.Kernel*t.attr.Kernel
	y := 0
	for n := range samples {
		for o := range out {
			for oy := range t.y[2] {
				for ox := range t.y[3] {
					for i := range in {
						w := (o*in + i) * kernel
						t.within((n*in+i)*image, oy, ox, func(x, k int) { visit(x, w+k, y) })
					}
					y++
				}
			}
		}
	}
}

func conv(t taps, x, weight, y []float64) {
	clear(y)
	t.products(func(i, k, j int) { y[j] += x[i] * weight[k] })
}

func convBackwardData(t taps, weight, dy, dx []float64) {
	clear(dx)
	t.products(func(i, k, j int) { dx[i] += weight[k] * dy[j] })
}

func convBackwardWeights(t taps, x, dy, dweight []float64) {
	clear(dweight)
	t.products(func(i, k, j int) { dweight[k] += x[i] * dy[j] })
}
