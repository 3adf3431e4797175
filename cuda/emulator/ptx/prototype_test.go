package ptx

import (
	"math"
	"math/rand"
	"testing"
)

// The kernels in testdata are compiled by, in that folder,
//
//	clang-19 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_80 --cuda-feature=+ptx78 -ffp-contract=on -O3 \
//		-gline-tables-only -ffile-prefix-map=$PWD=. -S NAME.cu -o NAME.ptx

func normal(rng *rand.Rand, n int, scale float32) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64()) * scale
	}
	return v
}

func sameFloats(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s[%d] is %g, want %g", what, i, got[i], want[i])
		}
	}
}

// quantizeColumns is what onebit_quant computes, in its order: 256 strided partial sums, a butterfly in each warp, 8 warps in turn.
func quantizeColumns(gradient, residual []float32, n, columns int) (bits []uint32, scale, left []float32) {
	words := (n + 31) / 32
	bits, scale, left = make([]uint32, words*columns), make([]float32, 2*columns), make([]float32, n*columns)
	for c := range columns {
		var p, q [256]float32
		positive := 0
		for i := range n {
			v := gradient[c*n+i] + residual[c*n+i]
			left[c*n+i] = v
			if v >= 0 {
				p[i%256] += v
				bits[c*words+i/32] |= 1 << (i % 32)
				positive++
			} else {
				q[i%256] += v
			}
		}
		reduce := func(a *[256]float32) (s float32) {
			for d := 16; d > 0; d >>= 1 {
				o := *a
				for i := range a {
					a[i] = o[i] + o[i^d]
				}
			}
			for w := range 8 {
				s += a[w*32]
			}
			return s
		}
		above, below := reduce(&p), reduce(&q)
		var up, down float32
		if positive > 0 {
			up = above / float32(positive)
		}
		if n > positive {
			down = below / float32(n-positive)
		}
		scale[2*c], scale[2*c+1] = down, up
		for i := range n {
			if v := left[c*n+i]; v >= 0 {
				left[c*n+i] = v - up
			} else {
				left[c*n+i] = v - down
			}
		}
	}
	return bits, scale, left
}

