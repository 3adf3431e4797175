package quantizer

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// formats lists every format.
func formats() []Format {
	list := []Format{{Bits: 1, ZeroThreshold: true}}
	for _, bits := range []int{1, 2, 4, 8, 16, 32} {
		list = append(list, Format{Bits: bits})
	}
	return list
}

func (f Format) String() string {
	if f.Bits == 1 && !f.ZeroThreshold {
		return "1 bit about the mean"
	}
	return fmt.Sprintf("%d bits", f.Bits)
}

// awkward are ways to fill a column.
var awkward = []struct {
	name string
	at   func(r *rand.Rand, i int) float32
}{
	{"gaussian", func(r *rand.Rand, i int) float32 { return float32(r.NormFloat64()) }},
	{"zeros", func(r *rand.Rand, i int) float32 { return 0 }},
	{"negative zeros", func(r *rand.Rand, i int) float32 { return float32(math.Copysign(0, -1)) }},
	{"zeros of both signs", func(r *rand.Rand, i int) float32 { return float32(math.Copysign(0, r.NormFloat64())) }},
	{"denormal", func(r *rand.Rand, i int) float32 { return float32(r.NormFloat64() * 1e-42) }},
	{"about the smallest step", func(r *rand.Rand, i int) float32 { return float32(r.NormFloat64() * 0x1p-126) }},
	{"small", func(r *rand.Rand, i int) float32 { return float32(r.NormFloat64() * 1e-30) }},
	{"large", func(r *rand.Rand, i int) float32 { return float32(r.NormFloat64() * 1e30) }},
	{"about the largest", func(r *rand.Rand, i int) float32 { return float32(r.Float64()*2-1) * math.MaxFloat32 }},
	{"positive", func(r *rand.Rand, i int) float32 { return float32(r.ExpFloat64()) }},
	{"negative", func(r *rand.Rand, i int) float32 { return -float32(r.ExpFloat64()) }},
	{"one outlier", func(r *rand.Rand, i int) float32 {
		return float32(r.NormFloat64()) + float32(1e20*float64(1-min(i, 1)))
	}},
	{"of all scales", func(r *rand.Rand, i int) float32 { return float32(r.NormFloat64() * math.Exp(10*r.NormFloat64())) }},
	{"on the levels' edges", func(r *rand.Rand, i int) float32 { return float32(r.IntN(9) - 4) }},
	{"constant", func(r *rand.Rand, i int) float32 { return 0.1 }},
	{"sparse", func(r *rand.Rand, i int) float32 { return float32(r.NormFloat64()) * float32(1-min(r.IntN(20), 1)) }},
	{"any bits", func(r *rand.Rand, i int) float32 { return math.Float32frombits(r.Uint32()) }},
	{"infinite", func(r *rand.Rand, i int) float32 { return float32(math.Inf(1 - 2*(i&1))) }},
	{"not a number", func(r *rand.Rand, i int) float32 { return float32(math.NaN()) }},
}

// table makes columns with gaps between them, and an arena size.
func table(r *rand.Rand, rows ...int) (columns []Column, size int) {
	for _, n := range rows {
		size += r.IntN(20)
		columns = append(columns, Column{Offset: int32(size), Rows: int32(n), Dense: r.IntN(5) == 0})
		size += n
	}
	return columns, size + r.IntN(20)
}

func fill(n int, at func(i int) float32) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = at(i)
	}
	return v
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// firstDifference says where two arenas differ, for messages.
func firstDifference(a, b []float32) string {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return fmt.Sprintf("value %d: %g (%08x) and %g (%08x)", i, a[i], math.Float32bits(a[i]), b[i], math.Float32bits(b[i]))
		}
	}
	return "no difference"
}

func TestVectorizedCodeAgreesWithTheDefinitionToTheBit(t *testing.T) {
	if len(vectorizations()) == 0 {
		t.Skip("this machine or build has no vectorized code: the definition is what runs")
	}
	for _, v := range vectorizations() {
		for _, f := range formats() {
			for _, content := range awkward {
				t.Run(fmt.Sprintf("%v/%v/%s", v, f, content.name), func(t *testing.T) {
					agree(t, v, f, content.at)
				})
			}
		}
	}
}

