package ptx

import (
	"strings"
	"unsafe"
)

// kind is how the loop over instructions treats one.
type kind uint8

const (
	lanewise kind = iota // computes each lane by itself, so that inactive lanes can be computed and thrown away
	compares             // lanewise, into a predicate
	stepwise             // all others
	branches
	exits
)

// laneFunc computes 32 lanes. Operands point to [32]uint32 or [32]uint64, or to arrays of floats in those formats.
type laneFunc func(d, a, b, c unsafe.Pointer)

// compareFunc gives a bit a lane.
type compareFunc func(a, b unsafe.Pointer) uint32

// stepFunc executes an instruction for the lanes of m.
type stepFunc func(w *warp, in *inst, m uint32)

// inst is a decoded instruction. Operands are offsets in a warp's register file, or numbers of predicates.
type inst struct {
	kind       kind
	wide       bool  // the destination has 64 bits
	signed     bool  // loads extend the sign
	wideBase   bool  // the address has 64 bits
	size       uint8 // bytes of an element in memory
	count      uint8 // elements of a vector
	space      space
	sub        uint8 // variant of the operation
	guard      int32 // predicate, or -1
	guardNot   uint32
	d, a, b, c int32
	target     int32  // of a branch
	mask       uint32 // what a comparison's result is xored with
	offset     int64  // of an address
	more       []int32
	lane       laneFunc
	compare    compareFunc
	step       stepFunc
}

// laneOp is a lanewise instruction: its function and the bits of its operands, destination first.
type laneOp struct {
	f      laneFunc
	widths []int
}

// source is an operand that is read as so many bits.
func (b *builder) source(o operand, width int) (int32, error) {
	switch o.kind {
	case isRegister:
		if o.reg.bits != width || o.negated {
			return 0, b.errorf("%s is not a register of %d bits", o.text, width)
		}
		if width == 1 {
			return b.predicate(o.reg), nil
		}
		return b.slot(o.reg), nil
	case isNumber:
		if width == 1 {
			return int32(flag(o.integer != 0)), nil
		}
		return b.constant(o.bits(width), width), nil
	case isSymbol:
		return b.address(o, width)
	case isSpecial:
		return b.special(o, width)
	}
	return 0, b.errorf("%s is not an operand of %d bits", o.text, width)
}

// address is a symbol's address as a constant: within its space, but for .global ones.
func (b *builder) address(o operand, width int) (int32, error) {
	value := uint64(o.symbol.offset) + uint64(o.offset)
	switch {
	case width < 32:
		return 0, b.errorf("%s does not fit into %d bits", o.text, width)
	case o.symbol.space == generic:
		value += constantWindow
	case o.symbol.offset < 0: // extern shared memory, whose place is known at the end of the function
		slot := b.below(width)
		b.dynamic = append(b.dynamic, len(b.k.constants))
		b.k.constants = append(b.k.constants, constant{slot, width == 64, uint64(o.offset)})
		return slot, nil
	}
	if width == 32 {
		value = uint64(uint32(value))
	}
	return b.constant(value, width), nil
}

func (b *builder) target(o operand, width int) (int32, error) {
	if o.kind == isSink {
		return b.slot(b.temporary(width)), nil
	}
	if o.kind != isRegister || o.reg.bits != width || o.negated {
		return 0, b.errorf("%s is not a register of %d bits", o.text, width)
	}
	return b.slot(o.reg), nil
}

// decode finds what an opcode means.
func (b *builder) decode(op string, args []operand) error {
	if l, ok := laneOps[op]; ok {
		return b.lanewise(l, args)
	}
	parts := strings.Split(op, ".")
	if f, ok := decoders[parts[0]]; ok {
		return f(b, parts[1:], args)
	}
	return b.unknown(op)
}

func (b *builder) unknown(op string) error {
	return b.errorf("instruction %s is not known: %s", op, b.at.text)
}

// op is the opcode of the statement, and root its first word.
func (b *builder) op() string {
	text := b.at.text
	if text[0] == '@' {
		_, text, _ = strings.Cut(text, " ")
	}
	op, _, _ := strings.Cut(text, " ")
	return op
}

func (b *builder) root() string {
	root, _, _ := strings.Cut(b.op(), ".")
	return root
}

// this is unknown, for the statement at hand.
func (b *builder) this() error { return b.unknown(b.op()) }

func (b *builder) want(args []operand, n int) error {
	if len(args) != n {
		return b.errorf("%d operands are wanted: %s", n, b.at.text)
	}
	return nil
}

func (b *builder) lanewise(l laneOp, args []operand) error {
	if err := b.want(args, len(l.widths)); err != nil {
		return err
	}
	in := inst{kind: lanewise, lane: l.f, wide: l.widths[0] == 64}
	var err error
	for i, to := range []*int32{&in.a, &in.b, &in.c}[:len(args)-1] {
		if *to, err = b.source(args[i+1], l.widths[i+1]); err != nil {
			return err
		}
	}
	if in.d, err = b.target(args[0], l.widths[0]); err != nil {
		return err
	}
	b.emit(in)
	return nil
}

// decoders are the instructions that are not in laneOps, by the first word.
var decoders map[string]func(b *builder, mods []string, args []operand) error

func init() {
	accelerate()
	decoders = map[string]func(b *builder, mods []string, args []operand) error{
		"mov": (*builder).mov, "cvt": (*builder).cvt, "cvta": (*builder).cvta, "selp": (*builder).selp,
		"setp": (*builder).setp, "set": (*builder).set, "slct": (*builder).slct,
		"and": (*builder).logic, "or": (*builder).logic, "xor": (*builder).logic, "not": (*builder).logic,
		"bfi": (*builder).bfi, "lop3": (*builder).lop3, "div": (*builder).divide, "rem": (*builder).divide,
		"bra": (*builder).bra, "brx": (*builder).brx, "ret": (*builder).ret, "exit": (*builder).ret, "trap": (*builder).trap,
		"brkpt": (*builder).nothing, "nanosleep": (*builder).nothing, "prefetch": (*builder).nothing, "prefetchu": (*builder).nothing,
		"ld": (*builder).ld, "ldu": (*builder).ld, "st": (*builder).st, "atom": (*builder).atom, "red": (*builder).atom,
		"isspacep": (*builder).isspacep,
		"bar":      (*builder).bar, "barrier": (*builder).bar, "membar": (*builder).fence, "fence": (*builder).fence,
		"shfl": (*builder).shfl, "vote": (*builder).vote, "match": (*builder).match, "activemask": (*builder).activemask,
		"redux": (*builder).redux, "cp": (*builder).cp, "mma": (*builder).mma, "ldmatrix": (*builder).ldmatrix,
	}
}

var typeBits = map[string]int{"pred": 1, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32, "s32": 32,
	"f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64}
