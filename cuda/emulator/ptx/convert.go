package ptx

import (
	"math"
	"unsafe"
)

func convert[T numeric, S word, U numeric, SU word](d, a, _, _ unsafe.Pointer) {
	D, A := (*[32]SU)(d), (*[32]S)(a)
	for i := range D {
		D[i] = SU(U(T(A[i])))
	}
}

// quick are the conversions that kernels use all the time: those of integers, and from integers to floats.
var quick = map[string]laneFunc{
	"u32.u64": convert[uint64, uint64, uint32, uint32], "s32.s64": convert[uint64, uint64, uint32, uint32],
	"u32.s64": convert[uint64, uint64, uint32, uint32], "s32.u64": convert[uint64, uint64, uint32, uint32],
	"u64.u32": convert[uint32, uint32, uint64, uint64], "s64.u32": convert[uint32, uint32, uint64, uint64],
	"s64.s32": convert[int32, uint32, int64, uint64], "u64.s32": convert[int32, uint32, int64, uint64],
	"u32.u16": convert[uint16, uint32, uint32, uint32], "s32.u16": convert[uint16, uint32, uint32, uint32],
	"s32.s16": convert[int16, uint32, int32, uint32], "u32.s16": convert[int16, uint32, int32, uint32],
	"u64.u16": convert[uint16, uint32, uint64, uint64], "s64.s16": convert[int16, uint32, int64, uint64],
	"u16.u32": copyLanes[uint32], "u16.s32": copyLanes[uint32], "s16.s32": copyLanes[uint32], "s16.u32": copyLanes[uint32],
	"u16.u64": convert[uint64, uint64, uint32, uint32], "s16.s64": convert[uint64, uint64, uint32, uint32],
	"rn.f32.s32": convert[int32, uint32, float32, float32], "rn.f32.u32": convert[uint32, uint32, float32, float32],
	"rn.f32.u16": convert[uint16, uint32, float32, float32], "rn.f32.s16": convert[int16, uint32, float32, float32],
	"rn.f32.s64": convert[int64, uint64, float32, float32], "rn.f32.u64": convert[uint64, uint64, float32, float32],
	"rn.f64.s32": convert[int32, uint32, float64, float64], "rn.f64.u32": convert[uint32, uint32, float64, float64],
	"f64.f32": convert[float32, float32, float64, float64], "rn.f32.f64": convert[float64, float64, float32, float32],
}

var roundings = map[string]func(float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil}

// cvt converts. What is not in quick goes through a number that holds every value of the source: float64 for floats, and 65 bits
// for integers.
func (b *builder) cvt(mods []string, args []operand) error {
	if len(mods) < 2 {
		return b.this()
	}
	to, from := mods[len(mods)-2], mods[len(mods)-1]
	round, saturates := "", false
	for _, m := range mods[:len(mods)-2] {
		switch m {
		case "sat":
			saturates = true
		case "rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna":
			round = m
		default:
			return b.this()
		}
	}
	if to == "bf16x2" && from == "f32" && round == "rn" && !saturates && len(args) == 3 {
		f := two(func(a, b float32) uint32 { return uint32(toBfloat(a))<<16 | uint32(toBfloat(b)) })
		return b.lanewise(laneOp{f, w32}, args)
	}
	if err := b.want(args, 2); err != nil {
		return err
	}
	toBits, fromBits := typeBits[to], typeBits[from]
	for _, e := range []struct {
		bits *int
		name string
		arg  operand
	}{{&toBits, to, args[0]}, {&fromBits, from, args[1]}} {
		if e.name == "u8" || e.name == "s8" {
			*e.bits = 8
		}
		// a register can be wider than the type
		if r := e.arg.reg; r != nil && r.bits > *e.bits && *e.bits != 0 && *e.bits != 1 {
			*e.bits = r.bits
		}
	}
	if toBits < 16 || fromBits < 16 {
		return b.this()
	}
	if name := to + "." + from; !saturates && toBits == typeBits[to] && fromBits == typeBits[from] {
		if round != "" {
			name = round + "." + name
		}
		if f, ok := quick[name]; ok {
			return b.lanewise(laneOp{f, []int{toBits, fromBits}}, args)
		}
	}
	read, write := reader(from), writer(to, round, saturates)
	if read == nil || write == nil {
		return b.this()
	}
	f := func(v uint64) uint64 { return write(read(v)) }
	return b.lanewise(laneOp{wordLanes(toBits, fromBits, f), []int{toBits, fromBits}}, args)
}

// wordLanes applies a function of words of any width.
func wordLanes(toBits, fromBits int, f func(uint64) uint64) laneFunc {
	switch {
	case toBits == 64 && fromBits == 64:
		return one(f)
	case toBits == 64:
		return one(func(v uint32) uint64 { return f(uint64(v)) })
	case fromBits == 64:
		return one(func(v uint64) uint32 { return uint32(f(v)) })
	}
	return one(func(v uint32) uint32 { return uint32(f(uint64(v))) })
}