func TestQuantizerAndItsInverseAreExact(t *testing.T) {
	module := load(t, "testdata/onebit.ptx")
	rng := rand.New(rand.NewSource(1))
	const n, columns, workers = 1999, 7, 3
	words := (n + 31) / 32
	var allBits []uint32
	var allScales []float32
	m := &memory{}
	for range workers {
		gradient, residual := normal(rng, n*columns, 1), normal(rng, n*columns, 0.3)
		bits, scale, left := quantizeColumns(gradient, residual, n, columns)
		pg, pr, pb, ps := m.floats(gradient), m.floats(residual), m.allocate(4*words*columns), m.allocate(8*columns)
		_, err := kernel(t, module, "onebit_quant").Run(Config{Grid: Dim{columns, 1, 1}, Block: Dim{256, 1, 1},
			Params: pack(pg, pr, pb, ps, n), Memory: m, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range m.getWords(pb) {
			if w != bits[i] {
				t.Fatalf("word %d is %#x, want %#x", i, w, bits[i])
			}
		}
		sameFloats(t, "scale", m.getFloats(ps), scale)
		sameFloats(t, "residual", m.getFloats(pr), left)
		allBits, allScales = append(allBits, bits...), append(allScales, scale...)
	}
	out := normal(rng, n*columns, 1)
	want := make([]float32, len(out))
	for c := range columns {
		for i := range n {
			var s float32
			for j := range workers {
				bit := allBits[(j*columns+c)*words+i/32] >> (i % 32) & 1
				s += allScales[(j*columns+c)*2+int(bit)]
			}
			want[c*n+i] = fusedFloat32(0.25, s, out[c*n+i])
		}
	}
	pb, ps, po := m.words(allBits), m.floats(allScales), m.floats(out)
	_, err := kernel(t, module, "onebit_dequant_acc").Run(Config{Grid: Dim{(n + 255) / 256, columns, 1}, Block: Dim{256, 1, 1},
		Params: pack(pb, ps, po, n, columns, workers, float32(0.25), 1), Memory: m})
	if err != nil {
		t.Fatal(err)
	}
	sameFloats(t, "out", m.getFloats(po), want)
}

// convolution is a case for the prototype's kernel.
type convolution struct {
	m        *memory
	c        Config
	want     []float32
	y        uint64
	products int64
}

func newConvolution(rng *rand.Rand, n, h, w, channels, filters, stride int) *convolution {
	oh, ow := (h-1)/stride+1, (w-1)/stride+1
	x, weights := normal(rng, n*h*w*channels, 1), normal(rng, 9*channels*filters, 1)
	v := &convolution{m: &memory{}, want: make([]float32, n*oh*ow*filters)}
	for i := range n * oh * ow {
		image, row, column := i/(oh*ow), i/ow%oh, i%ow
		for k := range filters {
			var s float32
			for kh := range 3 {
				for kw := range 3 {
					ih, iw := row*stride-1+kh, column*stride-1+kw
					if ih < 0 || iw < 0 || ih >= h || iw >= w {
						continue
					}
					for c := range channels {
						s = fusedFloat32(x[((image*h+ih)*w+iw)*channels+c], weights[((kh*3+kw)*channels+c)*filters+k], s)
					}
				}
			}
			v.want[i*filters+k] = s
		}
	}
	px, pw := v.m.floats(x), v.m.floats(weights)
	v.y = v.m.allocate(4 * len(v.want))
	v.c = Config{Grid: Dim{(n*oh*ow + 63) / 64, (filters + 63) / 64, 1}, Block: Dim{256, 1, 1}, Memory: v.m,
		Params: pack(px, pw, v.y, n, h, w, channels, filters, oh, ow, stride, 1)}
	return v
}

func TestConvolutionIsExact(t *testing.T) {
	k := kernel(t, load(t, "testdata/conv.ptx"), "conv3x3_fwd")
	for _, workers := range []int{1, 3} {
		v := newConvolution(rand.New(rand.NewSource(2)), 2, 9, 7, 19, 70, 2)
		v.c.Workers = workers
		if _, err := k.Run(v.c); err != nil {
			t.Fatal(err)
		}
		sameFloats(t, "y", v.m.getFloats(v.y), v.want)
	}
}

func TestFunctionsWithoutALibraryAreWithinAUlp(t *testing.T) {
	module := load(t, "testdata/fm.ptx")
	for name, f := range map[string]func(float64) float64{"k_exp": math.Exp, "k_log": math.Log,
		"k_rsq": func(x float64) float64 { return 1 / math.Sqrt(x) }} {
		m := &memory{}
		var x []float32
		for v := float32(0.01); v < 80; v *= 1.05 {
			x = append(x, v)
		}
		p := m.floats(x)
		if _, err := kernel(t, module, name).Run(Config{Grid: Dim{2, 1, 1}, Block: Dim{256, 1, 1}, Params: pack(p, len(x)), Memory: m}); err != nil {
			t.Fatal(err)
		}
		for i, got := range m.getFloats(p) {
			want := float32(f(float64(x[i])))
			if d := int32(math.Float32bits(got)) - int32(math.Float32bits(want)); d < -2 || d > 2 {
				t.Errorf("%s(%g) is %g, want %g", name, x[i], got, want)
			}
		}
	}
}

func BenchmarkConvolution(b *testing.B) {
	k := kernel(b, load(b, "testdata/conv.ptx"), "conv3x3_fwd")
	v := newConvolution(rand.New(rand.NewSource(2)), 2, 16, 16, 32, 64, 1)
	var s Stats
	for b.Loop() {
		one, err := k.Run(v.c)
		if err != nil {
			b.Fatal(err)
		}
		s.add(one)
	}
	b.ReportMetric(float64(s.ThreadInstructions)/b.Elapsed().Seconds()/1e6, "Minstructions/s")
}
