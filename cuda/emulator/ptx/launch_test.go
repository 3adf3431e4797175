package ptx

import (
	"slices"
	"testing"
)

// witness keeps what a Memory is told.
type witness struct {
	memory
	seen []Access
}

func (w *witness) Access(a *Access) error {
	err := w.memory.Access(a)
	w.seen = append(w.seen, *a)
	return err
}

func TestMemoryIsToldWhoDoesWhat(t *testing.T) {
	text := header + `.visible .entry k(.param .u64 p) .maxntid 64, 1, 1 {
	.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p1;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	setp.eq.u32 %p1, %r1, 33;
	@%p1 st.global.u32 [%rd1], %r1;
	bar.sync 0;
	membar.gl;
	@%p1 atom.global.add.u32 %r2, [%rd1+4], 1;
	@%p1 ld.global.v2.u32 {%r3, %r4}, [%rd1];
	ret;
}`
	module, err := Parse("m.ptx", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m := &witness{}
	p := m.allocate(8)
	s, err := module.kernels[0].Run(Config{Grid: Dim{1, 2, 1}, Block: Dim{64, 1, 1}, Memory: m, Params: pack(p)})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.getWords(p); !slices.Equal(got, []uint32{33, 2}) {
		t.Error(got)
	}
	want := Stats{Blocks: 2, WarpInstructions: 2 * 2 * 9, ThreadInstructions: 2 * (64*6 + 3), GlobalRead: 2 * (4 + 8), Written: 2 * (4 + 4), Barriers: 2}
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if m.fences != 4 {
		t.Errorf("%d fences", m.fences)
	}
	if len(m.seen) != 6 {
		t.Fatalf("%d accesses", len(m.seen))
	}
	for i, kind := range []AccessKind{Write, Atomic, Read, Write, Atomic, Read} {
		a := m.seen[i]
		after := m.seen[i/3*3].Epoch
		if kind != Write {
			after++
		}
		if a.Kind != kind || a.Block != i/3 || a.Warp != 1 || a.Mask != 2 || a.Epoch != after {
			t.Errorf("access %d: kind %d, block %d, warp %d, mask %#x, epoch %d", i, a.Kind, a.Block, a.Warp, a.Mask, a.Epoch)
		}
	}
}
