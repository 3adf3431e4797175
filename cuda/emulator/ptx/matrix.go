package ptx

import (
	"encoding/binary"
	"math"
	"strings"
)

// tile is what mma multiplies: D = A*B + C with A of 16 rows and up to 16 columns, B of up to 16 rows and 8 columns.
type tile struct {
	a [16][16]float32
	b [16][8]float32
	c [16][8]float32
}

// multiply adds the products of one element of c in the order of k, each fused and so rounded once. The order of a GPU is not
// documented.
func (t *tile) multiplyPlain(depth int) {
	for i := range t.c {
		for j := range t.c[i] {
			s := t.c[i][j]
			for k := range depth {
				s = fusedFloat32(t.a[i][k], t.b[k][j], s)
			}
			t.c[i][j] = s
		}
	}
}

// shape is one of mma's, with the words of A and B that each lane holds.
type shape struct {
	depth, a, b int
	pairs       bool // two 16-bit elements a word
	element     func(uint32) float32
}

func bfloat(v uint32) float32 { return math.Float32frombits(v << 16) }

func tensorFloat(v uint32) float32 { return math.Float32frombits(v &^ (1<<13 - 1)) }

func half(v uint32) float32 { return float32(fromHalf(uint16(v))) }

// shapes: the low 13 bits of tf32 are ignored, as hardware does.
var shapes = map[string]shape{
	"m16n8k8.row.col.f32.tf32.tf32.f32":  {8, 4, 2, false, tensorFloat},
	"m16n8k4.row.col.f32.tf32.tf32.f32":  {4, 2, 1, false, tensorFloat},
	"m16n8k16.row.col.f32.bf16.bf16.f32": {16, 4, 2, true, bfloat},
	"m16n8k8.row.col.f32.bf16.bf16.f32":  {8, 2, 1, true, bfloat},
	"m16n8k16.row.col.f32.f16.f16.f32":   {16, 4, 2, true, half},
	"m16n8k8.row.col.f32.f16.f16.f32":    {8, 2, 1, true, half},
}

// mma.sync.aligned.shape.row.col.f32.type.type.f32 {d}, {a}, {b}, {c}.
func (b *builder) mma(mods []string, args []operand) error {
	if len(mods) < 3 || mods[0] != "sync" || mods[1] != "aligned" || len(args) != 4 {
		return b.this()
	}
	s, ok := shapes[strings.Join(mods[2:], ".")]
	if !ok {
		return b.this()
	}
	var words [4][]int32
	for i, n := range []int{4, s.a, s.b, 4} {
		if args[i].kind != isVector || len(args[i].elements) != n {
			return b.errorf("%s is not a vector of %d registers", args[i].text, n)
		}
		for _, e := range args[i].elements {
			find := b.source
			if i == 0 {
				find = b.target
			}
			slot, err := find(e, 32)
			if err != nil {
				return err
			}
			words[i] = append(words[i], slot)
		}
	}
	all := b.constant(uint64(full), 32)
	b.emit(inst{kind: stepwise, step: func(w *warp, in *inst, m uint32) {
		w.together(all, m, func(uint32) {
			t := &w.tile
			for i, slot := range words[1] {
				t.scatterA(s, i, (*[32]uint32)(w.at(slot)))
			}
			for i, slot := range words[2] {
				t.scatterB(s, i, (*[32]uint32)(w.at(slot)))
			}
			for i, slot := range words[3] {
				for l, v := range (*[32]float32)(w.at(slot)) {
					t.c[l>>2+i>>1*8][l&3*2+i&1] = v
				}
			}
			t.multiply(s.depth)
			for i, slot := range words[0] {
				d := (*[32]float32)(w.at(slot))
				for l := range d {
					d[l] = t.c[l>>2+i>>1*8][l&3*2+i&1]
				}
			}
		})
	}})
	return nil
}

// scatterA: word i of lane l holds row l/4, and 8 more if i is odd, of column l%4, and 4 more for words 2 and 3; in pairs twice the
// columns.
func (t *tile) scatterA(s shape, i int, words *[32]uint32) {
	for l, v := range words {
		row, column := l>>2+i&1*8, l&3+i>>1*4
		if !s.pairs {
			t.a[row][column] = s.element(v)
			continue
		}
		t.a[row][2*column] = s.element(v & 0xffff)
		t.a[row][2*column+1] = s.element(v >> 16)
	}
}

// scatterB: word i of lane l holds row l%4, and 4 more for word 1, of column l/4; in pairs twice the rows.
func (t *tile) scatterB(s shape, i int, words *[32]uint32) {
	for l, v := range words {
		row, column := l&3+i*4, l>>2
		if !s.pairs {
			t.b[row][column] = s.element(v)
			continue
		}
		t.b[2*row][column] = s.element(v & 0xffff)
		t.b[2*row+1][column] = s.element(v >> 16)
	}
}

// ldmatrix.sync.aligned.m8n8.xN{.trans}.shared.b16 {d}, [a]: lanes 8i to 8i+7 give the addresses of the rows of matrix i, and word i
// of lane l is elements 2*(l%4) and one more of its row l/4.
func (b *builder) ldmatrix(mods []string, args []operand) error {
	if len(mods) < 4 || mods[0] != "sync" || mods[1] != "aligned" || mods[2] != "m8n8" || len(args) != 2 {
		return b.this()
	}
	count := map[string]int{"x1": 1, "x2": 2, "x4": 4}[mods[3]]
	rest := mods[4:]
	transposed := len(rest) > 0 && rest[0] == "trans"
	if transposed {
		rest = rest[1:]
	}
	if count == 0 || len(rest) != 2 || rest[0] != "shared" && rest[0] != "shared::cta" || rest[1] != "b16" {
		return b.this()
	}
	parts := args[0].elements
	if args[0].kind == isRegister && count == 1 {
		parts = args[:1]
	}
	if len(parts) != count {
		return b.errorf("%s is not a vector of %d registers", args[0].text, count)
	}
	in := inst{kind: stepwise, space: shared}
	for _, p := range parts {
		slot, err := b.target(p, 32)
		if err != nil {
			return err
		}
		in.more = append(in.more, slot)
	}
	if err := b.addressOf(args[1], &in); err != nil {
		return err
	}
	b.granule(4)
	all := b.constant(uint64(full), 32)
	in.step = func(w *warp, in *inst, m uint32) {
		w.together(all, m, func(uint32) {
			rows := uint32(1<<(8*count) - 1)
			w.sharedAddresses(in, rows, 16)
			if s := w.block.shadow; s != nil {
				s.read(w, rows, 16)
			}
			for i, slot := range in.more {
				d := (*[32]uint32)(w.at(slot))
				for l := range d {
					row, column := l>>2, l&3*2
					if transposed {
						d[l] = w.element16(8*i+column, row) | w.element16(8*i+column+1, row)<<16
					} else {
						d[l] = w.element16(8*i+row, column) | w.element16(8*i+row, column+1)<<16
					}
				}
			}
		})
	}
	b.emit(in)
	return nil
}

// element16 is one of eight at a lane's address in shared memory.
func (w *warp) element16(lane, i int) uint32 {
	return uint32(binary.LittleEndian.Uint16(w.block.shared[w.where[lane&31]+uint32(2*i):]))
}
