package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/distributed/quantizer"
)

var formats = []quantizer.Format{{Bits: 1, ZeroThreshold: true}, {Bits: 1}, {Bits: 2}, {Bits: 4}, {Bits: 8}, {Bits: 16}, {Bits: 32}}

// allColumns are columns of every awkward length, with gaps between them, and the size of the arenas.
func allColumns() (all []quantizer.Column, size int) {
	for _, rows := range []int{1, 2, 31, 32, 33, 64, 144, 255, 256, 257, 576, 1025, 4608} {
		all = append(all, quantizer.Column{Offset: int32(size), Rows: int32(rows)}, quantizer.Column{Offset: int32(size + rows), Rows: int32(rows + 1), Dense: true})
		size += (2*rows + 16) / 16 * 16
	}
	return all, size
}

func normal(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// encoder is one worker's encoding on the device.
type encoder struct {
	*device
	f                        quantizer.Format
	table                    *kernels.Table
	entries, wire, bad, next driver.Pointer
	bytes                    int
}

const head = 32 // bytes before a message

func newEncoder(d *device, f quantizer.Format, columns []quantizer.Column, size int) *encoder {
	e := &encoder{device: d, f: f, table: &kernels.Table{}, bytes: f.Bytes(columns)}
	if n := e.table.Add(f, columns, head, 0); n != e.bytes {
		d.t.Errorf("the table's columns take %d bytes, want %d", n, e.bytes)
	}
	e.entries, e.wire, e.next = d.put(e.table.Bytes()), d.zeros((head+e.bytes)/4), d.zeros(size)
	return e
}

func (e *encoder) encode(gradient, residual, next driver.Pointer) (wire []byte, bad int32) {
	e.bad = e.put(words([]int32{-1}))
	e.run(e.Encode(e.f, e.table, e.entries, gradient, residual, next, e.wire, e.bad))
	return e.get(e.wire, head+e.bytes)[head:], int32(binary.LittleEndian.Uint32(e.get(e.bad, 4)))
}

func TestEncodeAgreesWithTheDefinitionToTheBit(t *testing.T) {
	shared := open(t)
	for _, f := range formats {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			d, r := shared.in(t), rand.New(rand.NewPCG(13, uint64(f.Bits)))
			all, size := allColumns()
			gradient, residual := normal(r, size), normal(r, size)
			for i := all[8].Offset; i < all[8].Offset+all[8].Rows; i++ { // one that 0 tells nothing of, and one of zeros
				gradient[i], residual[i] = 3+gradient[i]/4, 0
			}
			for i := all[10].Offset; i < all[10].Offset+all[10].Rows; i++ {
				gradient[i], residual[i] = 0, 0
			}
			wire, next := make([]byte, f.Bytes(all)), make([]float32, size)
			if bad := f.Encode(all, gradient, residual, next, wire); bad >= 0 {
				t.Fatalf("column %d is bad", bad)
			}
			e := newEncoder(d, f, all, size)
			pg, pr := d.floats(gradient), d.floats(residual)
			got, bad := e.encode(pg, pr, e.next)
			if bad != -1 {
				t.Errorf("value %d is bad", bad)
			}
			compareWire(t, f, all, got, wire)
			sameBits(t, "residual", d.getFloats(e.next, size), next)

			// The same in place: what lies outside of quantized columns stays.
			if got, _ := e.encode(pg, pr, pr); !bytes.Equal(got, wire) {
				t.Error("another message where the residual is replaced")
			}
			want := slices.Clone(residual)
			for _, c := range all {
				if !c.Dense {
					copy(want[c.Offset:c.Offset+c.Rows], next[c.Offset:])
				}
			}
			sameBits(t, "residual in place", d.getFloats(pr, size), want)
			if f.Bits == 32 { // and without any
				f.Encode(all, gradient, nil, nil, wire)
				if got, _ := e.encode(pg, 0, 0); !bytes.Equal(got, wire) {
					t.Error("another message without a residual")
				}
			}
		})
	}
}

func TestEncodeTellsWhatIsNotFinite(t *testing.T) {
	all, size := allColumns()
	for _, f := range formats {
		d, r := open(t), rand.New(rand.NewPCG(14, uint64(f.Bits)))
		for _, x := range []struct {
			name  string
			spoil func(gradient, residual []float32)
			want  int32
		}{
			{"NaN", func(g, _ []float32) {
				g[all[4].Offset+7] = float32(math.NaN())
				g[all[16].Offset] = float32(math.NaN())
			}, all[4].Offset + 7},
			{"infinity in a dense column", func(g, _ []float32) { g[all[5].Offset+30] = float32(math.Inf(-1)) }, all[5].Offset + 30},
			{"in a long column", func(g, _ []float32) { g[all[24].Offset+4600] = float32(math.Inf(1)) }, all[24].Offset + 4600},
			{"residual", func(_, r []float32) { r[all[18].Offset+100] = float32(math.Inf(1)) }, all[18].Offset},
		} {
			gradient, residual := normal(r, size), normal(r, size)
			x.spoil(gradient, residual)
			e := newEncoder(d, f, all, size)
			if _, bad := e.encode(d.floats(gradient), d.floats(residual), e.next); bad != x.want {
				// a long column is several entries with 16 and 32 bits: a residual's fault is told by one's offset
				if c := all[18]; x.name != "residual" || bad < c.Offset || bad >= c.Offset+c.Rows {
					t.Errorf("%+v, %s: value %d is bad, want %d", f, x.name, bad, x.want)
				}
			}
		}
	}
}

