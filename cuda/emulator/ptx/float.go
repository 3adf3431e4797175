package ptx

import (
	"math"
	"unsafe"
)

// fusedFloat32 returns a*b+c rounded once. The product of two float32 is exact in float64; the sum is rounded to odd there, which
// makes the second rounding, to float32, the only one that counts (Boldo and Melquiond, Emulation of FMA and correctly rounded
// sums, 2008).
func fusedFloat32(a, b, c float32) float32 {
	return float32(roundOdd(float64(a)*float64(b), float64(c)))
}

func fma32(d, a, b, c unsafe.Pointer) {
	D, A, B, C := (*[32]float32)(d), (*[32]float32)(a), (*[32]float32)(b), (*[32]float32)(c)
	for i := range D {
		D[i] = fusedFloat32(A[i], B[i], C[i])
	}
}

func div[T float32 | float64](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]T)(d), (*[32]T)(a), (*[32]T)(b)
	for i := range D {
		D[i] = A[i] / B[i]
	}
}

func nan[T float32 | float64]() T {
	var f T
	if unsafe.Sizeof(f) == 4 {
		return T(math.Float32frombits(0x7fffffff))
	}
	return T(math.NaN())
}

// minFloat and maxFloat: a NaN loses against a number, and -0 is below +0.
func minFloat[T float32 | float64](a, b T) T {
	switch {
	case a != a && b != b:
		return nan[T]()
	case a != a:
		return b
	case b != b:
		return a
	}
	return min(a, b)
}

func maxFloat[T float32 | float64](a, b T) T {
	switch {
	case a != a && b != b:
		return nan[T]()
	case a != a:
		return b
	case b != b:
		return a
	}
	return max(a, b)
}

// orNaN makes a NaN win.
func orNaN[T float32 | float64](f func(a, b T) T) func(a, b T) T {
	return func(a, b T) T {
		if a != a || b != b {
			return nan[T]()
		}
		return f(a, b)
	}
}

func saturate(f float32) float32 {
	if !(f > 0) {
		return 0
	}
	return min(f, 1)
}

// through computes in float64 and rounds once more.
func through(f func(float64) float64) laneFunc {
	return one(func(a float32) float32 { return float32(f(float64(a))) })
}

const sign32 = 1 << 31

func floatOps(t map[string]laneOp) {
	put(t, add[float32, float32], w32, "add.f32", "add.rn.f32")
	put(t, sub[float32, float32], w32, "sub.f32", "sub.rn.f32")
	put(t, mul[float32, float32], w32, "mul.f32", "mul.rn.f32")
	put(t, fma32, w32x4, "fma.rn.f32", "mad.rn.f32")
	put(t, two(func(a, b float32) float32 { return saturate(a + b) }), w32, "add.sat.f32", "add.rn.sat.f32")
	put(t, two(func(a, b float32) float32 { return saturate(float32(a * b)) }), w32, "mul.sat.f32", "mul.rn.sat.f32")
	put(t, three(func(a, b, c float32) float32 { return saturate(fusedFloat32(a, b, c)) }), w32x4, "fma.rn.sat.f32")
	put(t, div[float32], w32, "div.rn.f32", "div.full.f32", "div.approx.f32")
	put(t, two(minFloat[float32]), w32, "min.f32")
	put(t, two(maxFloat[float32]), w32, "max.f32")
	put(t, two(orNaN(minFloat[float32])), w32, "min.NaN.f32")
	put(t, two(orNaN(maxFloat[float32])), w32, "max.NaN.f32")
	put(t, one(func(a uint32) uint32 { return a ^ sign32 }), w32x2, "neg.f32")
	put(t, one(func(a uint32) uint32 { return a &^ sign32 }), w32x2, "abs.f32")
	put(t, two(func(a, b uint32) uint32 { return b&^sign32 | a&sign32 }), w32, "copysign.f32")
	put(t, through(math.Sqrt), w32x2, "sqrt.rn.f32", "sqrt.approx.f32")
	put(t, through(func(a float64) float64 { return 1 / math.Sqrt(a) }), w32x2, "rsqrt.approx.f32")
	put(t, one(func(a float32) float32 { return 1 / a }), w32x2, "rcp.rn.f32", "rcp.approx.f32")
	put(t, through(math.Exp2), w32x2, "ex2.approx.f32")
	put(t, through(math.Log2), w32x2, "lg2.approx.f32")
	put(t, through(math.Sin), w32x2, "sin.approx.f32")
	put(t, through(math.Cos), w32x2, "cos.approx.f32")
	put(t, through(math.Tanh), w32x2, "tanh.approx.f32")

	put(t, add[float64, float64], w64, "add.f64", "add.rn.f64")
	put(t, sub[float64, float64], w64, "sub.f64", "sub.rn.f64")
	put(t, mul[float64, float64], w64, "mul.f64", "mul.rn.f64")
	put(t, three(math.FMA), w64x4, "fma.rn.f64", "mad.rn.f64")
	put(t, div[float64], w64, "div.rn.f64")
	put(t, two(minFloat[float64]), w64, "min.f64")
	put(t, two(maxFloat[float64]), w64, "max.f64")
	put(t, one(func(a uint64) uint64 { return a ^ 1<<63 }), w64x2, "neg.f64")
	put(t, one(func(a uint64) uint64 { return a &^ (1 << 63) }), w64x2, "abs.f64")
	put(t, two(func(a, b uint64) uint64 { return b&^(1<<63) | a&(1<<63) }), w64, "copysign.f64")
	put(t, one(math.Sqrt), w64x2, "sqrt.rn.f64")
	put(t, one(func(a float64) float64 { return 1 / a }), w64x2, "rcp.rn.f64")

	bfloatOps(t)
}