func agree(t *testing.T, v vectorized, f Format, at func(r *rand.Rand, i int) float32) {
	r := rand.New(rand.NewPCG(1, 2))
	tables := [][]int{{1}, {2, 3, 5}, {7, 8, 9}, {15, 16, 17}, {31, 32, 33}, {27, 144, 288, 576}, {127, 128, 129, 0, 4}, {255, 256, 257},
		{511, 512, 513, 640}, {1 + r.IntN(5000), 1 + r.IntN(5000), 1 + r.IntN(5000)}}
	for _, rows := range tables {
		columns, size := table(r, rows...)
		gradient := make([]float32, size)
		for _, c := range columns {
			for i := range int(c.Rows) {
				gradient[int(c.Offset)+i] = at(r, i)
			}
		}
		residual := fill(size, func(i int) float32 { return gradient[i] * float32(r.IntN(3)-1) / 4 })
		start := fill(size, func(i int) float32 { return float32(r.NormFloat64()) })

		next, vectorNext := slices.Clone(start), slices.Clone(start)
		wire := bytes.Repeat([]byte{0xa5}, f.Bytes(columns))
		vectorWire := bytes.Repeat([]byte{0x5a}, len(wire)+64) // what is past the message must stay
		bad := f.define(columns, gradient, residual, next, wire)
		vectorBad := v.encode(f, columns, gradient, residual, vectorNext, vectorWire[:len(wire)])
		if bad != vectorBad {
			t.Fatalf("rows %v: the first bad column is %d, vectorized %d", rows, bad, vectorBad)
		}
		if past := vectorWire[len(wire):]; !bytes.Equal(past, bytes.Repeat([]byte{0x5a}, 64)) {
			t.Fatalf("rows %v: bytes past the message were written: %x", rows, past)
		}
		vectorWire = vectorWire[:len(wire)]
		if bad < 0 && !bytes.Equal(wire, vectorWire) {
			t.Fatalf("rows %v: the messages differ:\n%x\n%x", rows, wire, vectorWire)
		}
		if bad < 0 && !sameBits(next, vectorNext) {
			t.Fatalf("rows %v: the residuals differ: %s", rows, firstDifference(next, vectorNext))
		}
		if bad >= 0 {
			continue
		}
		for _, add := range []bool{false, true} {
			values, vectorValues := slices.Clone(start), slices.Clone(start)
			f.defineDecode(columns, wire, values, add)
			v.decode(f, columns, wire, vectorValues, add)
			if !sameBits(values, vectorValues) {
				t.Fatalf("rows %v, add %v: decoded values differ: %s", rows, add, firstDifference(values, vectorValues))
			}
		}
	}
}

// Above some size, residuals that are not in place are written past the caches.
func TestLargeTablesAgreeWithTheDefinition(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second and 100 MB")
	}
	r := rand.New(rand.NewPCG(9, 10))
	var rows []int
	for n := 0; n < 5<<20; n += rows[len(rows)-1] {
		rows = append(rows, 16*r.IntN(500)+r.IntN(2))
	}
	columns, size := table(r, rows...)
	for i := range columns {
		columns[i].Offset &^= 15 // some aligned, none overlapping the one before by more than the gap
	}
	columns = slices.DeleteFunc(columns, func(c Column) bool { return c.Rows == 0 })
	for i := len(columns) - 1; i > 0; i-- {
		columns[i-1].Rows = min(columns[i-1].Rows, columns[i].Offset-columns[i-1].Offset)
	}
	gradient := fill(size, func(int) float32 { return r.Float32() - 0.5 })
	residual := fill(size, func(int) float32 { return r.Float32() - 0.5 })
	for _, f := range []Format{{Bits: 1, ZeroThreshold: true}, {Bits: 4}} {
		next, wire := make([]float32, size), make([]byte, f.Bytes(columns))
		f.define(columns, gradient, residual, next, wire)
		for _, v := range vectorizations() {
			vectorNext, vectorWire := make([]float32, size), make([]byte, len(wire))
			v.encode(f, columns, gradient, residual, vectorNext, vectorWire)
			if !bytes.Equal(wire, vectorWire) || !sameBits(next, vectorNext) {
				t.Errorf("%v, %v: %s", v, f, firstDifference(next, vectorNext))
			}
		}
	}
}
