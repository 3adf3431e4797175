package reference

import "gotrain/graph"

// taps enumerates what a sliding window over images combines: the places that it touches, without those in the padding.
type taps struct {
	x, y graph.Shape // [N][C][H][W]: of the images, and of what the window makes of them
	attr graph.Attr
}

// at is the row of x that the kernel's row k touches for y's row o, or the column likewise; false if it is in the padding.
func (t taps) at(o, k, extent int) (int, bool) {
	i := o*t.attr.Stride - t.attr.Pad + k
	return i, 0 <= i && i < extent
}

// products calls visit with the indices of each product x*w that is part of a y, which is all that a convolution and its
// gradients are.
func (t taps) products(visit func(x, w, y int)) {
	samples, in, out, kernel := t.x[0], t.x[1], t.y[1], t.attr.Kernel
	for n := range samples {
		for o := range out {
			for i := range in {
				for ky := range kernel {
					for kx := range kernel {
						w := ((o*in+i)*kernel+ky)*kernel + kx
						for oy := range t.y[2] {
							iy, ok := t.at(oy, ky, t.x[2])
							if !ok {
								continue
							}
							x, y := ((n*in+i)*t.x[2]+iy)*t.x[3], ((n*out+o)*t.y[2]+oy)*t.y[3]
							for ox := range t.y[3] {
								if ix, ok := t.at(ox, kx, t.x[3]); ok {
									visit(x+ix, w, y+ox)
								}
							}
						}
					}
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
