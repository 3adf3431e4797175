package ptx

import (
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// combine32 is what an atomic or a reduction does to the old value.
func combine32(op, kind string) func(old, v uint32) uint32 {
	switch op + "." + kind {
	case "add.u32", "add.s32":
		return func(a, b uint32) uint32 { return a + b }
	case "add.f32":
		return func(a, b uint32) uint32 {
			return math.Float32bits(math.Float32frombits(a) + math.Float32frombits(b))
		}
	case "min.u32":
		return func(a, b uint32) uint32 { return min(a, b) }
	case "max.u32":
		return func(a, b uint32) uint32 { return max(a, b) }
	case "min.s32":
		return func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }
	case "max.s32":
		return func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) }
	case "and.b32":
		return func(a, b uint32) uint32 { return a & b }
	case "or.b32":
		return func(a, b uint32) uint32 { return a | b }
	case "xor.b32":
		return func(a, b uint32) uint32 { return a ^ b }
	case "exch.b32":
		return func(_, b uint32) uint32 { return b }
	case "inc.u32":
		return func(a, b uint32) uint32 {
			if a >= b {
				return 0
			}
			return a + 1
		}
	case "dec.u32":
		return func(a, b uint32) uint32 {
			if a == 0 || a > b {
				return b
			}
			return a - 1
		}
	}
	return nil
}

func combine64(op, kind string) func(old, v uint64) uint64 {
	switch op + "." + kind {
	case "add.u64", "add.s64":
		return func(a, b uint64) uint64 { return a + b }
	case "add.f64":
		return func(a, b uint64) uint64 {
			return math.Float64bits(math.Float64frombits(a) + math.Float64frombits(b))
		}
	case "min.u64":
		return func(a, b uint64) uint64 { return min(a, b) }
	case "max.u64":
		return func(a, b uint64) uint64 { return max(a, b) }
	case "min.s64":
		return func(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) }
	case "max.s64":
		return func(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) }
	case "and.b64":
		return func(a, b uint64) uint64 { return a & b }
	case "or.b64":
		return func(a, b uint64) uint64 { return a | b }
	case "xor.b64":
		return func(a, b uint64) uint64 { return a ^ b }
	case "exch.b64":
		return func(_, b uint64) uint64 { return b }
	}
	return nil
}

// update applies a function to a word of memory that other blocks update, too, and gives the old value.
type update func(p unsafe.Pointer, v, c uint64) uint64

func updater(op, kind string) update {
	if op == "cas" {
		switch kind {
		case "b32":
			return func(p unsafe.Pointer, v, c uint64) uint64 {
				for {
					old := atomic.LoadUint32((*uint32)(p))
					if old != uint32(v) || atomic.CompareAndSwapUint32((*uint32)(p), old, uint32(c)) {
						return uint64(old)
					}
				}
			}
		case "b64":
			return func(p unsafe.Pointer, v, c uint64) uint64 {
				for {
					old := atomic.LoadUint64((*uint64)(p))
					if old != v || atomic.CompareAndSwapUint64((*uint64)(p), old, c) {
						return old
					}
				}
			}
		}
		return nil
	}
	if f := combine32(op, kind); f != nil {
		return func(p unsafe.Pointer, v, _ uint64) uint64 {
			for {
				old := atomic.LoadUint32((*uint32)(p))
				if atomic.CompareAndSwapUint32((*uint32)(p), old, f(old, uint32(v))) {
					return uint64(old)
				}
			}
		}
	}
	if f := combine64(op, kind); f != nil {
		return func(p unsafe.Pointer, v, _ uint64) uint64 {
			for {
				old := atomic.LoadUint64((*uint64)(p))
				if atomic.CompareAndSwapUint64((*uint64)(p), old, f(old, v)) {
					return old
				}
			}
		}
	}
	return nil
}

// atom{.sem}{.scope}{.space}.op.type d, [a], b{, c} and red, which has no d.
func (b *builder) atom(mods []string, args []operand) error {
	root := b.root()
	in := inst{kind: stepwise, d: -1}
	op := ""
	for len(mods) > 1 {
		sp, isSpace := spaces[mods[0]]
		switch m := mods[0]; {
		case isSpace:
			in.space = sp
		case m == "relaxed" || m == "acquire" || m == "release" || m == "acq_rel" || m == "gpu" || m == "cta" || m == "sys":
		case op == "":
			op = m
		default:
			return b.this()
		}
		mods = mods[1:]
	}
	f := updater(op, mods[0])
	if f == nil {
		return b.this()
	}
	width := typeBits[mods[0]]
	in.size, in.wide, in.count = uint8(width/8), width == 64, 1
	want := map[bool]int{true: 3, false: 2}[root == "atom"]
	if op == "cas" {
		want++
	}
	if err := b.want(args, want); err != nil {
		return err
	}
	var err error
	if root == "atom" {
		if in.d, err = b.target(args[0], width); err != nil {
			return err
		}
		args = args[1:]
	}
	if err := b.addressOf(args[0], &in); err != nil {
		return err
	}
	if in.b, err = b.source(args[1], width); err != nil {
		return err
	}
	in.c = in.b
	if op == "cas" {
		if in.c, err = b.source(args[2], width); err != nil {
			return err
		}
	}
	in.step = func(w *warp, in *inst, m uint32) { w.atomically(in, in.space, m, f) }
	if in.space != global {
		b.granule(int(in.size))
	}
	b.emit(in)
	return nil
}

func (w *warp) atomically(in *inst, sp space, m uint32, f update) {
	n := int(in.size)
	word := func(slot int32, l int) uint64 {
		if in.wide {
			return (*[32]uint64)(w.at(slot))[l]
		}
		return uint64((*[32]uint32)(w.at(slot))[l])
	}
	each := func(lanes uint32, data []byte, base uint64, at *[32]uint64) {
		for r := lanes; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r) & 31
			old := f(unsafe.Pointer(&data[at[l]-base : at[l]-base+uint64(n)][0]), word(in.b, l), word(in.c, l))
			switch {
			case in.d < 0:
			case in.wide:
				(*[32]uint64)(w.at(in.d))[l] = old
			default:
				(*[32]uint32)(w.at(in.d))[l] = uint32(old)
			}
		}
	}
	switch sp {
	case global:
		w.global(in, m, n, Atomic, each)
	case shared:
		w.sharedAddresses(in, m, n)
		if s := w.block.shadow; s != nil {
			s.write(w, m, n, atomicWrite)
		}
		for i, a := range w.where {
			w.access.Address[i] = uint64(a)
		}
		each(m, w.block.shared, 0, &w.access.Address)
	case generic:
		for m != 0 {
			first := spaceOf(w.address(in, bits.TrailingZeros32(m)))
			same := uint32(0)
			for r := m; r != 0; r &= r - 1 {
				if l := bits.TrailingZeros32(r); spaceOf(w.address(in, l)) == first {
					same |= 1 << l
				}
			}
			m &^= same
			w.atomically(in, first, same, f)
		}
	default:
		w.fail(bits.TrailingZeros32(m), "an atomic works on global and shared memory")
	}
}
