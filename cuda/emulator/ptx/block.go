package ptx

import (
	"fmt"
	"math/bits"
	"strings"
	"unsafe"
)

// block is a block of threads. A worker has one, and runs the grid's blocks in it one after the other.
type block struct {
	k        *Kernel
	c        *Config
	index    int
	threads  int
	limit    int64
	shared   []byte
	shadow   *shadow // nil: unchecked
	warps    []warp
	barriers [16]barrier
	epoch    uint32
	stats    Stats
}

// barrier is one of the block's 16.
type barrier struct {
	arrived int
	pc      int32 // of the first that arrived
	first   int   // its thread
	yes     int   // predicates of bar.red that were true
	warps   uint32
}

func newBlock(k *Kernel, c *Config) *block {
	b := &block{k: k, c: c, threads: c.Block.Count(), limit: c.Limit, shared: make([]byte, k.shared+c.Shared)}
	if b.limit == 0 {
		b.limit = 1 << 28
	}
	b.warps = make([]warp, (b.threads+31)/32)
	if !c.Unchecked {
		b.shadow = newShadow(len(b.shared), k.granule, len(b.warps))
	}
	for i := range b.warps {
		w := &b.warps[i]
		w.block, w.index = b, i
		w.file = make([]uint64, (k.fixedBytes+k.fileBytes)/8+32) // an operand that is not used points to 32 lanes, too
		w.base = unsafe.Pointer(&w.file[k.fixedBytes/8])
		w.predicates = make([]uint32, k.predicates)
		w.lanes = full >> (32 - min(32, b.threads-32*i))
		w.local = make([]byte, 32*k.local)
		for _, c := range k.constants {
			w.fill(c.slot, c.wide, func(int) uint64 { return c.value })
		}
		w.fillSpecials(func(string) bool { return true })
	}
	return b
}

func (w *warp) fill(slot int32, wide bool, f func(lane int) uint64) {
	if wide {
		for i := range 32 {
			(*[32]uint64)(w.at(slot))[i] = f(i)
		}
		return
	}
	for i := range 32 {
		(*[32]uint32)(w.at(slot))[i] = uint32(f(i))
	}
}

// reset makes it the grid's block of that index.
func (b *block) reset(index int) {
	b.index = index
	b.barriers = [16]barrier{}
	b.epoch++
	b.shadow.reset()
	for i := range b.warps {
		w := &b.warps[i]
		clear(w.file[b.k.fixedBytes/8:])
		clear(w.predicates)
		w.predicates[1] = full
		w.dead = ^w.lanes
		w.groups = append(w.groups[:0], group{mask: w.lanes})
		w.steps, w.rotate = 0, false
		w.copies.reset()
		w.fillSpecials(func(name string) bool { return strings.HasPrefix(name, "%ctaid") })
	}
}

// fillSpecials sets special registers. Only the block's place changes from one block to the next.
func (w *warp) fillSpecials(which func(name string) bool) {
	for _, s := range w.block.k.specials {
		if which(s.name) {
			w.fill(s.slot, s.name == "%gridid", func(lane int) uint64 { return w.specialValue(s.name, lane) })
		}
	}
}

func (w *warp) specialValue(name string, lane int) uint64 {
	b := w.block
	axis := func(d Dim) int {
		switch name[len(name)-1] {
		case 'x':
			return d.X
		case 'y':
			return d.Y
		}
		return d.Z
	}
	one := uint32(1) << lane
	v := 0
	switch name[:len(name)-2] {
	case "%tid":
		v = axis(b.c.Block.at(w.thread(lane)))
	case "%ntid":
		v = axis(b.c.Block)
	case "%ctaid":
		v = axis(b.c.Grid.at(b.index))
	case "%nctaid":
		v = axis(b.c.Grid)
	}
	switch name {
	case "%laneid":
		v = lane
	case "%warpid":
		v = w.index
	case "%nwarpid":
		v = len(b.warps)
	case "%nsmid":
		v = 1
	case "%lanemask_eq":
		v = int(one)
	case "%lanemask_lt":
		v = int(one - 1)
	case "%lanemask_le":
		v = int(one | (one - 1))
	case "%lanemask_gt":
		v = int(^(one | (one - 1)))
	case "%lanemask_ge":
		v = int(^(one - 1))
	case "%dynamic_smem_size":
		v = b.c.Shared
	case "%total_smem_size":
		v = len(b.shared)
	}
	return uint64(v)
}

// run executes the block to its end. What a kernel does wrong comes as a panic with a *Fault.
func (b *block) run() {
	for {
		progress, alive := false, false
		for i := range b.warps {
			w := &b.warps[i]
			if w.dead == full {
				continue
			}
			steps := w.steps
			w.run()
			progress = progress || w.steps != steps
			alive = alive || w.dead != full
		}
		if !alive {
			break
		}
		if !progress {
			b.stuck()
		}
	}
	b.stats.Blocks++
	for i := range b.warps {
		w := &b.warps[i]
		b.stats.WarpInstructions += w.steps
		b.stats.ThreadInstructions += w.threads
		w.threads = 0
	}
}

// stuck explains why no thread can go on.
func (b *block) stuck() {
	var w *warp
	var g group
	for i := range b.warps {
		for _, o := range b.warps[i].groups {
			if w == nil || g.wait == atBarrier && o.wait == atWarpOp {
				w, g = &b.warps[i], o
			}
		}
	}
	w.pc = g.pc
	lane := bits.TrailingZeros32(g.mask)
	if g.wait == atWarpOp {
		missing := bits.TrailingZeros32(g.members & w.lanes &^ g.mask)
		w.fail(lane, "deadlock: lanes %#x wait for lane %d, which %s", g.mask, missing, b.doing(w, missing))
	}
	for i := range b.warps {
		for l := range 32 {
			o := &b.warps[i]
			if o.lanes>>l&1 == 1 && b.doing(o, l) != b.doing(w, lane) {
				w.fail(lane, "divergent barrier: %d of %d threads wait here, and thread %s %s", b.barriers[g.barrier].arrived, b.threads,
					b.c.Block.at(o.thread(l)), b.doing(o, l))
			}
		}
	}
	w.fail(lane, "deadlock: %d threads wait here for more than the block has", b.barriers[g.barrier].arrived)
}

// doing is what a lane does when nothing goes on.
func (b *block) doing(w *warp, lane int) string {
	for _, g := range w.groups {
		if g.mask>>lane&1 == 1 {
			l := b.k.lines[g.pc]
			return fmt.Sprintf("waits at %s:%d: %s", b.k.module.name, l.number, l.text)
		}
	}
	return "has exited"
}
