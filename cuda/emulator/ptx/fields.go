package ptx

import "unsafe"

// bfi.type d, a, b, position, length: the low bits of a in the place of some of b's.
func (b *builder) bfi(mods []string, args []operand) error {
	if len(mods) != 1 || mods[0] != "b32" && mods[0] != "b64" || len(args) != 5 {
		return b.this()
	}
	width := typeBits[mods[0]]
	if args[3].kind == isNumber && args[4].kind == isNumber { // nearly always
		p, l := uint32(args[3].integer), uint32(args[4].integer)
		if width == 32 {
			f := two(func(a, b uint32) uint32 { return insertField(a, b, p, l) })
			return b.lanewise(laneOp{f, w32}, args[:3])
		}
		f := two(func(a, b uint64) uint64 { return insertField(a, b, p, l) })
		return b.lanewise(laneOp{f, w64}, args[:3])
	}
	// both numbers in one register, so that the instruction has three operands
	both := operand{kind: isRegister, reg: b.temporary(32)}
	pack := two(func(p, l uint32) uint32 { return p&255 | l&255<<8 })
	if err := b.lanewise(laneOp{pack, w32}, []operand{both, args[3], args[4]}); err != nil {
		return err
	}
	args = append(args[:3:3], both)
	if width == 32 {
		f := three(func(a, b, at uint32) uint32 { return insertField(a, b, at&255, at>>8) })
		return b.lanewise(laneOp{f, w32x4}, args)
	}
	f := three(func(a, b uint64, at uint32) uint64 { return insertField(a, b, at&255, at>>8) })
	return b.lanewise(laneOp{f, []int{64, 64, 64, 32}}, args)
}

// lop3.b32 d, a, b, c, table.
func (b *builder) lop3(mods []string, args []operand) error {
	if len(mods) != 1 || mods[0] != "b32" || len(args) != 5 || args[4].kind != isNumber || args[4].integer > 255 {
		return b.this()
	}
	table := uint8(args[4].integer)
	f := func(d, a, b, c unsafe.Pointer) {
		D, A, B, C := (*[32]uint32)(d), (*[32]uint32)(a), (*[32]uint32)(b), (*[32]uint32)(c)
		for i := range D {
			D[i] = lop3(A[i], B[i], C[i], table)
		}
	}
	return b.lanewise(laneOp{f, w32x4}, args[:4])
}
