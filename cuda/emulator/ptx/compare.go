package ptx

import "unsafe"

func equal[T numeric, S word](a, b unsafe.Pointer) (m uint32) {
	A, B := (*[32]S)(a), (*[32]S)(b)
	for i := range A {
		m = m>>1 | flag(T(A[i]) == T(B[i]))<<31
	}
	return m
}

func less[T numeric, S word](a, b unsafe.Pointer) (m uint32) {
	A, B := (*[32]S)(a), (*[32]S)(b)
	for i := range A {
		m = m>>1 | flag(T(A[i]) < T(B[i]))<<31
	}
	return m
}

func lessEqual[T numeric, S word](a, b unsafe.Pointer) (m uint32) {
	A, B := (*[32]S)(a), (*[32]S)(b)
	for i := range A {
		m = m>>1 | flag(T(A[i]) <= T(B[i]))<<31
	}
	return m
}

// differ is false for NaN.
func differ[T float32 | float64](a, b unsafe.Pointer) (m uint32) {
	A, B := (*[32]T)(a), (*[32]T)(b)
	for i := range A {
		m = m>>1 | flag(A[i] < B[i] || A[i] > B[i])<<31
	}
	return m
}

func numbers[T float32 | float64](a, b unsafe.Pointer) (m uint32) {
	A, B := (*[32]T)(a), (*[32]T)(b)
	for i := range A {
		m = m>>1 | flag(A[i] == A[i] && B[i] == B[i])<<31
	}
	return m
}

// relations are equal, less, lessEqual of the types.
var relations = map[string][3]compareFunc{
	"b16": {equal[uint16, uint32], nil, nil}, "b32": {equal[uint32, uint32], nil, nil}, "b64": {equal[uint64, uint64], nil, nil},
	"u16": {equal[uint16, uint32], less[uint16, uint32], lessEqual[uint16, uint32]},
	"s16": {equal[int16, uint32], less[int16, uint32], lessEqual[int16, uint32]},
	"u32": {equal[uint32, uint32], less[uint32, uint32], lessEqual[uint32, uint32]},
	"s32": {equal[int32, uint32], less[int32, uint32], lessEqual[int32, uint32]},
	"u64": {equal[uint64, uint64], less[uint64, uint64], lessEqual[uint64, uint64]},
	"s64": {equal[int64, uint64], less[int64, uint64], lessEqual[int64, uint64]},
	"f32": {equal[float32, float32], less[float32, float32], lessEqual[float32, float32]},
	"f64": {equal[float64, float64], less[float64, float64], lessEqual[float64, float64]},
}

// relation gives the function for a comparison, whether its operands trade places, and whether its result is inverted.
func relation(op, kind string) (f compareFunc, swap, invert bool) {
	r := relations[kind]
	if kind == "f32" || kind == "f64" {
		ne, num := differ[float32], numbers[float32]
		if kind == "f64" {
			ne, num = differ[float64], numbers[float64]
		}
		switch op {
		case "ne":
			return ne, false, false
		case "equ":
			return ne, false, true
		case "neu":
			return r[0], false, true
		case "ltu": // not >=
			return r[2], true, true
		case "leu":
			return r[1], true, true
		case "gtu":
			return r[2], false, true
		case "geu":
			return r[1], false, true
		case "num":
			return num, false, false
		case "nan":
			return num, false, true
		}
	}
	switch op {
	case "eq":
		return r[0], false, false
	case "ne":
		return r[0], false, true
	case "lt", "lo":
		return r[1], false, false
	case "le", "ls":
		return r[2], false, false
	case "gt", "hi":
		return r[1], true, false
	case "ge", "hs":
		return r[2], true, false
	}
	return nil, false, false
}

// comparison decodes the comparison itself into a predicate.
func (b *builder) comparison(op, kind string, to *register, x, y operand) error {
	f, swap, invert := relation(op, kind)
	if f == nil {
		return b.this()
	}
	in := inst{kind: compares, compare: f, d: b.predicate(to)}
	var err error
	if in.a, err = b.source(x, typeBits[kind]); err != nil {
		return err
	}
	if in.b, err = b.source(y, typeBits[kind]); err != nil {
		return err
	}
	if swap {
		in.a, in.b = in.b, in.a
	}
	if invert {
		in.mask = ^uint32(0)
	}
	b.emit(in)
	return nil
}