func TestDecodeAddsMessagesInTheirOrder(t *testing.T) {
	shared := open(t)
	all, size := allColumns()
	for _, f := range formats {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			d, r := shared.in(t), rand.New(rand.NewPCG(15, uint64(f.Bits)))
			sums := make([]float32, size)
			var pointers []byte
			table := &kernels.Table{}
			table.Add(f, all, 0, 0)
			for worker := range 3 {
				wire := make([]byte, f.Bytes(all))
				f.Encode(all, normal(r, size), normal(r, size), make([]float32, size), wire)
				if worker == 0 {
					f.Decode(all, wire, sums)
				} else {
					f.Add(all, wire, sums)
				}
				pointers = binary.LittleEndian.AppendUint64(pointers, uint64(d.put(wire)))
			}
			values := d.zeros(size)
			d.run(d.Decode(f, table, d.put(table.Bytes()), d.put(pointers), 3, values))
			sameBits(t, "sum", d.getFloats(values, size), sums)
		})
	}
}

// A table can have columns of several owners, each in a message of its own.
func TestDecodeOfSeveralMessages(t *testing.T) {
	all, size := allColumns()
	f := formats[0]
	d, r := open(t), rand.New(rand.NewPCG(16, 16))
	want := make([]float32, size)
	var pointers []byte
	table := &kernels.Table{}
	for owner, piece := range [][]quantizer.Column{all[:7], nil, all[7:]} {
		wire := make([]byte, 4+f.Bytes(piece))
		f.Encode(piece, normal(r, size), normal(r, size), make([]float32, size), wire[4:])
		f.Decode(piece, wire[4:], want)
		table.Add(f, piece, 4, owner)
		pointers = binary.LittleEndian.AppendUint64(pointers, uint64(d.put(wire)))
	}
	values := d.zeros(size)
	d.run(d.Decode(f, table, d.put(table.Bytes()), d.put(pointers), 1, values))
	sameBits(t, "aggregate", d.getFloats(values, size), want)
}

// With 32 bits arenas can be added without messages.
func TestDecodeOfArenas(t *testing.T) {
	all, size := allColumns()
	d, r := open(t), rand.New(rand.NewPCG(17, 17))
	a, b := normal(r, size), normal(r, size)
	var pointers []byte
	pa := d.floats(a)
	for _, p := range []driver.Pointer{pa, d.floats(b)} {
		pointers = binary.LittleEndian.AppendUint64(pointers, uint64(p))
	}
	table := &kernels.Table{}
	table.AddArena(all, 0)
	want := slices.Clone(a)
	for _, c := range all {
		for i := c.Offset; i < c.Offset+c.Rows; i++ {
			want[i] = b[i] + a[i]
		}
	}
	d.run(d.Decode(quantizer.Format{Bits: 32}, table, d.put(table.Bytes()), d.put(pointers), 2, pa))
	sameBits(t, "sum", d.getFloats(pa, size), want)
}

func TestHeadersGoBeforeMessages(t *testing.T) {
	d := open(t)
	result := make([]byte, kernels.ResultBytes)
	for i := range result {
		result[i] = byte(i + 1)
	}
	wire := d.zeros(40)
	d.run(d.PutHeaders(d.put(result), d.put(words([]int32{1})), d.put(words([]int32{-1})), d.put(words([]int32{2, 30})), 2, wire))
	header := append(slices.Clone(result[:24]), words([]int32{1, -1})...)
	want := make([]byte, 160)
	copy(want[8:], header)
	copy(want[120:], header)
	if got := d.get(wire, 160); !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
}

// compareWire says in which column messages differ.
func compareWire(t *testing.T, f quantizer.Format, all []quantizer.Column, got, want []byte) {
	t.Helper()
	for i, c := range all {
		n := f.Bytes([]quantizer.Column{c})
		if !bytes.Equal(got[:n], want[:n]) {
			t.Fatalf("column %d %+v: % x, want % x", i, c, got[:min(n, 40)], want[:min(n, 40)])
		}
		got, want = got[n:], want[n:]
	}
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
