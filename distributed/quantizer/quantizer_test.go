package quantizer

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestTheWireIsLaidOutAsDocumented(t *testing.T) {
	columns := []Column{{Offset: 0, Rows: 5}, {Offset: 5, Rows: 1, Dense: true}}
	gradient := []float32{1, -2, 3, -4, 0, 1.5}
	for _, test := range []struct {
		format  Format
		wire    string // a blank between the parts
		decoded []float32
	}{
		{Format{Bits: 32}, "0000803f000000c000004040000080c000000000 0000c03f", []float32{1, -2, 3, -4, 0, 1.5}},
		{Format{Bits: 16}, "803f00c0404080c000000000 0000c03f", []float32{1, -2, 3, -4, 0, 1.5}},
		// The means are -3 and 4/3, the bits 10101.
		{Format{Bits: 1, ZeroThreshold: true}, "000040c0abaaaa3f 15000000 0000c03f", []float32{4. / 3, -3, 4. / 3, -3, 4. / 3, 1.5}},
		// The mean is -0.4, and 0 lies above it.
		{Format{Bits: 1}, "000040c0abaaaa3f 15000000 0000c03f", []float32{4. / 3, -3, 4. / 3, -3, 4. / 3, 1.5}},
		// The mean of |v| is 2, the step 2.4958: codes 2 1 3 0 2.
		{Format{Bits: 2}, "01bc1f40 36020000 0000c03f", []float32{1.2479249, -1.2479249, 3.743775, -3.743775, 1.2479249, 1.5}},
	} {
		t.Run(test.format.String(), func(t *testing.T) {
			wire := make([]byte, test.format.Bytes(columns))
			if bad := test.format.Encode(columns, gradient, make([]float32, 6), make([]float32, 6), wire); bad != -1 {
				t.Fatalf("column %d is not finite", bad)
			}
			if want := strings.ReplaceAll(test.wire, " ", ""); hex.EncodeToString(wire) != want {
				t.Errorf("wire is %x and should be %s", wire, want)
			}
			values := make([]float32, 6)
			test.format.Decode(columns, wire, values)
			if !slices.Equal(values, test.decoded) {
				t.Errorf("decodes to %v and should to %v", values, test.decoded)
			}
			test.format.Add(columns, wire, values)
			for i := range test.decoded {
				test.decoded[i] *= 2
			}
			if !slices.Equal(values, test.decoded) {
				t.Errorf("added to itself it is %v and should be %v", values, test.decoded)
			}
		})
	}
}

func TestBytes(t *testing.T) {
	for _, test := range []struct {
		bits, rows, want int
	}{
		{1, 0, 8}, {1, 1, 12}, {1, 32, 12}, {1, 33, 16}, {2, 16, 8}, {2, 17, 12}, {4, 8, 8}, {4, 9, 12}, {8, 4, 8}, {8, 5, 12},
		{16, 1, 4}, {16, 3, 8}, {32, 3, 12},
	} {
		columns := []Column{{Rows: int32(test.rows)}}
		if n := (Format{Bits: test.bits}).Bytes(columns); n != test.want {
			t.Errorf("%d values at %d bits take %d bytes and should take %d", test.rows, test.bits, n, test.want)
		}
		columns[0].Dense = true
		if n := (Format{Bits: test.bits}).Bytes(columns); n != 4*test.rows {
			t.Errorf("%d dense values at %d bits take %d bytes", test.rows, test.bits, n)
		}
	}
}

// meanSquaredError of the uniform quantizer with n levels, symmetric about 0, for a Gaussian of deviation 1.
func meanSquaredError(step float64, n int) float64 {
	density := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	sum := 0.
	for k := range n / 2 { // the cells [a, b) right of 0, with level y
		a, b, y := float64(k)*step, float64(k+1)*step, (float64(k)+0.5)*step
		if k == n/2-1 {
			b = 40
		}
		p := (math.Erfc(a/math.Sqrt2) - math.Erfc(b/math.Sqrt2)) / 2
		first, second := density(a)-density(b), p+a*density(a)-b*density(b) // moments
		sum += second - 2*y*first + y*y*p
	}
	return 2 * sum
}