// value is a number on its way from one type to another: an integer with its sign beside it, or a float.
type value struct {
	float    bool
	f        float64
	negative bool
	u        uint64 // the integer in two's complement
}

func reader(from string) func(uint64) value {
	signed := func(v int64) value { return value{u: uint64(v), negative: v < 0} }
	switch from {
	case "u8":
		return func(v uint64) value { return value{u: uint64(uint8(v))} }
	case "u16":
		return func(v uint64) value { return value{u: uint64(uint16(v))} }
	case "u32":
		return func(v uint64) value { return value{u: uint64(uint32(v))} }
	case "u64":
		return func(v uint64) value { return value{u: v} }
	case "s8":
		return func(v uint64) value { return signed(int64(int8(v))) }
	case "s16":
		return func(v uint64) value { return signed(int64(int16(v))) }
	case "s32":
		return func(v uint64) value { return signed(int64(int32(v))) }
	case "s64":
		return func(v uint64) value { return signed(int64(v)) }
	case "f16":
		return func(v uint64) value { return value{float: true, f: fromHalf(uint16(v))} }
	case "bf16":
		return func(v uint64) value { return value{float: true, f: float64(math.Float32frombits(uint32(v) << 16))} }
	case "f32":
		return func(v uint64) value { return value{float: true, f: float64(math.Float32frombits(uint32(v)))} }
	case "f64":
		return func(v uint64) value { return value{float: true, f: math.Float64frombits(v)} }
	}
	return nil
}

func writer(to, round string, saturates bool) func(value) uint64 {
	switch to {
	case "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64":
		return integerWriter(to, round, saturates)
	}
	if to == "tf32" {
		if round != "rna" || saturates {
			return nil
		}
		return func(v value) uint64 { // to 10 bits of mantissa, halves away from zero
			b := math.Float32bits(float32(v.f))
			if v.f != v.f || math.IsInf(v.f, 0) {
				return uint64(b)
			}
			return uint64((b + 1<<12) &^ (1<<13 - 1))
		}
	}
	integral := roundings[round]
	if integral == nil && round != "rn" && round != "" && !(to == "f32" && round == "rz") {
		return nil
	}
	return func(v value) uint64 {
		f := v.f
		switch {
		case !v.float && v.negative:
			f = float64(int64(v.u))
		case !v.float:
			f = float64(v.u)
		case integral != nil:
			f = integral(f)
		}
		if saturates {
			if !(f > 0) {
				f = 0
			}
			f = min(f, 1)
		}
		switch to {
		case "f16":
			return uint64(toHalf(f))
		case "bf16":
			return uint64(bfloatOf64(f))
		case "f64":
			return math.Float64bits(f)
		}
		r := float32(f)
		if round == "rz" && math.Abs(float64(r)) > math.Abs(f) {
			r = math.Float32frombits(math.Float32bits(r) - 1)
		}
		return uint64(math.Float32bits(r))
	}
}

// integerWriter: floats are clamped to the type's range always, integers with .sat; NaN becomes 0.
func integerWriter(to, round string, saturates bool) func(value) uint64 {
	width := map[byte]int{'8': 8, '1': 16, '3': 32, '6': 64}[to[1]]
	low, high := int64(0), uint64(1)<<(width-1)<<1-1
	if to[0] == 's' {
		low, high = -1<<(width-1), uint64(1)<<(width-1)-1
	}
	integral := roundings[round]
	return func(v value) uint64 {
		if v.float {
			if integral == nil || v.f != v.f {
				return 0
			}
			f := integral(v.f)
			switch {
			case f <= float64(low):
				return uint64(low)
			case f >= float64(high):
				return high
			case f < 0:
				return uint64(int64(f))
			}
			return uint64(f)
		}
		u := v.u
		if saturates {
			switch {
			case v.negative && int64(u) < low:
				u = uint64(low)
			case !v.negative && u > high:
				u = high
			}
		}
		// the register can be wider than the type
		shift := 64 - width
		if to[0] == 's' {
			return uint64(int64(u<<shift) >> shift)
		}
		return u << shift >> shift
	}
}

func fromHalf(h uint16) float64 {
	sign, e, m := 1.0, int(h>>10&31), float64(h&1023)
	if h>>15 == 1 {
		sign = -1
	}
	switch e {
	case 0:
		return sign * math.Ldexp(m, -24)
	case 31:
		if m != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(m+1024, e-25)
}

func toHalf(f float64) uint16 {
	sign := uint16(math.Float64bits(f) >> 63 << 15)
	a := math.Abs(f)
	switch {
	case f != f:
		return 0x7fff
	case a >= 65520: // halfway to what would come next
		return sign | 0x7c00
	case a < 1.0/(1<<14): // subnormal
		return sign | uint16(math.RoundToEven(math.Ldexp(a, 24)))
	}
	_, e := math.Frexp(a)
	m := math.RoundToEven(math.Ldexp(a, 11-e)) // 1024..2048
	return sign | uint16(int(m)+(e+13)<<10)
}
