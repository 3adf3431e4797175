package ptx

import (
	"math/bits"
)

// laneOps are the lanewise instructions by their full names.
var laneOps = func() map[string]laneOp {
	t := map[string]laneOp{}
	integerOps(t)
	floatOps(t)
	return t
}()

// put enters one function under several names.
func put(t map[string]laneOp, f laneFunc, widths []int, names ...string) {
	for _, n := range names {
		t[n] = laneOp{f, widths}
	}
}

var (
	w16, w32, w64        = []int{16, 16, 16}, []int{32, 32, 32}, []int{64, 64, 64}
	w16x4, w32x4, w64x4  = []int{16, 16, 16, 16}, []int{32, 32, 32, 32}, []int{64, 64, 64, 64}
	w16x2, w32x2, w64x2  = []int{16, 16}, []int{32, 32}, []int{64, 64}
	wide16, wide32       = []int{32, 16, 16}, []int{64, 32, 32}
	madWide16, madWide32 = []int{32, 16, 16, 32}, []int{64, 32, 32, 64}
	shift16, shift64     = []int{16, 16, 32}, []int{64, 64, 32}
	field64, count64     = []int{64, 64, 32, 32}, []int{32, 64}
)

func integerOps(t map[string]laneOp) {
	put(t, add[uint16, uint32], w16, "add.u16", "add.s16")
	put(t, add[uint32, uint32], w32, "add.u32", "add.s32")
	put(t, add[uint64, uint64], w64, "add.u64", "add.s64")
	put(t, sub[uint16, uint32], w16, "sub.u16", "sub.s16")
	put(t, sub[uint32, uint32], w32, "sub.u32", "sub.s32")
	put(t, sub[uint64, uint64], w64, "sub.u64", "sub.s64")
	put(t, mul[uint16, uint32], w16, "mul.lo.u16", "mul.lo.s16")
	put(t, mul[uint32, uint32], w32, "mul.lo.u32", "mul.lo.s32")
	put(t, mul[uint64, uint64], w64, "mul.lo.u64", "mul.lo.s64")
	put(t, mulWide[uint16, uint32, uint32, uint32], wide16, "mul.wide.u16")
	put(t, mulWide[int16, int32, uint32, uint32], wide16, "mul.wide.s16")
	put(t, mulWide[uint32, uint64, uint32, uint64], wide32, "mul.wide.u32")
	put(t, mulWide[int32, int64, uint32, uint64], wide32, "mul.wide.s32")
	put(t, mulHigh[uint16, uint32, uint32](16), w16, "mul.hi.u16")
	put(t, mulHigh[int16, int32, uint32](16), w16, "mul.hi.s16")
	put(t, mulHigh[uint32, uint64, uint32](32), w32, "mul.hi.u32")
	put(t, mulHigh[int32, int64, uint32](32), w32, "mul.hi.s32")
	put(t, two(mulHighU64), w64, "mul.hi.u64")
	put(t, two(mulHighS64), w64, "mul.hi.s64")
	put(t, mad[uint16, uint32], w16x4, "mad.lo.u16", "mad.lo.s16")
	put(t, mad[uint32, uint32], w32x4, "mad.lo.u32", "mad.lo.s32")
	put(t, mad[uint64, uint64], w64x4, "mad.lo.u64", "mad.lo.s64")
	put(t, madWide[uint16, uint32, uint32, uint32], madWide16, "mad.wide.u16")
	put(t, madWide[int16, int32, uint32, uint32], madWide16, "mad.wide.s16")
	put(t, madWide[uint32, uint64, uint32, uint64], madWide32, "mad.wide.u32")
	put(t, madWide[int32, int64, uint32, uint64], madWide32, "mad.wide.s32")
	put(t, three(func(a, b, c uint32) uint32 { return uint32(uint64(a)*uint64(b)>>32) + c }), w32x4, "mad.hi.u32")
	put(t, three(func(a, b, c uint32) uint32 { return uint32(int64(int32(a))*int64(int32(b))>>32) + c }), w32x4, "mad.hi.s32")
	put(t, three(func(a, b, c uint64) uint64 { return mulHighU64(a, b) + c }), w64x4, "mad.hi.u64")
	put(t, three(func(a, b, c uint64) uint64 { return mulHighS64(a, b) + c }), w64x4, "mad.hi.s64")

	put(t, minimum[uint16, uint32], w16, "min.u16")
	put(t, minimum[int16, uint32], w16, "min.s16")
	put(t, minimum[uint32, uint32], w32, "min.u32")
	put(t, minimum[int32, uint32], w32, "min.s32")
	put(t, minimum[uint64, uint64], w64, "min.u64")
	put(t, minimum[int64, uint64], w64, "min.s64")
	put(t, maximum[uint16, uint32], w16, "max.u16")
	put(t, maximum[int16, uint32], w16, "max.s16")
	put(t, maximum[uint32, uint32], w32, "max.u32")
	put(t, maximum[int32, uint32], w32, "max.s32")
	put(t, maximum[uint64, uint64], w64, "max.u64")
	put(t, maximum[int64, uint64], w64, "max.s64")
	put(t, one(abs[int16, uint32]), w16x2, "abs.s16")
	put(t, one(abs[int32, uint32]), w32x2, "abs.s32")
	put(t, one(abs[int64, uint64]), w64x2, "abs.s64")
	put(t, one(func(a uint32) uint32 { return -a }), w16x2, "neg.s16")
	put(t, one(func(a uint32) uint32 { return -a }), w32x2, "neg.s32")
	put(t, one(func(a uint64) uint64 { return -a }), w64x2, "neg.s64")

	put(t, shl[uint16, uint32], shift16, "shl.b16")
	put(t, shl[uint32, uint32], w32, "shl.b32")
	put(t, shl[uint64, uint64], shift64, "shl.b64")
	put(t, shr[uint16, uint32], shift16, "shr.u16", "shr.b16")
	put(t, shr[int16, uint32], shift16, "shr.s16")
	put(t, shr[uint32, uint32], w32, "shr.u32", "shr.b32")
	put(t, shr[int32, uint32], w32, "shr.s32")
	put(t, shr[uint64, uint64], shift64, "shr.u64", "shr.b64")
	put(t, shr[int64, uint64], shift64, "shr.s64")
	funnel := func(left, wrap bool) laneFunc {
		return three(func(a, b, n uint32) uint32 {
			if wrap {
				n &= 31
			} else {
				n = min(n, 32)
			}
			both := uint64(b)<<32 | uint64(a)
			if left {
				return uint32(both << n >> 32)
			}
			return uint32(both >> n)
		})
	}
	put(t, funnel(true, true), w32x4, "shf.l.wrap.b32")
	put(t, funnel(true, false), w32x4, "shf.l.clamp.b32")
	put(t, funnel(false, true), w32x4, "shf.r.wrap.b32")
	put(t, funnel(false, false), w32x4, "shf.r.clamp.b32")

	put(t, and[uint32], w16, "and.b16")
	put(t, and[uint32], w32, "and.b32")
	put(t, and[uint64], w64, "and.b64")
	put(t, or[uint32], w16, "or.b16")
	put(t, or[uint32], w32, "or.b32")
	put(t, or[uint64], w64, "or.b64")
	put(t, xor[uint32], w16, "xor.b16")
	put(t, xor[uint32], w32, "xor.b32")
	put(t, xor[uint64], w64, "xor.b64")
	put(t, one(func(a uint32) uint32 { return ^a }), w16x2, "not.b16")
	put(t, one(func(a uint32) uint32 { return ^a }), w32x2, "not.b32")
	put(t, one(func(a uint64) uint64 { return ^a }), w64x2, "not.b64")
	put(t, one(func(a uint32) uint32 { return flag(uint16(a) == 0) }), w16x2, "cnot.b16")
	put(t, one(func(a uint32) uint32 { return flag(a == 0) }), w32x2, "cnot.b32")
	put(t, one(func(a uint64) uint64 { return uint64(flag(a == 0)) }), w64x2, "cnot.b64")

	put(t, one(func(a uint32) uint32 { return uint32(bits.OnesCount32(a)) }), w32x2, "popc.b32")
	put(t, one(func(a uint64) uint32 { return uint32(bits.OnesCount64(a)) }), count64, "popc.b64")
	put(t, one(func(a uint32) uint32 { return uint32(bits.LeadingZeros32(a)) }), w32x2, "clz.b32")
	put(t, one(func(a uint64) uint32 { return uint32(bits.LeadingZeros64(a)) }), count64, "clz.b64")
	put(t, one(bits.Reverse32), w32x2, "brev.b32")
	put(t, one(bits.Reverse64), w64x2, "brev.b64")
	for _, shift := range []bool{false, true} {
		name := "bfind."
		if shift {
			name = "bfind.shiftamt."
		}
		put(t, one(func(a uint32) uint32 { return highestBit(uint64(a), 32, false, shift) }), w32x2, name+"u32")
		put(t, one(func(a uint32) uint32 { return highestBit(uint64(a), 32, true, shift) }), w32x2, name+"s32")
		put(t, one(func(a uint64) uint32 { return highestBit(a, 64, false, shift) }), count64, name+"u64")
		put(t, one(func(a uint64) uint32 { return highestBit(a, 64, true, shift) }), count64, name+"s64")
	}
	put(t, three(unsignedField32), w32x4, "bfe.u32")
	put(t, three(func(a, p, l uint32) uint32 { return uint32(bitField(uint64(a), p, l, 32, true)) }), w32x4, "bfe.s32")
	put(t, three(func(a uint64, p, l uint32) uint64 { return bitField(a, p, l, 64, false) }), field64, "bfe.u64")
	put(t, three(func(a uint64, p, l uint32) uint64 { return bitField(a, p, l, 64, true) }), field64, "bfe.s64")
	for _, mode := range []string{"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"} {
		name := "prmt.b32"
		if mode != "" {
			name += "." + mode
		}
		put(t, three(func(a, b, s uint32) uint32 { return permute(a, b, s, mode) }), w32x4, name)
	}
	put(t, three(func(a, b, c uint32) uint32 {
		return max(a, b) - min(a, b) + c
	}), w32x4, "sad.u32")
	put(t, three(func(a, b, c uint32) uint32 {
		return uint32(max(int32(a), int32(b))-min(int32(a), int32(b))) + c
	}), w32x4, "sad.s32")
	put(t, three(func(a, b, c uint32) uint32 {
		for i := 0; i < 32; i += 8 {
			c += (a >> i & 255) * (b >> i & 255)
		}
		return c
	}), w32x4, "dp4a.u32.u32")
	put(t, three(func(a, b, c uint32) uint32 {
		for i := 0; i < 32; i += 8 {
			c += uint32(int32(int8(a>>i)) * int32(int8(b>>i)))
		}
		return c
	}), w32x4, "dp4a.s32.s32")
	put(t, two(func(a, b uint32) uint32 {
		return uint32(max(min(int64(int32(a))+int64(int32(b)), 1<<31-1), -1<<31))
	}), w32, "add.sat.s32")
	put(t, two(func(a, b uint32) uint32 {
		return uint32(max(min(int64(int32(a))-int64(int32(b)), 1<<31-1), -1<<31))
	}), w32, "sub.sat.s32")
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