// bfloatOps are bfloat16's and its pairs': computed in float32, of which it is the upper half, and rounded.
func bfloatOps(t map[string]laneOp) {
	pair := func(f func(a, b, c uint32) uint32) func(a, b, c uint32) uint32 {
		return func(a, b, c uint32) uint32 {
			return f(a&0xffff, b&0xffff, c&0xffff) | f(a>>16, b>>16, c>>16)<<16
		}
	}
	f := func(a uint32) float32 { return math.Float32frombits(a << 16) }
	fma := func(a, b, c uint32) uint32 {
		// the product has 16 bits and the sum is exact in float64 or far from a tie, so rounding to odd there makes it exact
		s := roundOdd(float64(f(a))*float64(f(b)), float64(f(c)))
		return uint32(bfloatOf64(s))
	}
	binary := func(g func(a, b float32) float32) func(a, b, c uint32) uint32 {
		return func(a, b, _ uint32) uint32 { return uint32(toBfloat(g(f(a), f(b)))) }
	}
	sign := func(a, _, _ uint32) uint32 { return a&0xffff ^ 0x8000 }
	magnitude := func(a, _, _ uint32) uint32 { return a & 0x7fff }
	for _, e := range []struct {
		name     string
		f        func(a, b, c uint32) uint32
		operands int
	}{
		{"fma.rn", fma, 3},
		{"add.rn", binary(func(a, b float32) float32 { return a + b }), 2},
		{"sub.rn", binary(func(a, b float32) float32 { return a - b }), 2},
		{"mul.rn", binary(func(a, b float32) float32 { return a * b }), 2},
		{"min", binary(minFloat[float32]), 2}, {"max", binary(maxFloat[float32]), 2},
		{"min.NaN", binary(orNaN(minFloat[float32])), 2}, {"max.NaN", binary(orNaN(maxFloat[float32])), 2},
		{"neg", sign, 1}, {"abs", magnitude, 1},
	} {
		put(t, three(e.f), w16x4[:e.operands+1], e.name+".bf16")
		put(t, three(pair(e.f)), w32x4[:e.operands+1], e.name+".bf16x2")
	}
}

// roundOdd is p+q in float64, with the last bit set if it is not exact.
func roundOdd(p, q float64) float64 {
	s := p + q
	t := s - p
	e := (p - (s - t)) + (q - t)
	if e != 0 && !math.IsInf(s, 0) && !math.IsNaN(s) && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), e))
	}
	return s
}

// bfloatOf64 rounds once, to the nearest even: through a float32 that is rounded to odd.
func bfloatOf64(v float64) uint16 {
	f := float32(v)
	if float64(f) != v && v == v && !math.IsInf(float64(f), 0) {
		b := math.Float32bits(f)
		if math.Abs(float64(f)) > math.Abs(v) { // towards zero
			b--
		}
		f = math.Float32frombits(b | 1)
	}
	return toBfloat(f)
}

// toBfloat rounds to the nearest even. NaN becomes the canonical one.
func toBfloat(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return 0x7fff
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
