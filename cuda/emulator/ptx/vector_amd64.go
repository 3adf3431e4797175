package ptx

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

var vectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA

//go:noescape
func vectorTile(t *tile, depth int)

func (t *tile) multiply(depth int) {
	if vectors {
		vectorTile(t, depth)
		return
	}
	t.multiplyPlain(depth)
}

//go:noescape
func vectorAddresses(where *[32]uint32, base unsafe.Pointer, offset, mask, last uint64) bool

// addAddresses adds an offset to 32 addresses. It says whether no bit of the mask is set in one, and none is above last. The
// upper half of the 64-bit space, with the windows of other spaces, is above last.
func addAddresses(where *[32]uint32, base unsafe.Pointer, offset, mask, last uint64) bool {
	return vectors && vectorAddresses(where, base, offset, mask, last)
}

//go:noescape
func vectorLessFloat(a, b unsafe.Pointer) uint32

//go:noescape
func vectorLessEqualFloat(a, b unsafe.Pointer) uint32

//go:noescape
func vectorEqualFloat(a, b unsafe.Pointer) uint32

//go:noescape
func vectorLessS32(a, b unsafe.Pointer) uint32

//go:noescape
func vectorLessEqualS32(a, b unsafe.Pointer) uint32

//go:noescape
func vectorAddFloat(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorSubFloat(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorMulFloat(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorDivFloat(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorAdd32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorSub32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorMul32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorAnd32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorOr32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorXor32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorShl32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorShrU32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorShrS32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorMinS32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorMaxS32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorMinU32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorMaxU32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorAdd64(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorSub64(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorAnd64(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorOr64(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorXor64(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorWidenU32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorWidenS32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorMulWideU32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorMulWideS32(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorShl64(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorShrU64(d, a, b, c unsafe.Pointer)

//go:noescape
func vectorFMA(d, a, b, c unsafe.Pointer)

// accelerate replaces the functions of common instructions by vector instructions, which give the same.
func accelerate() {
	if !vectors {
		return
	}
	for name, f := range map[string]laneFunc{
		"add.f32": vectorAddFloat, "add.rn.f32": vectorAddFloat,
		"sub.f32": vectorSubFloat, "sub.rn.f32": vectorSubFloat,
		"mul.f32": vectorMulFloat, "mul.rn.f32": vectorMulFloat,
		"div.rn.f32": vectorDivFloat, "div.full.f32": vectorDivFloat, "div.approx.f32": vectorDivFloat,
		"fma.rn.f32": vectorFMA, "mad.rn.f32": vectorFMA,
		"add.u32": vectorAdd32, "add.s32": vectorAdd32,
		"sub.u32": vectorSub32, "sub.s32": vectorSub32,
		"mul.lo.u32": vectorMul32, "mul.lo.s32": vectorMul32,
		"and.b16": vectorAnd32, "and.b32": vectorAnd32,
		"or.b16": vectorOr32, "or.b32": vectorOr32,
		"xor.b16": vectorXor32, "xor.b32": vectorXor32,
		"shl.b32": vectorShl32,
		"shr.u32": vectorShrU32, "shr.b32": vectorShrU32,
		"shr.s32": vectorShrS32,
		"min.s32": vectorMinS32,
		"max.s32": vectorMaxS32,
		"min.u32": vectorMinU32,
		"max.u32": vectorMaxU32,
		"add.u64": vectorAdd64, "add.s64": vectorAdd64,
		"sub.u64": vectorSub64, "sub.s64": vectorSub64,
		"and.b64":      vectorAnd64,
		"or.b64":       vectorOr64,
		"xor.b64":      vectorXor64,
		"mul.wide.u32": vectorMulWideU32,
		"mul.wide.s32": vectorMulWideS32,
		"shl.b64":      vectorShl64,
		"shr.u64":      vectorShrU64, "shr.b64": vectorShrU64,
	} {
		laneOps[name] = laneOp{f, laneOps[name].widths}
	}
	for _, to := range []string{"u64", "s64"} {
		quick[to+".u32"], quick[to+".s32"] = vectorWidenU32, vectorWidenS32
	}
	relations["f32"] = [3]compareFunc{vectorEqualFloat, vectorLessFloat, vectorLessEqualFloat}
	relations["s32"] = [3]compareFunc{relations["s32"][0], vectorLessS32, vectorLessEqualS32}
}
