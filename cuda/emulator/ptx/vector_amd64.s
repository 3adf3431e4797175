#include "textflag.h"

// Each function computes 32 lanes: func(d, a, b, c unsafe.Pointer). A register of the interpreter is 128 bytes, four vectors of
// eight lanes, or 256 bytes, eight vectors of four.

#define OPERANDS \
	MOVQ d+0(FP), DI  \
	MOVQ a+8(FP), SI  \
	MOVQ b+16(FP), DX

#define TWO32(OP) \
	OPERANDS             \
	VMOVUPS (SI), Y0     \
	VMOVUPS 32(SI), Y1   \
	VMOVUPS 64(SI), Y2   \
	VMOVUPS 96(SI), Y3   \
	OP      (DX), Y0, Y0   \
	OP      32(DX), Y1, Y1 \
	OP      64(DX), Y2, Y2 \
	OP      96(DX), Y3, Y3 \
	VMOVUPS Y0, (DI)     \
	VMOVUPS Y1, 32(DI)   \
	VMOVUPS Y2, 64(DI)   \
	VMOVUPS Y3, 96(DI)   \
	VZEROUPPER           \
	RET

#define PAIR64(OP, at) \
	VMOVDQU at(SI), Y0     \
	VMOVDQU at+32(SI), Y1  \
	OP      at(DX), Y0, Y0    \
	OP      at+32(DX), Y1, Y1 \
	VMOVDQU Y0, at(DI)     \
	VMOVDQU Y1, at+32(DI)

#define TWO64(OP) \
	OPERANDS        \
	PAIR64(OP, 0)   \
	PAIR64(OP, 64)  \
	PAIR64(OP, 128) \
	PAIR64(OP, 192) \
	VZEROUPPER      \
	RET

// Operands of 64 bits made of 32 come in pieces of four lanes: wide is the place of the result, narrow of the words.
#define WIDEN1(EXTEND, narrow, wide) \
	EXTEND  narrow(SI), Y0 \
	VMOVDQU Y0, wide(DI)

#define WIDEN(EXTEND) \
	OPERANDS                \
	WIDEN1(EXTEND, 112, 224) \
	WIDEN1(EXTEND, 96, 192)  \
	WIDEN1(EXTEND, 80, 160)  \
	WIDEN1(EXTEND, 64, 128)  \
	WIDEN1(EXTEND, 48, 96)   \
	WIDEN1(EXTEND, 32, 64)   \
	WIDEN1(EXTEND, 16, 32)   \
	WIDEN1(EXTEND, 0, 0)     \
	VZEROUPPER              \
	RET

#define MULWIDE1(EXTEND, MULTIPLY, narrow, wide) \
	EXTEND   narrow(SI), Y0 \
	EXTEND   narrow(DX), Y1 \
	MULTIPLY Y1, Y0, Y0     \
	VMOVDQU  Y0, wide(DI)

#define MULWIDE(EXTEND, MULTIPLY) \
	OPERANDS                              \
	MULWIDE1(EXTEND, MULTIPLY, 0, 0)      \
	MULWIDE1(EXTEND, MULTIPLY, 16, 32)    \
	MULWIDE1(EXTEND, MULTIPLY, 32, 64)    \
	MULWIDE1(EXTEND, MULTIPLY, 48, 96)    \
	MULWIDE1(EXTEND, MULTIPLY, 64, 128)   \
	MULWIDE1(EXTEND, MULTIPLY, 80, 160)   \
	MULWIDE1(EXTEND, MULTIPLY, 96, 192)   \
	MULWIDE1(EXTEND, MULTIPLY, 112, 224)  \
	VZEROUPPER                            \
	RET

#define SHIFT1(OP, narrow, wide) \
	VPMOVZXDQ narrow(DX), Y1   \
	VMOVDQU   wide(SI), Y0     \
	OP        Y1, Y0, Y0       \
	VMOVDQU   Y0, wide(DI)

#define SHIFT64(OP) \
	OPERANDS              \
	SHIFT1(OP, 0, 0)      \
	SHIFT1(OP, 16, 32)    \
	SHIFT1(OP, 32, 64)    \
	SHIFT1(OP, 48, 96)    \
	SHIFT1(OP, 64, 128)   \
	SHIFT1(OP, 80, 160)   \
	SHIFT1(OP, 96, 192)   \
	SHIFT1(OP, 112, 224)  \
	VZEROUPPER            \
	RET

