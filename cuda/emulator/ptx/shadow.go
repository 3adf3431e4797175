package ptx

import "math/bits"

// shadow remembers who touched shared memory last, to find races and reads of what nothing wrote. It follows FastTrack (Flanagan
// and Freund, 2009), with a warp's clock for all of its threads: two accesses are ordered if they are of the same thread, or of the
// same warp with a bar.warp.sync between, or if barriers lead from one to the other. Cells are as small as the smallest access
// that the kernel makes to shared memory, up to four bytes.
//
// It cannot see races between lanes that a bar.warp.sync of other lanes of their warp seems to order.
type shadow struct {
	shift  uint
	warps  int
	base   uint32     // clocks below are of earlier blocks
	clocks []uint32   // of each warp
	before [][]uint32 // before[w][v]: accesses of warp v at clocks below come before what warp w does now
	writes []record   // of each cell
	reads  []uint32   // of each cell and warp: clock<<6, and the lane, or several
}

// record is a cell's last write.
type record struct {
	clock  uint32
	thread uint16
	kind   writeKind
}

type writeKind uint16

const (
	plainWrite writeKind = iota
	atomicWrite
	pendingWrite // by a cp.async that is not waited for
)

const (
	several   = 32 // lanes
	lastClock = 1 << 25
)

func newShadow(bytes, granule, warps int) *shadow {
	s := &shadow{shift: uint(bits.TrailingZeros(uint(granule))), warps: warps}
	cells := (bytes + granule - 1) / granule
	s.writes, s.reads = make([]record, cells), make([]uint32, cells*warps)
	s.clocks = make([]uint32, warps)
	for range warps {
		s.before = append(s.before, make([]uint32, warps))
	}
	return s
}

// reset begins a block.
func (s *shadow) reset() {
	if s == nil {
		return
	}
	for _, c := range s.clocks {
		s.base = max(s.base, c)
	}
	if s.base++; s.base > lastClock {
		s.base = 1
		clear(s.writes)
		clear(s.reads)
	}
	for w := range s.clocks {
		s.clocks[w] = s.base
		for v := range s.before[w] {
			s.before[w][v] = s.base
		}
	}
}

// barrier orders all that the warps of a mask did before it, before all that they do after it.
func (s *shadow) barrier(warps uint32) {
	if s == nil {
		return
	}
	for v := range s.clocks {
		last := uint32(0)
		if warps>>v&1 == 1 {
			s.clocks[v]++
			last = s.clocks[v]
		} else {
			for w := range s.before {
				if warps>>w&1 == 1 {
					last = max(last, s.before[w][v])
				}
			}
		}
		for w := range s.before {
			if warps>>w&1 == 1 {
				s.before[w][v] = last
			}
		}
	}
}

// warpSync orders accesses within a warp.
func (s *shadow) warpSync(w int) {
	s.clocks[w]++
	s.before[w][w] = s.clocks[w]
}

// read checks and notes that the lanes of m read n bytes each at w.where.
func (s *shadow) read(w *warp, m uint32, n int) {
	before, clock := s.before[w.index], s.clocks[w.index]<<6
	for ; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & 31
		me := uint16(w.index*32 + l)
		first, last := w.where[l]>>s.shift, (w.where[l]+uint32(n)-1)>>s.shift
		for cell := first; cell <= last; cell++ {
			r := &s.writes[cell]
			if r.clock < s.base {
				w.fail(l, "shared byte %#x is read, and nothing has written it", cell<<s.shift)
			}
			if r.thread != me && r.clock >= before[r.thread/32] || r.kind == pendingWrite {
				s.unordered(w, l, cell, *r, "read")
			}
			o := &s.reads[int(cell)*s.warps+w.index]
			switch v := clock | uint32(l); {
			case *o>>6<<6 != clock:
				*o = v
			case *o != v:
				*o = clock | several
			}
		}
	}
}

// write checks and notes that the lanes of m write n bytes each at w.where.
func (s *shadow) write(w *warp, m uint32, n int) { s.change(w, m, n, plainWrite) }

func (s *shadow) change(w *warp, m uint32, n int, kind writeKind) {
	before, clock := s.before[w.index], s.clocks[w.index]
	for ; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & 31
		me := uint16(w.index*32 + l)
		first, last := w.where[l]>>s.shift, (w.where[l]+uint32(n)-1)>>s.shift
		for cell := first; cell <= last; cell++ {
			r := &s.writes[cell]
			if r.clock >= s.base {
				if r.thread != me && r.clock >= before[r.thread/32] && (kind != atomicWrite || r.kind != atomicWrite) || r.kind == pendingWrite {
					s.unordered(w, l, cell, *r, "written")
				}
			} else if kind == atomicWrite {
				w.fail(l, "shared byte %#x is read, and nothing has written it", cell<<s.shift)
			}
			for v, o := range s.reads[int(cell)*s.warps : (int(cell)+1)*s.warps] {
				if o>>6 >= before[v] && (v != w.index || o&63 != uint32(l)) {
					s.readBefore(w, l, cell, v, o)
				}
			}
			*r = record{clock, me, kind}
		}
	}
}

// land notes that a thread's cp.async has been waited for.
func (s *shadow) land(w *warp, lane int, at uint32, n int) {
	for cell := at >> s.shift; cell <= (at+uint32(n)-1)>>s.shift; cell++ {
		s.writes[cell] = record{s.clocks[w.index], uint16(w.index*32 + lane), plainWrite}
	}
}

func (s *shadow) unordered(w *warp, lane int, cell uint32, r record, what string) {
	dim := w.block.c.Block
	if r.kind == pendingWrite {
		w.fail(lane, "shared byte %#x is %s while a cp.async of thread %s to it is not waited for", cell<<s.shift, what, dim.at(int(r.thread)))
	}
	w.fail(lane, "race: shared byte %#x is %s, and thread %s has written it with no barrier between", cell<<s.shift, what, dim.at(int(r.thread)))
}

func (s *shadow) readBefore(w *warp, lane int, cell uint32, reader int, o uint32) {
	l := int(o & 63)
	if l == several {
		w.fail(lane, "race: shared byte %#x is written, and several threads of warp %d have read it with no barrier between", cell<<s.shift, reader)
	}
	w.fail(lane, "race: shared byte %#x is written, and thread %s has read it with no barrier between", cell<<s.shift, w.block.c.Block.at(reader*32+l))
}
