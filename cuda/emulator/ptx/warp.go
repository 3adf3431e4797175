package ptx

import (
	"math"
	"math/bits"
	"unsafe"
)

const full = ^uint32(0)

// slice is how many instructions a warp runs before another one has its turn, so that a thread that spins on another's word does
// not keep it from writing it.
const slice = 1 << 20

// warp is 32 threads that run together where they are at the same instruction. Lanes that diverge become groups; the group with
// the smallest program counter runs first, and groups that meet run on as one.
type warp struct {
	block      *block
	index      int
	file       []uint64
	base       unsafe.Pointer // of the registers in file: constants and special registers lie below
	predicates []uint32
	lanes      uint32 // that exist
	dead       uint32 // lanes that do not exist or have exited
	groups     []group
	local      []byte // of all lanes
	copies     copies
	tile       tile

	pc, limit int32  // of the running group, and where it has to stop for another
	active    uint32 // its lanes
	interrupt bool   // a step has changed groups: the running one has to go back among them
	steps     int64
	sliceEnd  int64
	rotate    bool

	threads int64 // instructions, times lanes
	access  Access
	where   [32]uint32 // addresses in shared memory
	temp    [32]uint64
}

// group is lanes at one instruction.
type group struct {
	pc      int32
	mask    uint32
	wait    wait
	members uint32 // of the warp operation that it waits for
	barrier uint32 // that it waits for
}

type wait uint8

const (
	ready wait = iota
	atBarrier
	atWarpOp
)

// at is an operand's place in the register file.
func (w *warp) at(slot int32) unsafe.Pointer { return unsafe.Add(w.base, int(slot)) }

// pick takes the group with the smallest program counter, and all that stand there with it, as the running one.
func (w *warp) pick() bool {
	best := int32(-1)
	for _, g := range w.groups {
		if g.wait == ready && (best < 0 || (g.pc < best) != w.rotate && g.pc != best) {
			best = g.pc
		}
	}
	w.rotate = false
	if best < 0 {
		return false
	}
	w.pc, w.active, w.limit = best, 0, math.MaxInt32
	kept := w.groups[:0]
	for _, g := range w.groups {
		switch {
		case g.wait == ready && g.pc == best:
			w.active |= g.mask
			continue
		case g.wait == ready && g.pc > best:
			w.limit = min(w.limit, g.pc)
		}
		kept = append(kept, g)
	}
	w.groups = kept
	return true
}

// suspend puts the running group back among the others.
func (w *warp) suspend(pc int32, mask uint32) {
	if mask != 0 {
		w.groups = append(w.groups, group{pc: pc, mask: mask})
	}
}

// run executes until all groups wait or have exited, or the slice is over.
func (w *warp) run() {
	w.sliceEnd = w.steps + slice
	for w.steps < w.sliceEnd && w.pick() {
		w.execute()
	}
}

// execute runs the picked group until it ends, waits, splits or meets another one.
func (w *warp) execute() {
	code, base := w.block.k.code, w.base
	pc, active := w.pc, w.active
	for {
		in := &code[pc]
		m := active
		if in.guard >= 0 {
			m &= w.predicates[in.guard] ^ in.guardNot
		}
		w.steps++
		w.threads += int64(bits.OnesCount32(m))
		switch in.kind {
		case lanewise:
			if m|w.dead == full {
				in.lane(unsafe.Add(base, int(in.d)), unsafe.Add(base, int(in.a)), unsafe.Add(base, int(in.b)), unsafe.Add(base, int(in.c)))
			} else if m != 0 {
				in.lane(unsafe.Pointer(&w.temp), unsafe.Add(base, int(in.a)), unsafe.Add(base, int(in.b)), unsafe.Add(base, int(in.c)))
				w.blend(in, m)
			}
			pc++
		case compares:
			if m != 0 {
				p := &w.predicates[in.d]
				*p = *p&^m | (in.compare(unsafe.Add(base, int(in.a)), unsafe.Add(base, int(in.b)))^in.mask)&m
			}
			pc++
		case branches:
			switch m {
			case active:
				if in.target <= pc && w.steps >= w.sliceEnd {
					w.pc, w.active = pc, active
					w.slowDown(m)
					w.suspend(in.target, active)
					return
				}
				pc = in.target
			case 0:
				pc++
			default:
				w.suspend(in.target, m)
				w.suspend(pc+1, active&^m)
				return
			}
		case exits:
			w.dead |= m
			if active &^= m; active == 0 {
				return
			}
			pc++
		default:
			if m != 0 {
				w.pc, w.active = pc, active
				in.step(w, in, m)
				if w.interrupt {
					w.interrupt = false
					w.suspend(pc+1, w.active)
					return
				}
			}
			pc++
		}
		if pc >= w.limit {
			w.suspend(pc, active)
			return
		}
	}
}

// slowDown ends a slice, and a warp that never ends.
func (w *warp) slowDown(m uint32) {
	if limit := w.block.limit; w.steps >= limit {
		w.fail(bits.TrailingZeros32(m), "%d instructions executed, and no end: an endless loop, or Config.Limit is too small", w.steps)
	}
	w.rotate = true
}

// blend takes the lanes of m from temp.
func (w *warp) blend(in *inst, m uint32) {
	if in.wide {
		d := (*[32]uint64)(w.at(in.d))
		for ; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			d[i] = w.temp[i]
		}
		return
	}
	d, t := (*[32]uint32)(w.at(in.d)), (*[32]uint32)(unsafe.Pointer(&w.temp))
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		d[i] = t[i]
	}
}

// thread is a lane's linear index in the block.
func (w *warp) thread(lane int) int { return w.index*32 + lane }
