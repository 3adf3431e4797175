// Package quantizer turns columns of gradients into few bits and back, with error feedback: what a column loses when it is
// quantized is kept as its residual, and added to its next gradient.
//
// It knows columns, values and bytes; which columns there are, who owns them and how messages travel is the business of
// package distributed. File definition.go says in plain Go what every format is; the vectorized code in C agrees with it to
// the bit, so that workers on different machines understand each other and runs repeat.
//
// # The wire
//
// A message is its columns' pieces one after the other, each a multiple of 4 bytes, all little-endian, unused bits zero. With
// v = gradient + residual and R rows:
//
//	bits      scale                                       codes, from the low bits of 32-bit words   decodes to
//	32        -                                           R float32                                  v
//	16        -                                           R bfloat16, to nearest even                the code
//	8, 4, 2   float32 step                                R codes q + N/2, N = 2^bits                (q + 1/2) step
//	1         float32 mean of v below the threshold,      R bits, v >= threshold                     the mean of its side
//	          float32 mean of the others
//	dense     -                                           R float32                                  the gradient
//
// # Sums
//
// A column's sums run in float32 in one fixed order: value i into partial sum i mod 256, and then a halving tree, partial i
// plus partial i+128, i+64, ... i+1.
//
// # One bit
//
// Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of Speech DNNs"
// (2014), with one column an output channel. The threshold is 0, or the column's mean.
//
// # Two, four and eight bits
//
// N levels at odd multiples of half a step, symmetric about 0 (a mid-rise quantizer), and q = floor(v / step) clipped to
// [-N/2, N/2). The step is the one with the least mean squared error for a Gaussian of the column's spread: J. Max, "Quantizing
// for minimum distortion" (1960), table II, for 4 and 16 levels; D. Hui and D. Neuhoff, "Asymptotic analysis of optimal
// fixed-rate uniform scalar quantization" (2001), for 256. The spread comes from the mean of |v|, which is sigma sqrt(2/pi)
// for a Gaussian and, unlike the deviation, is not governed by a few large values.
//
// Clipping loses nothing for good: error feedback sends the rest later. One quantization always leaves less than it got: with
// x = |v| and d its level, x^2 - (x-d)^2 = d (2x - d) is a convex function of x that is positive at the mean of x, so its sum
// over a column is positive too, whatever the values. That is the condition under which error feedback converges (Karimireddy
// et al., "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", 2019).
//
// CNTK's quantizer of several bits differs: it spreads 2^bits - 1 levels over 4 standard deviations on each side of the mean, so
// that at 2 bits most values decode to the mean, and its messages are not these.
package quantizer

import "fmt"

// Column is a run of values that share one scale. C code reads it as it is.
type Column struct {
	Offset int32 // of its first value, in every arena alike
	Rows   int32 // values
	Dense  bool  // sent as it is, whatever the format, and without a residual
}

// Format says how columns are sent.
type Format struct {
	Bits          int  // 32, 16, 8, 4, 2 or 1
	ZeroThreshold bool // 1 bit: values are told by their sign; false: by the mean of their column
}

// Bytes is the length of the columns' wire form.
func (f Format) Bytes(columns []Column) int {
	n := 0
	for _, c := range columns {
		n += f.piece(c)
	}
	return n
}

// piece is the length of one column's wire form.
func (f Format) piece(c Column) int {
	rows := int(c.Rows)
	if c.Dense {
		return 4 * rows
	}
	words := 4 * ((rows*f.Bits + 31) / 32)
	switch f.Bits {
	case 32, 16:
		return words
	case 8, 4, 2:
		return 4 + words
	case 1:
		return 8 + words
	}
	panic(fmt.Sprintf("quantizer: no format has %d bits: use 32, 16, 8, 4, 2 or 1", f.Bits))
}

// Encode quantizes v = gradient + residual: wire = code(v), next = v - decode(wire). The arenas are whole, columns index
// them; next may be residual itself or another arena that does not overlap it. Of next, only what lies in columns that are not
// dense is written. Wire has Bytes(columns) bytes.
//
// With 32 bits and no residual (nil) gradients are copied to the bit; with one, gradient + residual is sent and next becomes
// zero. The other formats need a residual, if only dense columns come not to have one.
//
// It returns the index of the first column that has a value, or whose values have a sum or a level, that is not finite, and -1
// if there is none. Where there is one, what is in wire and in next means nothing; residual is as before if next is another
// arena.
func (f Format) Encode(columns []Column, gradient, residual, next []float32, wire []byte) (bad int) {
	if f.Bits == 32 && residual == nil {
		f.check(columns, wire, len(gradient))
	} else {
		f.check(columns, wire, min(len(gradient), len(residual), len(next)))
	}
	if v, ok := best(); ok {
		return v.encode(f, columns, gradient, residual, next, wire)
	}
	return f.define(columns, gradient, residual, next, wire)
}

// Decode writes the decoded values to their places in the arena values.
func (f Format) Decode(columns []Column, wire []byte, values []float32) {
	f.decode(columns, wire, values, false)
}

// Add adds the decoded values, in float32, to those in the arena values.
func (f Format) Add(columns []Column, wire []byte, values []float32) {
	f.decode(columns, wire, values, true)
}

func (f Format) decode(columns []Column, wire []byte, values []float32, add bool) {
	f.check(columns, wire, len(values))
	if v, ok := best(); ok {
		v.decode(f, columns, wire, values, add)
	} else {
		f.defineDecode(columns, wire, values, add)
	}
}
