package cudnn

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
)

// tensorOf is memory of a test's: [a][b][c][d], with d padded.
type tensorOf struct {
	a, b, c, d int
	bfloat16   bool
	host       driver.Host
}

func (m *tensorOf) index(i, j, k, l int) int { return ((i*m.b+j)*m.c+k)*kernels.Padded(m.d) + l }

func (m *tensorOf) at(i, j, k, l int) float64 {
	n := m.index(i, j, k, l)
	if m.bfloat16 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(m.host.Bytes[2*n:])) << 16))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(m.host.Bytes[4*n:])))
}

// newTensor makes a tensor with random values, of few bits, and zeros for padding.
func newTensor(t *testing.T, d driver.Device, r *rand.Rand, bfloat16 bool, a, b, c, dd int) *tensorOf {
	t.Helper()
	m := &tensorOf{a: a, b: b, c: c, d: dd, bfloat16: bfloat16}
	var err error
	m.host, err = d.AllocateHost(4*kernels.Padded(a)*b*c*kernels.Padded(dd), "a tensor")
	check(t, err)
	clear(m.host.Bytes)
	for i := range a {
		for j := range b {
			for k := range c {
				for l := range dd {
					bits := math.Float32bits(float32(r.IntN(129)-64) / 32)
					if n := m.index(i, j, k, l); bfloat16 {
						binary.LittleEndian.PutUint16(m.host.Bytes[2*n:], uint16(bits>>16))
					} else {
						binary.LittleEndian.PutUint32(m.host.Bytes[4*n:], bits)
					}
				}
			}
		}
	}
	return m
}

// TestConvolutionsAndTheirGradients compares what the plans describe with sums in float64.
func TestConvolutionsAndTheirGradients(t *testing.T) {
	fake(t)
	h, device, stream := open(t)
	r := rand.New(rand.NewPCG(1, 2))
	workspace, err := device.Allocate(1<<16, "workspace")
	check(t, err)
	for _, s := range []kernels.ConvShape{
		{N: 1, H: 5, W: 7, C: 3, K: 9, Kernel: 3, Stride: 1, Pad: 1},
		{N: 2, H: 7, W: 6, C: 8, K: 16, Kernel: 3, Stride: 2, Pad: 1},
		{N: 3, H: 5, W: 4, C: 5, K: 8, Kernel: 1, Stride: 2, Pad: 0},
		{N: 1, H: 11, W: 9, C: 3, K: 8, Kernel: 7, Stride: 2, Pad: 3},
	} {
		for _, m := range []kernels.Math{kernels.FFMA, kernels.BF16} {
			for _, pass := range []Pass{Forward, BackwardData, BackwardWeights} {
				t.Run(fmt.Sprintf("%v%v in %v", pass, s, m), func(t *testing.T) {
					half := m == kernels.BF16
					x := newTensor(t, device, r, half, s.N, s.H, s.W, s.C)
					w := newTensor(t, device, r, half && pass != BackwardWeights, s.K, s.Kernel, s.Kernel, s.C)
					y := newTensor(t, device, r, half && pass != Forward, s.N, s.OH(), s.OW(), s.K)
					out := map[Pass]*tensorOf{Forward: y, BackwardData: x, BackwardWeights: w}[pass]
					want := make([]float64, out.a*out.b*out.c*kernels.Padded(out.d))
					for n := range s.N {
						for i := range s.OH() {
							for j := range s.OW() {
								for tap := range s.Kernel * s.Kernel {
									p, q := tap/s.Kernel, tap%s.Kernel
									row, column := i*s.Stride+p-s.Pad, j*s.Stride+q-s.Pad
									if row < 0 || row >= s.H || column < 0 || column >= s.W {
										continue
									}
									for c := range s.C {
										for k := range s.K {
											switch pass {
											case Forward:
												want[y.index(n, i, j, k)] += x.at(n, row, column, c) * w.at(k, p, q, c)
											case BackwardData:
												want[x.index(n, row, column, c)] += y.at(n, i, j, k) * w.at(k, p, q, c)
											case BackwardWeights:
												want[w.index(k, p, q, c)] += y.at(n, i, j, k) * x.at(n, row, column, c)
											}
										}
									}
								}
							}
						}
					}
					plan, err := h.Plan(pass, s, m, 1<<16)
					check(t, err)
					check(t, plan.Run(stream, x.host.Pointer, w.host.Pointer, y.host.Pointer, workspace), plan.Free())
					limit := 1e-5
					if out.bfloat16 {
						limit = 1.0 / 256
					}
					for a := range out.a {
						for b := range out.b {
							for c := range out.c {
								for d := range kernels.Padded(out.d) {
									got, want := out.at(a, b, c, d), want[out.index(a, b, c, d)]
									if math.Abs(got-want) > limit*max(1, math.Abs(want)) {
										t.Fatalf("[%d][%d][%d][%d] is %g, want %g", a, b, c, d, got, want)
									}
								}
							}
						}
					}
					for _, m := range []*tensorOf{x, w, y} {
						check(t, device.FreeHost(m.host))
					}
				})
			}
		}
	}
	check(t, h.Close())
	if got := left(); got != "left 0\n" {
		t.Errorf("%q", got)
	}
}