// Comparisons: func(a, b unsafe.Pointer) uint32, a bit a lane.
#define COMPARE1(at, first, second) \
	VMOVDQU  at(first), Y0     \
	VMOVDQU  at(second), Y1    \
	VPCMPGTD Y1, Y0, Y0        \
	VMOVMSKPS Y0, AX           \
	SHLQ     $at/4, AX         \
	ORQ      AX, BX

#define FLOAT1(predicate, at) \
	VMOVUPS  at(SI), Y0              \
	VCMPPS   $predicate, at(DX), Y0, Y0 \
	VMOVMSKPS Y0, AX                 \
	SHLQ     $at/4, AX               \
	ORQ      AX, BX

#define ARGUMENTS \
	MOVQ a+0(FP), SI \
	MOVQ b+8(FP), DX \
	XORL BX, BX

#define FLOAT(predicate) \
	ARGUMENTS              \
	FLOAT1(predicate, 0)   \
	FLOAT1(predicate, 32)  \
	FLOAT1(predicate, 64)  \
	FLOAT1(predicate, 96)  \
	VZEROUPPER             \
	MOVL BX, ret+16(FP)    \
	RET

TEXT ·vectorAddFloat(SB), NOSPLIT, $0-32
	TWO32(VADDPS)

TEXT ·vectorSubFloat(SB), NOSPLIT, $0-32
	TWO32(VSUBPS)

TEXT ·vectorMulFloat(SB), NOSPLIT, $0-32
	TWO32(VMULPS)

TEXT ·vectorDivFloat(SB), NOSPLIT, $0-32
	TWO32(VDIVPS)

TEXT ·vectorAdd32(SB), NOSPLIT, $0-32
	TWO32(VPADDD)

TEXT ·vectorSub32(SB), NOSPLIT, $0-32
	TWO32(VPSUBD)

TEXT ·vectorMul32(SB), NOSPLIT, $0-32
	TWO32(VPMULLD)

TEXT ·vectorAnd32(SB), NOSPLIT, $0-32
	TWO32(VPAND)

TEXT ·vectorOr32(SB), NOSPLIT, $0-32
	TWO32(VPOR)

TEXT ·vectorXor32(SB), NOSPLIT, $0-32
	TWO32(VPXOR)

TEXT ·vectorShl32(SB), NOSPLIT, $0-32
	TWO32(VPSLLVD)

TEXT ·vectorShrU32(SB), NOSPLIT, $0-32
	TWO32(VPSRLVD)

TEXT ·vectorShrS32(SB), NOSPLIT, $0-32
	TWO32(VPSRAVD)

TEXT ·vectorMinS32(SB), NOSPLIT, $0-32
	TWO32(VPMINSD)

TEXT ·vectorMaxS32(SB), NOSPLIT, $0-32
	TWO32(VPMAXSD)

TEXT ·vectorMinU32(SB), NOSPLIT, $0-32
	TWO32(VPMINUD)

TEXT ·vectorMaxU32(SB), NOSPLIT, $0-32
	TWO32(VPMAXUD)

TEXT ·vectorAdd64(SB), NOSPLIT, $0-32
	TWO64(VPADDQ)

TEXT ·vectorSub64(SB), NOSPLIT, $0-32
	TWO64(VPSUBQ)

TEXT ·vectorAnd64(SB), NOSPLIT, $0-32
	TWO64(VPAND)

TEXT ·vectorOr64(SB), NOSPLIT, $0-32
	TWO64(VPOR)

TEXT ·vectorXor64(SB), NOSPLIT, $0-32
	TWO64(VPXOR)

TEXT ·vectorWidenU32(SB), NOSPLIT, $0-32
	WIDEN(VPMOVZXDQ)

TEXT ·vectorWidenS32(SB), NOSPLIT, $0-32
	WIDEN(VPMOVSXDQ)

TEXT ·vectorMulWideU32(SB), NOSPLIT, $0-32
	MULWIDE(VPMOVZXDQ, VPMULUDQ)

TEXT ·vectorMulWideS32(SB), NOSPLIT, $0-32
	MULWIDE(VPMOVSXDQ, VPMULDQ)

TEXT ·vectorShl64(SB), NOSPLIT, $0-32
	SHIFT64(VPSLLVQ)

TEXT ·vectorShrU64(SB), NOSPLIT, $0-32
	SHIFT64(VPSRLVQ)

