package ptx

import (
	"math/bits"
	"unsafe"
)

// word is how a lane lies in the register file, number how an instruction reads it.
type word interface {
	uint32 | uint64 | float32 | float64
}

type numeric interface {
	int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

type integer interface {
	int16 | uint16 | int32 | uint32 | int64 | uint64
}

func add[T numeric, S word](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b)
	for i := range D {
		D[i] = S(T(A[i]) + T(B[i]))
	}
}

func sub[T numeric, S word](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b)
	for i := range D {
		D[i] = S(T(A[i]) - T(B[i]))
	}
}

func mul[T numeric, S word](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b)
	for i := range D {
		D[i] = S(T(A[i]) * T(B[i]))
	}
}

func mad[T integer, S word](d, a, b, c unsafe.Pointer) {
	D, A, B, C := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b), (*[32]S)(c)
	for i := range D {
		D[i] = S(T(A[i])*T(B[i]) + T(C[i]))
	}
}

// L is twice as wide as T and lies in a register as SL.
func mulWide[T, L integer, S, SL word](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]SL)(d), (*[32]S)(a), (*[32]S)(b)
	for i := range D {
		D[i] = SL(L(T(A[i])) * L(T(B[i])))
	}
}

func madWide[T, L integer, S, SL word](d, a, b, c unsafe.Pointer) {
	D, A, B, C := (*[32]SL)(d), (*[32]S)(a), (*[32]S)(b), (*[32]SL)(c)
	for i := range D {
		D[i] = SL(L(T(A[i]))*L(T(B[i])) + L(C[i]))
	}
}

// mulHigh is for types whose double width Go has.
func mulHigh[T, L integer, S word](shift int) laneFunc {
	return func(d, a, b, _ unsafe.Pointer) {
		D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b)
		for i := range D {
			D[i] = S(T(L(T(A[i])) * L(T(B[i])) >> shift))
		}
	}
}

func minimum[T integer, S word](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b)
	for i := range D {
		D[i] = S(min(T(A[i]), T(B[i])))
	}
}

func maximum[T integer, S word](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b)
	for i := range D {
		D[i] = S(max(T(A[i]), T(B[i])))
	}
}

// Shifts by more than the width give 0, or the sign.
func shl[T integer, S uint32 | uint64](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]uint32)(b)
	for i := range D {
		D[i] = S(T(A[i]) << B[i])
	}
}

func shr[T integer, S uint32 | uint64](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]uint32)(b)
	for i := range D {
		D[i] = S(T(A[i]) >> B[i])
	}
}

func and[S uint32 | uint64](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b)
	for i := range D {
		D[i] = A[i] & B[i]
	}
}

func or[S uint32 | uint64](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b)
	for i := range D {
		D[i] = A[i] | B[i]
	}
}

func xor[S uint32 | uint64](d, a, b, _ unsafe.Pointer) {
	D, A, B := (*[32]S)(d), (*[32]S)(a), (*[32]S)(b)
	for i := range D {
		D[i] = A[i] ^ B[i]
	}
}

func copyLanes[S word](d, a, _, _ unsafe.Pointer) { *(*[32]S)(d) = *(*[32]S)(a) }

// one, two and three make lanewise functions of scalar ones, for instructions that are rare.
func one[D, A word](f func(A) D) laneFunc {
	return func(d, a, _, _ unsafe.Pointer) {
		to, x := (*[32]D)(d), (*[32]A)(a)
		for i := range to {
			to[i] = f(x[i])
		}
	}
}

func two[D, A, B word](f func(A, B) D) laneFunc {
	return func(d, a, b, _ unsafe.Pointer) {
		to, x, y := (*[32]D)(d), (*[32]A)(a), (*[32]B)(b)
		for i := range to {
			to[i] = f(x[i], y[i])
		}
	}
}

func three[D, A, B, C word](f func(A, B, C) D) laneFunc {
	return func(d, a, b, c unsafe.Pointer) {
		to, x, y, z := (*[32]D)(d), (*[32]A)(a), (*[32]B)(b), (*[32]C)(c)
		for i := range to {
			to[i] = f(x[i], y[i], z[i])
		}
	}
}

func mulHighU64(a, b uint64) uint64 { hi, _ := bits.Mul64(a, b); return hi }

func mulHighS64(a, b uint64) uint64 {
	hi := mulHighU64(a, b)
	if int64(a) < 0 {
		hi -= b
	}
	if int64(b) < 0 {
		hi -= a
	}
	return hi
}

func abs[T integer, S word](a S) S { return S(max(T(a), -T(a))) }

// bitField is bfe: length bits of a from a position, of which only the low 8 bits count. What lies above the sign is the sign.
func bitField(a uint64, position, length uint32, width int, signed bool) uint64 {
	p, l := int(position&255), int(length&255)
	var sign uint64
	if signed && l > 0 {
		sign = a >> min(p+l-1, width-1) & 1
	}
	var v uint64
	for i := 0; i < width; i++ { // as the manual defines it, bit by bit
		bit := sign
		if i < l && p+i < width {
			bit = a >> (p + i) & 1
		}
		v |= bit << i
	}
	return v
}

func unsignedField32(a, position, length uint32) uint32 {
	p, l := position&255, length&255
	return uint32(uint64(a) >> p & (1<<l - 1))
}

// insertField is bfi: the low bits of a into b.
func insertField[S uint32 | uint64](a, b S, position, length uint32) S {
	p, l := position&255, length&255
	mask := (S(1)<<l - 1) << p
	return b&^mask | a<<p&mask
}

// lop3 is any function of three bits, given as a table: bit i of it is the value for a,b,c = bits 2,1,0 of i.
func lop3(a, b, c uint32, table uint8) uint32 {
	var v uint32
	for i := range 8 {
		if table>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = ^x
		}
		if i&2 == 0 {
			y = ^y
		}
		if i&1 == 0 {
			z = ^z
		}
		v |= x & y & z
	}
	return v
}

// permute is prmt: each of four selectors picks a byte of b:a, or its sign.
func permute(a, b, selector uint32, mode string) uint32 {
	bytes := uint64(b)<<32 | uint64(a)
	pick := func(i uint32) uint32 {
		v := uint32(bytes >> (8 * (i & 7)) & 255)
		if i&8 != 0 {
			v = uint32(uint8(int8(v) >> 7))
		}
		return v
	}
	var at [4]uint32
	s := selector & 3
	for i := range uint32(4) {
		switch mode {
		case "":
			at[i] = selector >> (4 * i) & 15
		case "f4e":
			at[i] = s + i
		case "b4e":
			at[i] = (s - i) & 7
		case "rc8":
			at[i] = s
		case "ecl":
			at[i] = max(i, s)
		case "ecr":
			at[i] = min(i, s)
		case "rc16":
			at[i] = s&1*2 + i&1
		}
	}
	return pick(at[0]) | pick(at[1])<<8 | pick(at[2])<<16 | pick(at[3])<<24
}

// highestBit is bfind: ^0 for none.
func highestBit(a uint64, width int, signed, shift bool) uint32 {
	if signed && a>>(width-1)&1 == 1 {
		a = ^a
		if width == 32 {
			a = uint64(uint32(a))
		}
	}
	n := bits.Len64(a) - 1
	if n < 0 {
		return ^uint32(0)
	}
	if shift {
		n = width - 1 - n
	}
	return uint32(n)
}
