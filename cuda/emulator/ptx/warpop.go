package ptx

import (
	"math/bits"
	"strconv"
)

// together executes f for the lanes of each member mask once all of them have come. Those that have to wait for others are parked.
func (w *warp) together(members int32, m uint32, f func(lanes uint32)) {
	masks := (*[32]uint32)(w.at(members))
	for m != 0 {
		first := bits.TrailingZeros32(m)
		mask := masks[first]
		lanes := uint32(0)
		for r := m; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r)
			if masks[l] == mask {
				lanes |= 1 << l
			}
		}
		m &^= lanes
		if outside := lanes &^ mask; outside != 0 {
			w.fail(bits.TrailingZeros32(outside), "lane %d is not in its member mask %#x", bits.TrailingZeros32(outside), mask)
		}
		need := mask & w.lanes
		if exited := need & w.dead; exited != 0 {
			w.fail(first, "lane %d of the member mask %#x has exited", bits.TrailingZeros32(exited), mask)
		}
		waiting := uint32(0)
		for _, g := range w.groups {
			if g.wait == atWarpOp && g.pc == w.pc && g.members == mask {
				waiting |= g.mask
			}
		}
		if lanes|waiting != need {
			w.active &^= lanes
			w.groups = append(w.groups, group{pc: w.pc, mask: lanes, wait: atWarpOp, members: mask})
			w.interrupt = true
			continue
		}
		if waiting != 0 {
			kept := w.groups[:0]
			for _, g := range w.groups {
				if !(g.wait == atWarpOp && g.pc == w.pc && g.members == mask) {
					kept = append(kept, g)
				}
			}
			w.groups = append(kept, group{pc: w.pc + 1, mask: waiting})
			w.interrupt = true
		}
		f(need)
	}
}

// Variants of shfl.
const (
	shflUp uint8 = iota
	shflDown
	shflButterfly
	shflIndex
)

// shfl.sync.mode.b32 d{|p}, a, b, c, members.
func (b *builder) shfl(mods []string, args []operand) error {
	if len(mods) != 3 || mods[0] != "sync" || mods[2] != "b32" || len(args) != 5 {
		return b.this()
	}
	mode, ok := map[string]uint8{"up": shflUp, "down": shflDown, "bfly": shflButterfly, "idx": shflIndex}[mods[1]]
	if !ok {
		return b.this()
	}
	in := inst{kind: stepwise, step: stepShuffle, sub: mode, more: []int32{0, -1}}
	if args[0].pair != nil {
		in.more[1] = b.predicate(args[0].pair)
	}
	var err error
	for i, to := range []*int32{&in.a, &in.b, &in.c, &in.more[0]} {
		if *to, err = b.source(args[i+1], 32); err != nil {
			return err
		}
	}
	if in.d, err = b.target(args[0], 32); err != nil {
		return err
	}
	b.emit(in)
	return nil
}

func stepShuffle(w *warp, in *inst, m uint32) {
	w.together(in.more[0], m, func(lanes uint32) {
		from := *(*[32]uint32)(w.at(in.a))
		d, by, clamps := (*[32]uint32)(w.at(in.d)), (*[32]uint32)(w.at(in.b)), (*[32]uint32)(w.at(in.c))
		valid := uint32(0)
		var result [32]uint32
		for r := lanes; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r) & 31
			n, segment, clamp := int(by[l]&31), int(clamps[l]>>8&31), int(clamps[l]&31)
			last := l&segment | clamp&^segment
			j, good := l, false
			switch in.sub {
			case shflUp:
				j = l - n
				good = j >= last
			case shflDown:
				j = l + n
				good = j <= last
			case shflButterfly:
				j = l ^ n
				good = j <= last
			case shflIndex:
				j = l&segment | n&^segment
				good = j <= last
			}
			if !good {
				j = l
			} else {
				valid |= 1 << l
			}
			if lanes>>j&1 == 0 {
				w.fail(l, "shfl reads lane %d, which is not in the member mask or does not exist", j)
			}
			result[l] = from[j&31]
		}
		for r := lanes; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r) & 31
			d[l] = result[l]
		}
		if p := in.more[1]; p >= 0 {
			w.predicates[p] = w.predicates[p]&^lanes | valid
		}
	})
}

// Variants of vote.
const (
	voteBallot uint8 = iota
	voteAll
	voteAny
	voteUniform
)

// vote.sync.mode d, {!}a, members.
func (b *builder) vote(mods []string, args []operand) error {
	if len(mods) != 3 || mods[0] != "sync" || len(args) != 3 {
		return b.this()
	}
	mode, ok := map[string]uint8{"ballot": voteBallot, "all": voteAll, "any": voteAny, "uni": voteUniform}[mods[1]]
	if !ok || (mode == voteBallot) != (mods[2] == "b32") {
		return b.this()
	}
	in := inst{kind: stepwise, step: stepVote, sub: mode}
	if args[1].negated {
		in.mask = full
		args[1].negated = false
	}
	width := 1
	if mode == voteBallot {
		width = 32
	}
	var err error
	if in.a, err = b.source(args[1], 1); err != nil {
		return err
	}
	if in.b, err = b.source(args[2], 32); err != nil {
		return err
	}
	if args[0].kind != isRegister {
		return b.this()
	}
	if in.d, err = b.source(args[0], width); err != nil {
		return err
	}
	b.emit(in)
	return nil
}