func TestStepsAreOptimalForAGaussian(t *testing.T) {
	for _, bits := range []int{2, 4, 8} {
		low, high := 1e-3, 3.
		for range 100 {
			a, b := low+(high-low)/3, high-(high-low)/3
			if meanSquaredError(a, 1<<bits) < meanSquaredError(b, 1<<bits) {
				high = b
			} else {
				low = a
			}
		}
		step := float64(stepOf(bits)) / math.Sqrt(math.Pi/2)
		if math.Abs(step/low-1) > 1e-4 {
			t.Errorf("%d bits: the step is %.5f and should be %.5f", bits, step, low)
		}
	}
}

func norm(v []float32) float64 {
	sum := 0.
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// Error feedback loses nothing, and what remains is less than what came.
func TestWhatIsSentAndWhatRemainsMakeTheWhole(t *testing.T) {
	finiteContents := awkward[:len(awkward)-3]
	for _, f := range formats() {
		for _, content := range finiteContents {
			if content.name == "about the largest" { // whose sums overflow
				continue
			}
			t.Run(fmt.Sprintf("%v/%s", f, content.name), func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 4))
				columns := even(4, 333)
				gradient := make([]float32, 4*333)
				for i := range gradient {
					gradient[i] = content.at(r, i%333)
				}
				residual := fill(len(gradient), func(i int) float32 { return gradient[i] / 4 })
				next, values, wire := make([]float32, len(gradient)), make([]float32, len(gradient)), make([]byte, f.Bytes(columns))
				if bad := f.Encode(columns, gradient, residual, next, wire); bad >= 0 {
					t.Fatalf("column %d is not finite", bad)
				}
				f.Decode(columns, wire, values)
				for c := range columns {
					v := fill(333, func(i int) float32 { return gradient[c*333+i] + residual[c*333+i] })
					d, n := values[c*333:][:333], next[c*333:][:333]
					largest := float64(max(slices.Max(v), -slices.Min(v)))
					for i := range v {
						if lost := math.Abs(float64(d[i]) + float64(n[i]) - float64(v[i])); lost > largest*1e-6 {
							t.Fatalf("column %d, value %d: %g was sent and %g remains of %g", c, i, d[i], n[i], v[i])
						}
					}
					if norm(n) > norm(v) || f.Bits < 32 && content.name == "gaussian" && norm(n) >= 0.7*norm(v) {
						t.Errorf("column %d: of a norm of %g remains %g", c, norm(v), norm(n))
					}
				}
			})
		}
	}
}

func TestZerosStayZero(t *testing.T) {
	for _, f := range formats() {
		columns := even(3, 50)
		zeros, residual, values, wire := make([]float32, 150), make([]float32, 150), make([]float32, 150), make([]byte, f.Bytes(columns))
		for range 3 {
			if bad := f.Encode(columns, zeros, residual, residual, wire); bad >= 0 {
				t.Fatalf("%v: column %d is not finite", f, bad)
			}
			f.Decode(columns, wire, values)
			if !sameBits(residual, zeros) || !sameBits(values, zeros) {
				t.Fatalf("%v: zeros become %v, and leave %v", f, values, residual)
			}
		}
	}
}

func TestInPlaceEqualsApart(t *testing.T) {
	for _, f := range formats() {
		r := rand.New(rand.NewPCG(5, 6))
		columns, size := table(r, 27, 144, 288, 576, 1000)
		gradient := fill(size, func(int) float32 { return float32(r.NormFloat64()) })
		residual := fill(size, func(int) float32 { return float32(r.NormFloat64()) })
		before, next := slices.Clone(residual), slices.Clone(residual)
		wire, again := make([]byte, f.Bytes(columns)), make([]byte, f.Bytes(columns))
		f.Encode(columns, gradient, residual, next, wire)
		if !sameBits(residual, before) {
			t.Fatalf("%v: the residual was written to", f)
		}
		f.Encode(columns, gradient, residual, residual, again)
		if !bytes.Equal(wire, again) || !sameBits(residual, next) {
			t.Errorf("%v: in place differs: %s", f, firstDifference(residual, next))
		}
	}
}

