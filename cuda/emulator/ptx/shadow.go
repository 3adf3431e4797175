package ptx

import (
	"math/bits"
	"slices"
)

// shadow remembers who touched shared memory last, to find races and reads of what nothing wrote. It follows FastTrack (Flanagan
// and Freund, 2009), with a warp's clock for all of its threads: two accesses are ordered if they are of the same thread, or of the
// same warp with a bar.warp.sync between, or if barriers lead from one to the other. Cells are as small as the smallest access
// that the kernel makes to shared memory, up to four bytes.
//
// It cannot see races between lanes that a bar.warp.sync of other lanes of their warp seems to order.
type shadow struct {
	shift  uint
	base   uint32     // clocks below are of earlier blocks
	clocks []uint32   // of each warp
	before [][]uint32 // before[w][v]: accesses of warp v at clocks below come before what warp w does now
	safe   []uint32   // safe[w]: the least of before[w]
	writes []uint32   // of each cell: the clock of the last write, or pending
	writer []origin   // of each cell
	reads  [][]uint32 // reads[w]: of each cell: the clock of warp w's last read, shifted by 6, and the lane, or several
}

// origin is who wrote a cell last.
type origin struct {
	thread uint16
	atomic bool
}

type writeKind uint8

const (
	plainWrite writeKind = iota
	atomicWrite
	pendingWrite // by a cp.async that is not waited for yet
)

const (
	several   = 32 // lanes
	lastClock = 1 << 25
	pending   = ^uint32(0)
)

func newShadow(bytes, granule, warps int) *shadow {
	s := &shadow{shift: uint(bits.TrailingZeros(uint(granule)))}
	cells := (bytes + granule - 1) / granule
	s.writes, s.writer = make([]uint32, cells), make([]origin, cells)
	s.clocks, s.safe = make([]uint32, warps), make([]uint32, warps)
	for range warps {
		s.before = append(s.before, make([]uint32, warps))
		s.reads = append(s.reads, make([]uint32, cells))
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
	s.base++
	for i, c := range s.writes {
		if c == pending || s.base > lastClock {
			s.writes[i] = 0
		}
	}
	if s.base > lastClock {
		s.base = 1
		for _, r := range s.reads {
			clear(r)
		}
	}
	for w := range s.clocks {
		s.clocks[w], s.safe[w] = s.base, s.base
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
	for w := range s.safe {
		s.safe[w] = slices.Min(s.before[w])
	}
}

// warpSync orders accesses within a warp.
func (s *shadow) warpSync(w int) {
	s.clocks[w]++
	s.before[w][w] = s.clocks[w]
	s.safe[w] = slices.Min(s.before[w])
}

// read checks and notes that the lanes of m read n bytes each at w.where.
func (s *shadow) read(w *warp, m uint32, n int) {
	base, clock := s.base, s.clocks[w.index]<<6
	window := s.safe[w.index] - base // of clocks that are of this block, and before what any thread of the warp does now
	reads, writes := s.reads[w.index], s.writes
	span, previous := (uint32(n)-1)>>s.shift, ^uint32(0)
	for ; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & 31
		first := w.where[l] >> s.shift
		if first == previous { // as when lanes read one address
			if reads[first] != clock|several {
				for cell := first; cell <= first+span; cell++ {
					s.checkRead(w, l, cell)
					reads[cell] = clock | several
				}
			}
			continue
		}
		previous = first
		for cell := first; cell <= first+span; cell++ {
			if writes[cell]-base >= window {
				s.checkRead(w, l, cell)
			}
			switch o := reads[cell]; {
			case o>>6<<6 != clock:
				reads[cell] = clock | uint32(l)
			case o != clock|uint32(l):
				reads[cell] = clock | several
			}
		}
	}
}

func (s *shadow) checkRead(w *warp, lane int, cell uint32) {
	c, r := s.writes[cell], s.writer[cell]
	switch {
	case c < s.base:
		w.fail(lane, "shared byte %#x is read, and nothing has written it", cell<<s.shift)
	case c == pending || int(r.thread) != w.thread(lane) && c >= s.before[w.index][r.thread/32]:
		s.unordered(w, lane, cell, "read")
	}
}

// write checks and notes that the lanes of m write n bytes each at w.where.
func (s *shadow) write(w *warp, m uint32, n int, kind writeKind) {
	before, clock := s.before[w.index], s.clocks[w.index]
	if kind == pendingWrite {
		clock = pending
	}
	span := (uint32(n) - 1) >> s.shift
	for ; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & 31
		me := uint16(w.index*32 + l)
		first := w.where[l] >> s.shift
		for cell := first; cell <= first+span; cell++ {
			if c, r := s.writes[cell], s.writer[cell]; c >= s.base {
				if c == pending || r.thread != me && c >= before[r.thread/32] && (kind != atomicWrite || !r.atomic) {
					s.unordered(w, l, cell, "written")
				}
			} else if kind == atomicWrite {
				w.fail(l, "shared byte %#x is read, and nothing has written it", cell<<s.shift)
			}
			for v, reads := range s.reads {
				if o := reads[cell]; o>>6 >= before[v] && (v != w.index || o&63 != uint32(l)) {
					s.readBefore(w, l, cell, v, o)
				}
			}
			// a thread's atomic does not hide its plain write before it
			r, c := s.writer[cell], s.writes[cell]
			s.writer[cell] = origin{me, kind == atomicWrite && (r.atomic || r.thread != me || c != clock)}
			s.writes[cell] = clock
		}
	}
}

// land notes that a thread's cp.async has been waited for.
func (s *shadow) land(w *warp, lane int, at uint32, n int) {
	for cell := at >> s.shift; cell <= (at+uint32(n)-1)>>s.shift; cell++ {
		s.writes[cell] = s.clocks[w.index]
	}
}

func (s *shadow) unordered(w *warp, lane int, cell uint32, what string) {
	by := w.block.c.Block.at(int(s.writer[cell].thread))
	if s.writes[cell] == pending {
		w.fail(lane, "shared byte %#x is %s while a cp.async of thread %s to it is not waited for", cell<<s.shift, what, by)
	}
	w.fail(lane, "race: shared byte %#x is %s, and thread %s has written it with no barrier between", cell<<s.shift, what, by)
}

func (s *shadow) readBefore(w *warp, lane int, cell uint32, reader int, o uint32) {
	l := int(o & 63)
	if l == several {
		w.fail(lane, "race: shared byte %#x is written, and several threads of warp %d have read it with no barrier between", cell<<s.shift, reader)
	}
	w.fail(lane, "race: shared byte %#x is written, and thread %s has read it with no barrier between", cell<<s.shift, w.block.c.Block.at(reader*32+l))
}