func stepVote(w *warp, in *inst, m uint32) {
	w.together(in.b, m, func(lanes uint32) {
		ballot := (w.predicates[in.a] ^ in.mask) & lanes
		result := false
		switch in.sub {
		case voteBallot:
			d := (*[32]uint32)(w.at(in.d))
			for r := lanes; r != 0; r &= r - 1 {
				d[bits.TrailingZeros32(r)&31] = ballot
			}
			return
		case voteAll:
			result = ballot == lanes
		case voteAny:
			result = ballot != 0
		case voteUniform:
			result = ballot == 0 || ballot == lanes
		}
		w.setPredicate(in.d, lanes, result)
	})
}

func (w *warp) setPredicate(p int32, lanes uint32, v bool) {
	w.predicates[p] &^= lanes
	if v {
		w.predicates[p] |= lanes
	}
}

// activemask.b32 d: the lanes that run this together, which the language does not promise anything about.
func (b *builder) activemask(mods []string, args []operand) error {
	if len(mods) != 1 || mods[0] != "b32" || len(args) != 1 {
		return b.this()
	}
	d, err := b.target(args[0], 32)
	b.emit(inst{kind: stepwise, step: stepActive, d: d})
	return err
}

func stepActive(w *warp, in *inst, m uint32) {
	d := (*[32]uint32)(w.at(in.d))
	for r := m; r != 0; r &= r - 1 {
		d[bits.TrailingZeros32(r)&31] = m
	}
}

// match.any.sync and match.all.sync: the lanes with the same value.
func (b *builder) match(mods []string, args []operand) error {
	if len(mods) != 3 || mods[1] != "sync" || len(args) != 3 || mods[0] != "any" && mods[0] != "all" {
		return b.this()
	}
	width, _ := strconv.Atoi(mods[2][1:])
	if width != 32 && width != 64 {
		return b.this()
	}
	in := inst{kind: stepwise, step: stepMatch, wide: width == 64, more: []int32{-1}}
	if mods[0] == "all" {
		in.sub = 1
		if args[0].pair != nil {
			in.more[0] = b.predicate(args[0].pair)
		}
	}
	var err error
	if in.a, err = b.source(args[1], width); err != nil {
		return err
	}
	if in.b, err = b.source(args[2], 32); err != nil {
		return err
	}
	if in.d, err = b.target(args[0], 32); err != nil {
		return err
	}
	b.emit(in)
	return nil
}

func stepMatch(w *warp, in *inst, m uint32) {
	value := func(l int) uint64 {
		if in.wide {
			return (*[32]uint64)(w.at(in.a))[l]
		}
		return uint64((*[32]uint32)(w.at(in.a))[l])
	}
	w.together(in.b, m, func(lanes uint32) {
		var result [32]uint32
		for r := lanes; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r)
			for s := lanes; s != 0; s &= s - 1 {
				if o := bits.TrailingZeros32(s); value(o) == value(l) {
					result[l] |= 1 << o
				}
			}
		}
		d := (*[32]uint32)(w.at(in.d))
		all := result[bits.TrailingZeros32(lanes)] == lanes
		for r := lanes; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r)
			switch {
			case in.sub == 0:
				d[l] = result[l]
			case all:
				d[l] = lanes
			default:
				d[l] = 0
			}
		}
		if in.more[0] >= 0 {
			w.setPredicate(in.more[0], lanes, all)
		}
	})
}

// redux.sync.op.type d, a, members.
func (b *builder) redux(mods []string, args []operand) error {
	if len(mods) != 3 || mods[0] != "sync" || len(args) != 3 {
		return b.this()
	}
	f := combine32(mods[1], mods[2])
	if f == nil {
		return b.this()
	}
	in := inst{kind: stepwise}
	var err error
	if in.a, err = b.source(args[1], 32); err != nil {
		return err
	}
	if in.b, err = b.source(args[2], 32); err != nil {
		return err
	}
	if in.d, err = b.target(args[0], 32); err != nil {
		return err
	}
	in.step = func(w *warp, in *inst, m uint32) {
		w.together(in.b, m, func(lanes uint32) {
			a, d := (*[32]uint32)(w.at(in.a)), (*[32]uint32)(w.at(in.d))
			first := bits.TrailingZeros32(lanes)
			v := a[first]
			for r := lanes &^ (1 << first); r != 0; r &= r - 1 {
				v = f(v, a[bits.TrailingZeros32(r)])
			}
			for r := lanes; r != 0; r &= r - 1 {
				d[bits.TrailingZeros32(r)] = v
			}
		})
	}
	b.emit(in)
	return nil
}