func TestThirtyTwoBits(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	f := Format{Bits: 32}
	columns := even(3, 100)
	gradient := fill(300, func(int) float32 { return float32(r.NormFloat64()) })
	gradient[7] = float32(math.Copysign(0, -1))
	wire, values := make([]byte, f.Bytes(columns)), make([]float32, 300)
	if bad := f.Encode(columns, gradient, nil, nil, wire); bad >= 0 {
		t.Fatalf("column %d is not finite", bad)
	}
	f.Decode(columns, wire, values)
	if !sameBits(values, gradient) {
		t.Errorf("32 bits without a residual change values: %s", firstDifference(values, gradient))
	}

	residual := fill(300, func(int) float32 { return float32(r.NormFloat64()) })
	sum := fill(300, func(i int) float32 { return gradient[i] + residual[i] })
	f.Encode(columns, gradient, residual, residual, wire)
	f.Decode(columns, wire, values)
	if !sameBits(values, sum) {
		t.Errorf("32 bits with a residual do not send the sum: %s", firstDifference(values, sum))
	}
	if !sameBits(residual, make([]float32, 300)) {
		t.Error("32 bits leave a residual")
	}
}

func TestTheFirstColumnThatIsNotFiniteIsNamed(t *testing.T) {
	infinite, largest := float32(math.Inf(-1)), float32(math.MaxFloat32)
	for _, f := range formats() {
		for _, test := range []struct {
			name               string
			gradient, residual float32 // of the value
			dense              bool
			fine               bool
		}{
			{name: "nothing", fine: true},
			{name: "not a number", gradient: float32(math.NaN())},
			{name: "infinite", gradient: infinite},
			{name: "infinite residual", residual: infinite},
			{name: "overflowing sum", gradient: largest, residual: largest},
			{name: "infinite and dense", gradient: infinite, dense: true},
			{name: "residual of a dense column", residual: infinite, dense: true, fine: true},
		} {
			columns := even(4, 40)
			columns[2].Dense = test.dense
			gradient, residual := make([]float32, 160), make([]float32, 160)
			gradient[95], residual[95] = test.gradient, test.residual
			gradient[150] = map[bool]float32{false: infinite}[test.fine] // a later column
			want := 2
			if test.fine {
				want = -1
			}
			bad := f.Encode(columns, gradient, residual, make([]float32, 160), make([]byte, f.Bytes(columns)))
			if bad != want {
				t.Errorf("%v, %s: the column is %d and should be %d", f, test.name, bad, want)
			}
		}
	}
}

func TestWhatDoesNotFitPanics(t *testing.T) {
	for _, test := range []struct {
		columns []Column
		wire    int
		bits    int
		want    string
	}{
		{even(2, 50), 32, 1, "quantizer: column 1, values [50, 100), is not within the arenas' 99 values"},
		{[]Column{{Offset: -1, Rows: 2}}, 12, 1, "quantizer: column 0, values [-1, 1), is not within the arenas' 99 values"},
		{even(1, 50), 12, 1, "quantizer: 12 bytes are given for 1 columns that take 16 bytes at 1 bits"},
		{even(1, 50), 12, 3, "quantizer: no format has 3 bits: use 32, 16, 8, 4, 2 or 1"},
	} {
		for name, run := range map[string]func(){
			"Encode": func() {
				Format{Bits: test.bits}.Encode(test.columns, make([]float32, 100), make([]float32, 99), make([]float32, 100), make([]byte, test.wire))
			},
			"Decode": func() { Format{Bits: test.bits}.Decode(test.columns, make([]byte, test.wire), make([]float32, 99)) },
			"Add":    func() { Format{Bits: test.bits}.Add(test.columns, make([]byte, test.wire), make([]float32, 99)) },
		} {
			func() {
				defer func() {
					if got := recover(); got != test.want {
						t.Errorf("%s panics with %v and should with %s", name, got, test.want)
					}
				}()
				run()
			}()
		}
	}
}
