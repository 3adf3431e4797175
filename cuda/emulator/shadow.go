package emulator

import "math/bits"

// shadow is what is known of an allocation's bytes: a cell for each word of 1<<shift bytes. Words have four bytes until something
// writes a part of one; from then on the allocation's words are as small as that.
type shadow struct {
	cells   []cell
	shift   uint
	written bool // bytes that no operation wrote can be read: the host may have written them
}

// cell is who wrote a word last, and who has read it since: identifiers of operations, 0 for none. The reader can be a set of
// operations.
type cell struct {
	w, wb uint32 // the writer, and which of its blocks
	r, rb uint32
}

// stamp is who of a launch: a block and a warp of it, and when. A block's time counts its barriers and its fences with an atomic.
//
//	31        15 14       6 5      0
//	|   block   |   time   |  warp  |
//
// Of larger grids, several blocks count as one; later times count as the last one.
type stamp = uint32

const (
	timeShift   = 6
	blockShift  = 15
	maxTime     = 1<<(blockShift-timeShift) - 1
	severalWarp = 1<<timeShift - 1                       // several warps of the block have read
	several     = 1<<32 - 1                              // several blocks have read
	atomics     = (1<<(32-blockShift) - 2) << blockShift // any number of blocks, by atomics
	maxBlocks   = 1<<(32-blockShift) - 2
)

func makeStamp(block int, time uint32, warp int) stamp {
	return stamp(block)<<blockShift | min(time, maxTime)<<timeShift | stamp(warp)
}

func timeOf(s stamp) uint32 { return s >> timeShift & maxTime }

func newShadow(bytes int, shift uint) *shadow {
	return &shadow{cells: make([]cell, (bytes+1<<shift-1)>>shift), shift: shift}
}

// fits says whether the bytes [at, end) of an allocation are whole words.
func (s *shadow) fits(at, end, size int) bool {
	mask := 1<<s.shift - 1
	return at&mask == 0 && (end&mask == 0 || end == size)
}

// split gives a shadow with smaller words, of which [at, end) is whole ones. What operation o itself has read is forgotten, since it is
// not known which bytes of a word it was.
func (s *shadow) split(at, end, size int, o *op, firstSet uint32) *shadow {
	shift := uint(bits.TrailingZeros(uint(at | 4)))
	if end != size {
		shift = min(shift, uint(bits.TrailingZeros(uint(end))))
	}
	n := newShadow(size, shift)
	n.written = s.written
	for i := range n.cells {
		c := s.cells[i>>(s.shift-shift)]
		if c.r == o.id || c.r >= firstSet {
			c.r, c.rb = 0, 0
		}
		n.cells[i] = c
	}
	return n
}

// wrong is an objection to an access of a word.
type wrong struct {
	cell      int    // of those that were looked at
	unwritten bool   // read, and nothing wrote it
	first     uint32 // else: the identifier of the operation that nothing orders before this one
	wrote     bool   // and whether it wrote the word
	by        stamp  // of the same operation: which block and warp
}

// read notes that a block reads words, and says what is wrong with it.
func (v *view) read(a *allocation, from, to int, by stamp) *wrong {
	cells, me := a.shadow.cells[from:to], v.op.id
	var past, pastReader uint32 // known to come before
	for i := range cells {
		c := &cells[i]
		if c.r == me && c.rb == by {
			continue // the block has read what is there before
		}
		switch {
		case c.w == me:
			if c.wb != by && !v.behind(c.wb, by, a, from+i) {
				return &wrong{cell: i, first: me, wrote: true, by: c.wb}
			}
		case c.w == 0:
			if !a.shadow.written {
				return &wrong{cell: i, unwritten: true}
			}
		case c.w != past:
			if !v.order.before(c.w, v.op) {
				return &wrong{cell: i, first: c.w, wrote: true}
			}
			past = c.w
		}
		switch {
		case c.r == me || c.r >= v.firstSet:
			switch {
			case c.rb>>blockShift != by>>blockShift:
				c.rb = several
			case timeOf(c.rb) == timeOf(by):
				c.rb |= severalWarp
			default:
				c.rb = by
			}
		case c.r == 0 || c.r == pastReader:
			c.r, c.rb = me, by
		case v.order.before(c.r, v.op):
			pastReader = c.r
			c.r, c.rb = me, by
		default:
			c.r, c.rb = v.union(c.r), by
		}
	}
	return nil
}

// write notes that a block writes words.
func (v *view) write(a *allocation, from, to int, by stamp) *wrong {
	cells, me := a.shadow.cells[from:to], v.op.id
	var past, pastReader uint32
	for i := range cells {
		c := &cells[i]
		switch {
		case c.w == me:
			if c.wb != by && !v.behind(c.wb, by, a, from+i) {
				return &wrong{cell: i, first: me, wrote: true, by: c.wb}
			}
		case c.w == 0 || c.w == past:
		default:
			if !v.order.before(c.w, v.op) {
				return &wrong{cell: i, first: c.w, wrote: true}
			}
			past = c.w
		}
		if w := v.readers(c, i, by, a, from, &pastReader); w != nil {
			return w
		}
		c.w, c.wb, c.r = me, by, 0
	}
	return nil
}

// readers says what is wrong with writing a word that was read.
func (v *view) readers(c *cell, i int, by stamp, a *allocation, from int, past *uint32) *wrong {
	if c.r == 0 || c.r == *past {
		return nil
	}
	if c.r == v.op.id || c.r >= v.firstSet {
		if c.rb != by && !v.behind(c.rb, by, a, from+i) {
			return &wrong{cell: i, first: v.op.id, by: c.rb}
		}
		if c.r == v.op.id {
			return nil
		}
	}
	if !v.order.before(c.r, v.op) {
		return &wrong{cell: i, first: c.r}
	}
	*past = c.r
	return nil
}

// atomic notes that a block reads and writes words at once.
func (v *view) atomic(a *allocation, from, to int, by stamp) *wrong {
	cells, me := a.shadow.cells[from:to], v.op.id
	var past uint32
	for i := range cells {
		c := &cells[i]
		switch {
		case c.w == me:
			if c.wb != atomics && c.wb != by && !v.behind(c.wb, by, a, from+i) {
				return &wrong{cell: i, first: me, wrote: true, by: c.wb}
			}
		case c.w == 0:
			if !a.shadow.written {
				return &wrong{cell: i, unwritten: true}
			}
		default:
			if !v.order.before(c.w, v.op) {
				return &wrong{cell: i, first: c.w, wrote: true}
			}
		}
		if w := v.readers(c, i, by, a, from, &past); w != nil {
			return w
		}
		c.w, c.wb, c.r = me, atomics, 0
	}
	return nil
}
