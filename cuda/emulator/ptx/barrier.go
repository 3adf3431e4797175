package ptx

import (
	"math/bits"
)

// Variants of a barrier.
const (
	barSync uint8 = iota
	barArrive
	barPopc
	barAnd
	barOr
)

// bar{.warp}.sync, barrier{.cta}.sync, .arrive and .red.
func (b *builder) bar(mods []string, args []operand) error {
	if len(mods) > 0 && mods[0] == "warp" {
		if len(mods) != 2 || mods[1] != "sync" || len(args) != 1 {
			return b.this()
		}
		members, err := b.source(args[0], 32)
		b.emit(inst{kind: stepwise, step: stepWarpSync, c: members})
		return err
	}
	if len(mods) > 0 && mods[0] == "cta" {
		mods = mods[1:]
	}
	if n := len(mods); n > 1 && mods[n-1] == "aligned" {
		mods = mods[:n-1]
	}
	if len(mods) == 0 {
		return b.this()
	}
	in := inst{kind: stepwise, step: stepBarrier, d: -1, b: -1}
	var err error
	switch {
	case mods[0] == "sync" && len(mods) == 1:
	case mods[0] == "arrive" && len(mods) == 1 && len(args) == 2:
		in.sub = barArrive
	case mods[0] == "red" && len(mods) == 3 && len(args) >= 3:
		in.sub = map[string]uint8{"popc": barPopc, "and": barAnd, "or": barOr}[mods[1]]
		width := 1
		if in.sub == barPopc {
			width = 32
		}
		last := args[len(args)-1]
		if last.negated {
			in.mask = full
			last.negated = false
		}
		if in.target, err = b.source(last, 1); err != nil {
			return err
		}
		if in.d, err = b.source(args[0], width); err != nil {
			return err
		}
		args = args[1 : len(args)-1]
	default:
		return b.this()
	}
	if len(args) < 1 || len(args) > 2 {
		return b.this()
	}
	if in.a, err = b.source(args[0], 32); err != nil {
		return err
	}
	if len(args) == 2 {
		in.count = 1
		if in.b, err = b.source(args[1], 32); err != nil {
			return err
		}
	}
	b.emit(in)
	return nil
}

func stepBarrier(w *warp, in *inst, m uint32) {
	lane := bits.TrailingZeros32(m)
	b := w.block
	id := (*[32]uint32)(w.at(in.a))[lane]
	if id > 15 {
		w.fail(lane, "barrier %d: there are barriers 0 to 15", id)
	}
	bar, want := &b.barriers[id], b.threads
	if in.count == 1 {
		want = int((*[32]uint32)(w.at(in.b))[lane])
		if want%32 != 0 || want == 0 {
			w.fail(lane, "barrier %d for %d threads: the number has to be a multiple of 32", id, want)
		}
	}
	switch {
	case bar.arrived == 0:
		bar.pc, bar.first = w.pc, w.thread(lane)
	case bar.pc != w.pc && (in.count == 0 || b.sameWarp(bar.first, w)):
		l := b.k.lines[bar.pc]
		w.fail(lane, "divergent barrier: thread %s waits at another one, %s:%d: %s", b.c.Block.at(bar.first), b.k.module.name, l.number, l.text)
	}
	bar.arrived += bits.OnesCount32(m)
	bar.warps |= 1 << w.index
	if in.sub >= barPopc {
		bar.yes += bits.OnesCount32((w.predicates[in.target] ^ in.mask) & m)
	}
	if in.sub != barArrive {
		w.active &^= m
		w.groups = append(w.groups, group{pc: w.pc, mask: m, wait: atBarrier, barrier: id})
		w.interrupt = true
	}
	if bar.arrived > want {
		w.fail(lane, "barrier %d: %d threads arrive, and it is for %d", id, bar.arrived, want)
	}
	if bar.arrived == want {
		b.release(id, want)
	}
}

func (b *block) sameWarp(thread int, w *warp) bool { return thread/32 == w.index }

// release lets all go on that wait at a barrier.
func (b *block) release(id uint32, want int) {
	bar := &b.barriers[id]
	for i := range b.warps {
		w := &b.warps[i]
		for j := range w.groups {
			g := &w.groups[j]
			if g.wait != atBarrier || g.barrier != id {
				continue
			}
			if in := &b.k.code[g.pc]; in.sub >= barPopc {
				w.reduced(in, g.mask, bar.yes, want)
			}
			g.wait = ready
			g.pc++
		}
	}
	if want == b.threads {
		b.epoch++
	}
	b.stats.Barriers++
	b.shadow.barrier(bar.warps)
	*bar = barrier{}
}

// reduced gives the lanes of m what bar.red found.
func (w *warp) reduced(in *inst, m uint32, yes, all int) {
	if in.sub == barPopc {
		d := (*[32]uint32)(w.at(in.d))
		for ; m != 0; m &= m - 1 {
			d[bits.TrailingZeros32(m)] = uint32(yes)
		}
		return
	}
	v := in.sub == barOr && yes > 0 || in.sub == barAnd && yes == all
	p := &w.predicates[in.d]
	*p &^= m
	if v {
		*p |= m
	}
}

// stepWarpSync is bar.warp.sync, the only warp operation that orders accesses to memory.
func stepWarpSync(w *warp, in *inst, m uint32) {
	w.together(in.c, m, func(lanes uint32) {
		if w.block.shadow != nil && lanes|w.dead == full {
			w.block.shadow.warpSync(w.index)
		}
	})
}