// func vectorFMA(d, a, b, c unsafe.Pointer)
TEXT ·vectorFMA(SB), NOSPLIT, $0-32
	OPERANDS
	MOVQ c+24(FP), CX
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS 64(SI), Y2
	VMOVUPS 96(SI), Y3
	VMOVUPS (DX), Y4
	VMOVUPS 32(DX), Y5
	VMOVUPS 64(DX), Y6
	VMOVUPS 96(DX), Y7
	VFMADD213PS (CX), Y4, Y0
	VFMADD213PS 32(CX), Y5, Y1
	VFMADD213PS 64(CX), Y6, Y2
	VFMADD213PS 96(CX), Y7, Y3
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VZEROUPPER
	RET

TEXT ·vectorEqualFloat(SB), NOSPLIT, $0-20
	FLOAT(0)

TEXT ·vectorLessFloat(SB), NOSPLIT, $0-20
	FLOAT(1)

TEXT ·vectorLessEqualFloat(SB), NOSPLIT, $0-20
	FLOAT(2)

// func vectorLessS32(a, b unsafe.Pointer) uint32
TEXT ·vectorLessS32(SB), NOSPLIT, $0-20
	ARGUMENTS
	COMPARE1(0, DX, SI)
	COMPARE1(32, DX, SI)
	COMPARE1(64, DX, SI)
	COMPARE1(96, DX, SI)
	VZEROUPPER
	MOVL BX, ret+16(FP)
	RET

// func vectorLessEqualS32(a, b unsafe.Pointer) uint32: not b < a
TEXT ·vectorLessEqualS32(SB), NOSPLIT, $0-20
	ARGUMENTS
	COMPARE1(0, SI, DX)
	COMPARE1(32, SI, DX)
	COMPARE1(64, SI, DX)
	COMPARE1(96, SI, DX)
	VZEROUPPER
	NOTL BX
	MOVL BX, ret+16(FP)
	RET

// func vectorTile(t *tile, depth int): a is at 0, b at 1024 and c at 1536. Four rows of c at a time, by broadcasting an element of a and multiplying a row of b.
TEXT ·vectorTile(SB), NOSPLIT, $0-16
	MOVQ t+0(FP), SI
	MOVQ depth+8(FP), CX
	LEAQ 1024(SI), DX
	LEAQ 1536(SI), DI
	MOVQ $4, BX

rows:
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	MOVQ SI, R8
	MOVQ DX, R9
	MOVQ CX, R10

depth:
	VMOVUPS (R9), Y4
	VBROADCASTSS (R8), Y5
	VBROADCASTSS 64(R8), Y6
	VBROADCASTSS 128(R8), Y7
	VBROADCASTSS 192(R8), Y8
	VFMADD231PS Y4, Y5, Y0
	VFMADD231PS Y4, Y6, Y1
	VFMADD231PS Y4, Y7, Y2
	VFMADD231PS Y4, Y8, Y3
	ADDQ $4, R8
	ADDQ $32, R9
	DECQ R10
	JNZ depth

	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ $256, SI
	ADDQ $128, DI
	DECQ BX
	JNZ rows
	VZEROUPPER
	RET

DATA evenWords<>+0(SB)/8, $0x0000000200000000
DATA evenWords<>+8(SB)/8, $0x0000000600000004
DATA evenWords<>+16(SB)/8, $0x0000000200000000
DATA evenWords<>+24(SB)/8, $0x0000000600000004
GLOBL evenWords<>(SB), RODATA|NOPTR, $32

// func vectorAddresses(where *[32]uint32, base unsafe.Pointer, offset, mask, last uint64) bool
TEXT ·vectorAddresses(SB), NOSPLIT, $0-41
	MOVQ where+0(FP), DI
	MOVQ base+8(FP), SI
	VPBROADCASTQ offset+16(FP), Y10
	VPBROADCASTQ mask+24(FP), Y11
	VPBROADCASTQ last+32(FP), Y12
	VMOVDQU evenWords<>(SB), Y13
	VPXOR Y14, Y14, Y14
	VPXOR Y15, Y15, Y15
	MOVQ $8, CX

four:
	VPADDQ (SI), Y10, Y0
	VPAND Y0, Y11, Y1
	VPOR Y1, Y14, Y14
	VPSUBQ Y0, Y12, Y2
	VPOR Y2, Y15, Y15
	VPOR Y0, Y15, Y15
	VPERMD Y0, Y13, Y3
	VMOVDQU X3, (DI)
	ADDQ $32, SI
	ADDQ $16, DI
	DECQ CX
	JNZ four

	VPTEST Y14, Y14
	SETEQ AX
	VMOVMSKPD Y15, BX
	TESTL BX, BX
	SETEQ BX
	ANDB BX, AX
	MOVB AX, ret+40(FP)
	VZEROUPPER
	RET