// setp.CmpOp{.BoolOp}.type p{|q}, a, b{, {!}c}: q is made of the inverted comparison.
func (b *builder) setp(mods []string, args []operand) error {
	if len(mods) < 2 || len(args) < 3 || len(args) > 4 || args[0].kind != isRegister || args[0].reg.bits != 1 {
		return b.this()
	}
	p, q := args[0].reg, args[0].pair
	boolean := ""
	if len(args) == 4 {
		if len(mods) != 3 || args[3].kind != isRegister || args[3].reg.bits != 1 {
			return b.this()
		}
		boolean = mods[1]
	} else if len(mods) != 2 {
		return b.this()
	}
	result := p
	if boolean != "" || q != nil {
		result = b.temporary(1)
	}
	if err := b.comparison(mods[0], mods[len(mods)-1], result, args[1], args[2]); err != nil {
		return err
	}
	if result == p {
		return nil
	}
	if b.guard != nil { // which can be p, too
		guard := b.guard
		b.guard = nil
		kept := b.temporary(1)
		b.predicateOp("mov", kept, operand{reg: guard}, operand{reg: guard})
		b.guard = kept
	}
	if boolean != "" && q != nil { // c can be p
		c := b.temporary(1)
		b.predicateOp("mov", c, args[3], args[3])
		args[3].reg = c
	}
	not := b.temporary(1)
	b.predicateOp("not", not, operand{reg: result}, operand{reg: result})
	for _, e := range []struct{ to, from *register }{{p, result}, {q, not}} {
		switch {
		case e.to == nil:
		case boolean == "":
			b.predicateOp("mov", e.to, operand{reg: e.from}, operand{reg: e.from})
		default:
			if !b.predicateOp(boolean, e.to, operand{reg: e.from}, args[3]) {
				return b.this()
			}
		}
	}
	return nil
}

// set is setp into a register: all bits, or 1.0.
func (b *builder) set(mods []string, args []operand) error {
	if len(mods) != 3 || len(args) != 3 {
		return b.this()
	}
	p := b.temporary(1)
	if err := b.comparison(mods[0], mods[2], p, args[1], args[2]); err != nil {
		return err
	}
	yes := operand{kind: isNumber, integer: 0xffffffff}
	if mods[1] == "f32" {
		yes.integer = 0x3f800000
	}
	return b.selp([]string{"b32"}, []operand{args[0], yes, {kind: isNumber}, {kind: isRegister, reg: p}})
}

// predicateOp computes predicates, which are masks of lanes.
func (b *builder) predicateOp(op string, to *register, x, y operand) bool {
	variants := map[string]uint8{"and": 0, "or": 1, "xor": 2, "not": 3, "mov": 4}
	v, ok := variants[op]
	if !ok {
		return false
	}
	in := inst{kind: stepwise, step: stepPredicate, sub: v, d: b.predicate(to), a: b.predicate(x.reg), b: b.predicate(y.reg)}
	if y.negated {
		in.mask = ^uint32(0)
	}
	b.emit(in)
	return true
}

func stepPredicate(w *warp, in *inst, m uint32) {
	x, y := w.predicates[in.a], w.predicates[in.b]^in.mask
	switch in.sub {
	case 0:
		x &= y
	case 1:
		x |= y
	case 2:
		x ^= y
	case 3:
		x = ^x
	}
	w.predicates[in.d] = w.predicates[in.d]&^m | x&m
}

// logic is and, or, xor and not of predicates; those of words are lanewise.
func (b *builder) logic(mods []string, args []operand) error {
	op := b.root()
	if len(mods) != 1 || mods[0] != "pred" || len(args) < 2 {
		return b.this()
	}
	for i, a := range args {
		switch {
		case a.kind == isRegister && a.reg.bits == 1:
		case a.kind == isNumber && i > 0:
			args[i].reg = &register{bits: 1, slot: int32(flag(a.integer != 0))}
		default:
			return b.errorf("%s is not a predicate", a.text)
		}
	}
	if !b.predicateOp(op, args[0].reg, args[1], args[len(args)-1]) {
		return b.this()
	}
	return nil
}

// selp d, a, b, p: a where p.
func (b *builder) selp(mods []string, args []operand) error {
	if len(mods) != 1 || typeBits[mods[0]] < 16 || len(args) != 4 {
		return b.this()
	}
	width := typeBits[mods[0]]
	in := inst{kind: stepwise, step: stepSelect[uint32], wide: width == 64}
	if in.wide {
		in.step = stepSelect[uint64]
	}
	var err error
	if in.a, err = b.source(args[1], width); err != nil {
		return err
	}
	if in.b, err = b.source(args[2], width); err != nil {
		return err
	}
	negated := args[3].negated
	args[3].negated = false
	if in.c, err = b.source(args[3], 1); err != nil {
		return err
	}
	if negated {
		in.a, in.b = in.b, in.a
	}
	if in.d, err = b.target(args[0], width); err != nil {
		return err
	}
	b.emit(in)
	return nil
}

func stepSelect[S uint32 | uint64](w *warp, in *inst, m uint32) {
	d, x, y := (*[32]S)(w.at(in.d)), (*[32]S)(w.at(in.a)), (*[32]S)(w.at(in.b))
	p := w.predicates[in.c]
	for i := range d {
		v := y[i]
		if p>>i&1 == 1 {
			v = x[i]
		}
		if m>>i&1 == 1 {
			d[i] = v
		}
	}
}

// slct d, a, b, c: a where c >= 0.
func (b *builder) slct(mods []string, args []operand) error {
	if len(mods) != 2 || len(args) != 4 || mods[1] != "s32" && mods[1] != "f32" {
		return b.this()
	}
	p := b.temporary(1)
	if err := b.comparison("ge", mods[1], p, args[3], operand{kind: isNumber}); err != nil {
		return err
	}
	return b.selp(mods[:1], append(args[:3:3], operand{kind: isRegister, reg: p}))
}
