package readers

import (
	"fmt"
	"image"

	"golang.org/x/image/draw"
)

// apply transforms a picture into out, [C][H][W].
func (t *transforms) apply(p picture, s Sample, out []float32, buf *buffers) error {
	if t.side != nil && !t.scaleFirst {
		p = t.sideCropped(p, s)
	}
	if t.scale != nil && (p.h != t.sh || p.w != t.sw) {
		p = t.scaled(p, buf)
	}
	if t.side != nil && t.scaleFirst {
		p = t.sideCropped(p, s)
	}
	if p.h != t.h || p.w != t.w {
		return fmt.Errorf("a picture of %dx%d pixels where %dx%d are expected", p.w, p.h, t.w, t.h)
	}
	for c := range t.c {
		dst := out[c*t.h*t.w : (c+1)*t.h*t.w]
		if p.values != nil {
			t.placeValues(dst, p, c, s)
		} else {
			t.placeBytes(dst, p, c, s)
		}
	}
	for i, m := range t.mean {
		out[i] -= m
	}
	return nil
}

func (t *transforms) sideCropped(p picture, s Sample) picture {
	y, x, side := t.side.draw(p.h, p.w, s.Key)
	return p.crop(y, x, side, side)
}

// placeBytes writes one channel of a cropped and flipped picture through the channel's table.
func (t *transforms) placeBytes(dst []float32, p picture, c int, s Sample) {
	table, outside := &t.table[c], t.outside[c]
	from, to := overlap(p.w, int(s.X))
	for y := range t.h {
		out := dst[y*t.w : (y+1)*t.w]
		in := y + int(s.Y)
		if in < 0 || in >= p.h || from >= to {
			fill(out, outside)
			continue
		}
		fill(out[:from], outside)
		fill(out[to:], outside)
		at := c*p.plane + in*p.row + (from+int(s.X))*p.step
		if p.step == 1 {
			part := out[from:to]
			for i, v := range p.pixels[at : at+len(part)] {
				part[i] = table[v]
			}
		} else {
			for x := from; x < to; x++ {
				out[x] = table[p.pixels[at]]
				at += p.step
			}
		}
		if s.Flip {
			reverse(out)
		}
	}
}

// placeValues is placeBytes for numbers, which no table can hold.
func (t *transforms) placeValues(dst []float32, p picture, c int, s Sample) {
	f, outside := t.affine[c], t.outside[c]
	from, to := overlap(p.w, int(s.X))
	for y := range t.h {
		out := dst[y*t.w : (y+1)*t.w]
		in := y + int(s.Y)
		if in < 0 || in >= p.h || from >= to {
			fill(out, outside)
			continue
		}
		fill(out[:from], outside)
		fill(out[to:], outside)
		row := p.values[c*p.plane+in*p.row:]
		for x := from; x < to; x++ {
			out[x] = f.of(float64(row[x+int(s.X)]))
		}
		if s.Flip {
			reverse(out)
		}
	}
}

// overlap returns the columns [from, to) of the result that lie in a picture of w columns, where column x shows column
// x+shift.
func overlap(w, shift int) (from, to int) {
	return min(max(0, -shift), w), min(w, max(0, w-shift))
}

func fill(s []float32, v float32) {
	for i := range s {
		s[i] = v
	}
}

func reverse(s []float32) {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
}

// scaled returns the picture scaled, interleaved in buf.scaled.
func (t *transforms) scaled(p picture, buf *buffers) picture {
	const step = 4 // red, green, blue and an alpha that nobody reads
	dst := &image.RGBA{Pix: sized(&buf.scaled, t.sh*t.sw*step), Stride: t.sw * step, Rect: image.Rect(0, 0, t.sw, t.sh)}
	src := p.image(t.c, buf)
	t.scale.Scale(dst, dst.Rect, src, src.Bounds(), draw.Src, nil)
	return picture{h: t.sh, w: t.sw, plane: 1, row: dst.Stride, step: step, pixels: dst.Pix}
}

// image returns the picture as the image packages want it, without a copy where its pixels lie that way.
func (p picture) image(c int, buf *buffers) image.Image {
	bounds := image.Rect(0, 0, p.w, p.h)
	if p.step == 4 {
		return &image.RGBA{Pix: p.pixels, Stride: p.row, Rect: bounds}
	}
	if c == 1 && p.step == 1 {
		return &image.Gray{Pix: p.pixels, Stride: p.row, Rect: bounds}
	}
	m := &image.RGBA{Pix: sized(&buf.decoded, p.h*p.w*4), Stride: p.w * 4, Rect: bounds}
	for y := range p.h {
		for x := range p.w {
			out, at := m.Pix[(y*p.w+x)*4:], y*p.row+x*p.step
			for k := range 3 {
				out[k] = p.pixels[min(k, c-1)*p.plane+at]
			}
			out[3] = 0xff
		}
	}
	return m
}

// sized returns n bytes of *b, which is grown where it is too short.
func sized(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	return *b
}
