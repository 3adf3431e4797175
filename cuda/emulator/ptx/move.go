package ptx

import (
	"strings"
	"unsafe"
)

// mov moves, takes the address of a variable, and packs and unpacks vectors.
func (b *builder) mov(mods []string, args []operand) error {
	if len(mods) != 1 || len(args) != 2 {
		return b.this()
	}
	width := typeBits[mods[0]]
	if width == 0 {
		return b.this()
	}
	to, from := args[0], args[1]
	switch {
	case width == 1:
		if to.kind == isRegister && to.reg.bits == 1 && from.kind == isRegister && from.reg.bits == 1 && !from.negated {
			b.predicateOp("mov", to.reg, from, from)
			return nil
		}
		if to.kind == isRegister && to.reg.bits == 1 && from.kind == isNumber {
			b.emit(inst{kind: stepwise, step: stepSetPredicate, d: b.predicate(to.reg), sub: uint8(flag(from.integer != 0))})
			return nil
		}
		return b.this()
	case from.kind == isSpecial && (strings.HasPrefix(from.text, "%clock") || strings.HasPrefix(from.text, "%globaltimer")):
		d, err := b.target(to, width)
		if err != nil {
			return err
		}
		in := inst{kind: stepwise, step: stepClock, d: d, wide: width == 64}
		if from.text == "%globaltimer" {
			in.sub = 1
		}
		b.emit(in)
		return nil
	case from.kind == isVector:
		return b.pack(to, from.elements, width)
	case to.kind == isVector:
		return b.unpack(to.elements, from, width)
	}
	f := laneFunc(copyLanes[uint32])
	if width == 64 {
		f = copyLanes[uint64]
	}
	return b.lanewise(laneOp{f, []int{width, width}}, args)
}

func pack16(d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]uint32)(d), (*[32]uint32)(a), (*[32]uint32)(b)
	for i := range D {
		D[i] = A[i]&0xffff | B[i]<<16
	}
}

func pack32(d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]uint64)(d), (*[32]uint32)(a), (*[32]uint32)(b)
	for i := range D {
		D[i] = uint64(A[i]) | uint64(B[i])<<32
	}
}

func (b *builder) pack(to operand, parts []operand, width int) error {
	switch {
	case len(parts) == 2 && width == 32:
		return b.lanewise(laneOp{pack16, wide16}, []operand{to, parts[0], parts[1]})
	case len(parts) == 2 && width == 64:
		return b.lanewise(laneOp{pack32, wide32}, []operand{to, parts[0], parts[1]})
	case len(parts) == 4 && width == 64:
		low := operand{kind: isRegister, reg: b.temporary(32)}
		high := operand{kind: isRegister, reg: b.temporary(32)}
		if err := b.pack(low, parts[:2], 32); err != nil {
			return err
		}
		if err := b.pack(high, parts[2:], 32); err != nil {
			return err
		}
		return b.pack(to, []operand{low, high}, 64)
	}
	return b.this()
}

func (b *builder) unpack(parts []operand, from operand, width int) error {
	each := 0
	if n := len(parts); n == 2 || n == 4 && width == 64 {
		each = width / n
	}
	if each != 16 && each != 32 {
		return b.this()
	}
	for i, p := range parts {
		if p.kind == isSink {
			continue
		}
		shift := i * each
		var f laneFunc
		switch {
		case width == 32:
			f = func(d, a, _, _ unsafe.Pointer) {
				D, A := (*[32]uint32)(d), (*[32]uint32)(a)
				for i := range D {
					D[i] = A[i] >> (shift & 31)
				}
			}
		default:
			f = func(d, a, _, _ unsafe.Pointer) {
				D, A := (*[32]uint32)(d), (*[32]uint64)(a)
				for i := range D {
					D[i] = uint32(A[i] >> (shift & 63))
				}
			}
		}
		if err := b.lanewise(laneOp{f, []int{each, width}}, []operand{p, from}); err != nil {
			return err
		}
	}
	return nil
}

// cvta goes between a state space and the generic one. Global addresses are the same in both.
func (b *builder) cvta(mods []string, args []operand) error {
	if len(mods) < 2 || len(args) != 2 {
		return b.this()
	}
	width := typeBits[mods[len(mods)-1]]
	if width != 64 {
		return b.this()
	}
	back := mods[0] == "to"
	if back {
		mods = mods[1:]
	}
	sp, ok := spaces[mods[0]]
	if !ok || len(mods) != 2 {
		return b.this()
	}
	window := windows[sp]
	f := laneFunc(copyLanes[uint64])
	switch {
	case window != 0 && back:
		f = one(func(a uint64) uint64 { return a - window })
	case window != 0:
		f = one(func(a uint64) uint64 { return a + window })
	}
	return b.lanewise(laneOp{f, w64x2}, args)
}

var spaces = map[string]space{"global": global, "shared": shared, "local": local, "const": constants, "param": params,
	"shared::cta": shared}

// isspacep asks whether a generic address is in a space.
func (b *builder) isspacep(mods []string, args []operand) error {
	if len(mods) != 1 || len(args) != 2 || args[0].kind != isRegister || args[0].reg.bits != 1 {
		return b.this()
	}
	sp, ok := spaces[mods[0]]
	if !ok {
		return b.this()
	}
	f := func(a, _ unsafe.Pointer) (m uint32) {
		for i, v := range (*[32]uint64)(a) {
			m |= flag(spaceOf(v) == sp) << i
		}
		return m
	}
	in := inst{kind: compares, compare: f, d: b.predicate(args[0].reg)}
	var err error
	if in.a, err = b.source(args[1], 64); err != nil {
		return err
	}
	b.emit(in)
	return nil
}

// spaceOf tells a generic address's space.
func spaceOf(address uint64) space {
	switch address >> 56 << 56 {
	case sharedWindow:
		return shared
	case localWindow:
		return local
	case constantWindow:
		return constants
	case paramWindow:
		return params
	}
	return global
}

// specialBits is the width of a special register.
func specialBits(name string) (int, bool) {
	switch name {
	case "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z",
		"%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid",
		"%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge", "%clock", "%clock_hi",
		"%dynamic_smem_size", "%total_smem_size":
		return 32, true
	case "%clock64", "%globaltimer", "%gridid":
		return 64, true
	}
	return 0, false
}

// special is a special register as an operand. Those that are the same for the whole run of a block lie in the register file.
func (b *builder) special(o operand, width int) (int32, error) {
	if bits, _ := specialBits(o.text); bits != width || strings.HasPrefix(o.text, "%clock") || o.text == "%globaltimer" {
		return 0, b.errorf("%s cannot be read as %d bits", o.text, width)
	}
	if slot, ok := b.specials[o.text]; ok {
		return slot, nil
	}
	slot := b.below(width)
	b.specials[o.text] = slot
	b.k.specials = append(b.k.specials, special{slot, o.text})
	return slot, nil
}

func stepSetPredicate(w *warp, in *inst, m uint32) { w.setPredicate(in.d, m, in.sub == 1) }
