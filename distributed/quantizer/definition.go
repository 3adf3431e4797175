package quantizer

import (
	"encoding/binary"
	"math"
)

// The definition of every format, in plain Go. It runs where there is no vectorized code, and is what that code is tested
// against. Products are converted to float32 before they are added to: otherwise the compiler may fuse the two operations,
// and round once where other machines round twice.

const partials = 256 // partial sums of a column

// smallest is the smallest step: below it 1/step would overflow, or half a step would not be exact. A column that needs a smaller one is sent as zeros and stays
// in its residual.
const smallest = 0x1p-125

// stepOf is the step that is optimal for N = 2^bits levels, over the mean of |v|: sqrt(pi/2) times the step that is optimal for
// a Gaussian of deviation 1.
func stepOf(bits int) float32 {
	const sqrtHalfPi = 1.2533141373155003
	switch bits {
	case 2:
		return sqrtHalfPi * 0.9957
	case 4:
		return sqrtHalfPi * 0.3352
	case 8:
		return sqrtHalfPi * 0.03076
	}
	return 0
}

// sums are a column's 256 partial sums.
type sums [partials]float32

func (s *sums) add(i int, v float32) { s[i%partials] += v }

// total folds the partial sums; s is of no use afterwards.
func (s *sums) total() float32 {
	for n := partials / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[i+n]
		}
	}
	return s[0]
}

// mean of n values; 0 of none.
func mean(sum float32, n int) float32 {
	if n == 0 {
		return 0
	}
	return sum / float32(n)
}

func finite(v float32) bool { return math.Float32bits(v)&0x7f800000 != 0x7f800000 }

func putFloat(wire []byte, v float32) { binary.LittleEndian.PutUint32(wire, math.Float32bits(v)) }

func getFloat(wire []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(wire)) }

// define is the definition of Encode.
func (f Format) define(columns []Column, gradient, residual, next []float32, wire []byte) (bad int) {
	for i, c := range columns {
		from, to := int(c.Offset), int(c.Offset)+int(c.Rows)
		piece := wire[:f.piece(c)]
		wire = wire[len(piece):]
		g := gradient[from:to]
		ok := true
		if c.Dense || f.Bits == 32 && residual == nil {
			ok = encodeFloats(g, piece)
		} else {
			ok = f.encodeColumn(g, residual[from:to], next[from:to], piece)
		}
		if !ok {
			return i
		}
	}
	return -1
}

// encodeColumn quantizes a column and says whether all was finite.
func (f Format) encodeColumn(gradient, residual, next []float32, wire []byte) bool {
	for i, g := range gradient {
		next[i] = g + residual[i]
	}
	switch f.Bits {
	case 32:
		ok := encodeFloats(next, wire)
		clear(next)
		return ok
	case 16:
		return encodeBfloat16(next, wire)
	case 1:
		return encodeSides(next, wire, f.ZeroThreshold)
	}
	return encodeLevels(next, wire, f.Bits)
}

func encodeFloats(v []float32, wire []byte) bool {
	ok := true
	for i, x := range v {
		putFloat(wire[4*i:], x)
		ok = ok && finite(x)
	}
	return ok
}

// encodeBfloat16 leaves in v what the codes lose. A value that rounds to infinity counts as one.
func encodeBfloat16(v []float32, wire []byte) bool {
	ok := true
	clear(wire[2*len(v):])
	for i, x := range v {
		b := math.Float32bits(x)
		ok = ok && b&0x7fffffff < 0x7f7f8000
		code := (b + 0x7fff + b>>16&1) >> 16
		binary.LittleEndian.PutUint16(wire[2*i:], uint16(code))
		v[i] = x - math.Float32frombits(code<<16)
	}
	return ok
}

// encodeSides quantizes to 1 bit, and leaves in v what that loses.
func encodeSides(v []float32, wire []byte, zeroThreshold bool) bool {
	var threshold float32
	ok := true
	if !zeroThreshold {
		var all sums
		for i, x := range v {
			all.add(i, x)
		}
		threshold = mean(all.total(), len(v))
		ok = finite(threshold)
	}
	var below, above sums
	var n int // above
	bits := wire[8:]
	clear(bits)
	for i, x := range v {
		if x >= threshold {
			above.add(i, x)
			bits[i/8] |= 1 << (i % 8)
			n++
		} else {
			below.add(i, x)
		}
	}
	means := [2]float32{mean(below.total(), len(v)-n), mean(above.total(), n)}
	putFloat(wire, means[0])
	putFloat(wire[4:], means[1])
	for i := range v {
		v[i] -= means[bits[i/8]>>(i%8)&1]
	}
	return ok && finite(means[0]) && finite(means[1])
}

// encodeLevels quantizes to 2, 4 or 8 bits, and leaves in v what that loses.
func encodeLevels(v []float32, wire []byte, bits int) bool {
	var absolute sums
	for i, x := range v {
		absolute.add(i, float32(math.Abs(float64(x))))
	}
	step := mean(absolute.total(), len(v)) * stepOf(bits)
	var inverse float32
	if step < smallest {
		step = 0
	} else {
		inverse = 1 / step
	}
	putFloat(wire, step)
	codes := wire[4:]
	clear(codes)
	half := float32(int(1) << bits / 2) // N/2
	for i, x := range v {
		q := float32(math.Floor(float64(x * inverse)))
		q = max(-half, min(half-1, q))
		codes[i*bits/8] |= byte(int(q+half) << (i * bits % 8))
		v[i] = x - float32((q+0.5)*step)
	}
	return finite(float32((half - 0.5) * step))
}

// defineDecode is the definition of Decode, and with add of Add.
func (f Format) defineDecode(columns []Column, wire []byte, values []float32, add bool) {
	for _, c := range columns {
		piece := wire[:f.piece(c)]
		wire = wire[len(piece):]
		decoded := f.decoder(c, piece)
		for i := range int(c.Rows) {
			v := decoded(i)
			if add {
				v += values[int(c.Offset)+i]
			}
			values[int(c.Offset)+i] = v
		}
	}
}

// decoder returns what gives a column's value i.
func (f Format) decoder(c Column, wire []byte) func(i int) float32 {
	switch {
	case c.Dense || f.Bits == 32:
		return func(i int) float32 { return getFloat(wire[4*i:]) }
	case f.Bits == 16:
		return func(i int) float32 {
			return math.Float32frombits(uint32(binary.LittleEndian.Uint16(wire[2*i:])) << 16)
		}
	case f.Bits == 1:
		means := [2]float32{getFloat(wire), getFloat(wire[4:])}
		return func(i int) float32 { return means[wire[8+i/8]>>(i%8)&1] }
	}
	step := getFloat(wire)
	middle := float32(int(1)<<f.Bits-1) / 2 // the code that would decode to 0
	return func(i int) float32 {
		code := int(wire[4+i*f.Bits/8]>>(i*f.Bits%8)) & (1<<f.Bits - 1)
		return float32((float32(code) - middle) * step)
	}
}
