package reference

import "gotrain/graph"

// taps enumerates what a sliding window over images combines: the places that it touches, without those in the padding.
type taps struct {
	x, y graph.Shape // [N][C][H][W]: of the images, and of what the window makes of them
	attr graph.Attr
}

// within calls visit with the place of each value under the window that makes y's row oy and column ox: its index among
// the values of one channel, and that in the kernel.
func (t taps) within(oy, ox int, visit func(x, k int)) {
	kernel, height, width := t.attr.Kernel, t.x[2], t.x[3]
	for ky := range kernel {
		iy := oy*t.attr.Stride - t.attr.Pad + ky
		if iy < 0 || iy >= height {
			continue
		}
		for kx := range kernel {
			ix := ox*t.attr.Stride - t.attr.Pad + kx
			if ix >= 0 && ix < width {
				visit(iy*width+ix, ky*kernel+kx)
			}
		}
	}
}

// products calls visit with the indices of each product x*w that is part of a y, which is all that a convolution and its
// gradients are.
func (t taps) products(visit func(x, w, y int)) {
	samples, in, out := t.x[0], t.x[1], t.y[1]
	kernel, xs, ys := t.attr.Kernel*t.attr.Kernel, t.x[2]*t.x[3], t.y[2]*t.y[3]
	for oy := range t.y[2] {
		for ox := range t.y[3] {
			t.within(oy, ox, func(x, k int) {
				for n := range samples {
					for o := range out {
						for i := range in {
							visit((n*in+i)*xs+x, (o*in+i)*kernel+k, (n*out+o)*ys+oy*t.y[3]+ox)
						}
					}
				}
			})
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
