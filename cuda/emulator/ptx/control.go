package ptx

import (
	"math/bits"
	"time"
)

func (b *builder) bra(mods []string, args []operand) error {
	if len(args) != 1 || args[0].kind != isLabel || len(mods) > 1 || len(mods) == 1 && mods[0] != "uni" {
		return b.this()
	}
	b.emit(inst{kind: branches})
	b.fixups = append(b.fixups, fixup{len(b.k.code) - 1, args[0].text, -1, b.at.number})
	return nil
}

// brx.idx a, table: the table is a label with .branchtargets.
func (b *builder) brx(mods []string, args []operand) error {
	if len(mods) < 1 || mods[0] != "idx" || len(args) != 2 || args[1].kind != isLabel {
		return b.this()
	}
	labels, ok := b.tables[args[1].text]
	if !ok {
		return b.errorf("there are no .branchtargets at %s before it is used", args[1].text)
	}
	in := inst{kind: stepwise, step: stepTable, more: make([]int32, len(labels))}
	var err error
	if in.a, err = b.source(args[0], 32); err != nil {
		return err
	}
	b.emit(in)
	for i, l := range labels {
		b.fixups = append(b.fixups, fixup{len(b.k.code) - 1, l, i, b.at.number})
	}
	return nil
}

func stepTable(w *warp, in *inst, m uint32) {
	index := (*[32]uint32)(w.at(in.a))
	for r := m; r != 0; r &= r - 1 {
		l := bits.TrailingZeros32(r)
		if int(index[l]) >= len(in.more) {
			w.fail(l, "entry %d of a table of %d", index[l], len(in.more))
		}
		w.suspend(in.more[index[l]], 1<<l)
	}
	w.active &^= m
	w.interrupt = true
}

func (b *builder) ret(mods []string, args []operand) error {
	if len(args) != 0 || len(mods) > 1 || len(mods) == 1 && mods[0] != "uni" {
		return b.this()
	}
	b.emit(inst{kind: exits})
	return nil
}

func (b *builder) trap(mods []string, args []operand) error {
	b.emit(inst{kind: stepwise, step: func(w *warp, _ *inst, m uint32) { w.fail(bits.TrailingZeros32(m), "trap") }})
	return nil
}

// nothing is for instructions without an effect that can be seen.
func (b *builder) nothing(mods []string, args []operand) error { return nil }

// membar.level and fence{.sem}.scope. Inside a block they do not order accesses to shared memory without a barrier, as far as the
// shadow is concerned; the Memory learns of wider ones.
func (b *builder) fence(mods []string, args []operand) error {
	if len(mods) == 0 || len(args) != 0 {
		return b.this()
	}
	in := inst{kind: stepwise, step: stepFence}
	switch mods[len(mods)-1] {
	case "cta":
		in.sub = 1
	case "gl", "sys", "gpu":
	default:
		return b.this()
	}
	b.emit(in)
	return nil
}

func stepFence(w *warp, in *inst, m uint32) {
	if in.sub == 0 {
		w.block.c.Memory.Fence(w.block.index)
	}
}

// divide is div and rem of integers.
func (b *builder) divide(mods []string, args []operand) error {
	if len(mods) != 1 || len(args) != 3 {
		return b.this()
	}
	root := b.root()
	var step stepFunc
	rem := root == "rem"
	switch mods[0] {
	case "u16":
		step = stepDivide[uint16, uint32](rem)
	case "s16":
		step = stepDivide[int16, uint32](rem)
	case "u32":
		step = stepDivide[uint32, uint32](rem)
	case "s32":
		step = stepDivide[int32, uint32](rem)
	case "u64":
		step = stepDivide[uint64, uint64](rem)
	case "s64":
		step = stepDivide[int64, uint64](rem)
	default:
		return b.this()
	}
	width := typeBits[mods[0]]
	in := inst{kind: stepwise, step: step}
	var err error
	if in.a, err = b.source(args[1], width); err != nil {
		return err
	}
	if in.b, err = b.source(args[2], width); err != nil {
		return err
	}
	if in.d, err = b.target(args[0], width); err != nil {
		return err
	}
	b.emit(in)
	return nil
}

func stepDivide[T integer, S uint32 | uint64](rem bool) stepFunc {
	return func(w *warp, in *inst, m uint32) {
		d, x, y := (*[32]S)(w.at(in.d)), (*[32]S)(w.at(in.a)), (*[32]S)(w.at(in.b))
		for r := m; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r) & 31
			switch by := T(y[l]); {
			case by == 0:
				w.fail(l, "integer division by zero")
			case rem:
				d[l] = S(T(x[l]) % by)
			default:
				d[l] = S(T(x[l]) / by)
			}
		}
	}
}

// stepClock: a warp's clock counts its instructions; the global timer is real.
func stepClock(w *warp, in *inst, m uint32) {
	now := uint64(w.steps)
	if in.sub == 1 {
		now = uint64(time.Now().UnixNano())
	}
	for r := m; r != 0; r &= r - 1 {
		l := bits.TrailingZeros32(r) & 31
		if in.wide {
			(*[32]uint64)(w.at(in.d))[l] = now
		} else {
			(*[32]uint32)(w.at(in.d))[l] = uint32(now)
		}
	}
}
