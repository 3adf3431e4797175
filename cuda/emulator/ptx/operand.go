package ptx

import (
	"math"
	"strconv"
	"strings"
)

// register is a declared register. A register of up to 32 bits has 32 words of four bytes in a warp's file, one a lane, one of 64
// bits has 32 of eight. A register of 16 bits uses the lower half of its words; the rest is undefined. A predicate has one bit a
// lane in one word of another file.
type register struct {
	name string
	bits int   // 1: predicate
	slot int32 // byte offset in the file, or the predicate's number; -1 until it is used
}

type operandKind uint8

const (
	isRegister operandKind = iota
	isNumber
	isVector
	isAddress
	isSymbol
	isLabel
	isSpecial
	isSink
)

// operand is one operand as it is written.
type operand struct {
	kind     operandKind
	text     string
	reg      *register
	pair     *register // of p|q
	negated  bool      // !p
	integer  uint64    // of a number: its value, or bits if real
	real     int       // of a number: 0 for an integer, 32 and 64 for one in that format
	elements []operand
	base     *operand // of an address: register or symbol, or nil
	offset   int64    // of an address or a symbol
	symbol   symbol
}

// bits is a number as an operand of so many bits.
func (o operand) bits(width int) uint64 {
	v := o.integer
	switch {
	case o.real == 64 && width == 32:
		v = uint64(math.Float32bits(float32(math.Float64frombits(v))))
	case o.real == 32 && width == 64:
		v = math.Float64bits(float64(math.Float32frombits(uint32(v))))
	}
	if width < 64 {
		v &= 1<<width - 1
	}
	return v
}

// number reads PTX's forms of numbers: 12, -3, 0x1f, 017, 0b11, 1U, 0f3F800000, 0d3FF0000000000000, 1.5.
func number(text string) (operand, bool) {
	o := operand{kind: isNumber, text: text}
	t := text
	negative := strings.HasPrefix(t, "-")
	t = strings.TrimPrefix(t, "-")
	if len(t) > 2 && t[0] == '0' && strings.IndexByte("fFdD", t[1]) >= 0 {
		width := 32
		if t[1] == 'd' || t[1] == 'D' {
			width = 64
		}
		if len(t) != 2+width/4 {
			return o, false
		}
		v, err := strconv.ParseUint(t[2:], 16, width)
		if negative {
			v ^= 1 << (width - 1)
		}
		o.integer, o.real = v, width
		return o, err == nil
	}
	if t == "WARP_SZ" {
		o.integer = 32
		return o, true
	}
	if v, err := strconv.ParseUint(strings.TrimSuffix(t, "U"), 0, 64); err == nil {
		if negative {
			v = -v
		}
		o.integer = v
		return o, true
	}
	if t == "" || t[0] < '0' || t[0] > '9' {
		return o, false
	}
	f, err := strconv.ParseFloat(text, 64)
	o.integer, o.real = math.Float64bits(f), 64
	return o, err == nil
}

func (b *builder) find(name string) *register {
	for i := len(b.scopes) - 1; i >= 0; i-- {
		if r := b.scopes[i][name]; r != nil {
			return r
		}
		// %r<85> is declared as the prefix %r
		stem := strings.TrimRight(name, "0123456789")
		if p := b.scopes[i][stem+"<>"]; p != nil && stem != name {
			if n, err := strconv.Atoi(name[len(stem):]); err == nil && n < int(p.slot) {
				r := &register{name: name, bits: p.bits, slot: -1}
				b.scopes[i][name] = r
				return r
			}
		}
	}
	return nil
}

func (b *builder) lookup(name string) (symbol, bool) {
	if s, ok := b.symbols[name]; ok {
		return s, true
	}
	s, ok := b.m.symbols[name]
	return s, ok
}

// operand reads one operand.
func (b *builder) operand(text string) (operand, error) {
	o := operand{text: text}
	if text == "" {
		return o, b.errorf("an operand is empty")
	}
	if text == "_" {
		o.kind = isSink
		return o, nil
	}
	if inner, ok := enclosed(text, '{', '}'); ok {
		o.kind = isVector
		for _, part := range split(inner) {
			e, err := b.operand(part)
			if err != nil {
				return o, err
			}
			o.elements = append(o.elements, e)
		}
		return o, nil
	}
	if inner, ok := enclosed(text, '[', ']'); ok {
		o.kind = isAddress
		base, offset := cutOffset(inner)
		if base == "" {
			n, ok := number(offset)
			o.offset = int64(n.integer)
			if !ok {
				return o, b.errorf("%s is not an address", text)
			}
			return o, nil
		}
		e, err := b.operand(base)
		if err != nil {
			return o, err
		}
		if e.kind == isNumber {
			o.offset = int64(e.integer)
			return o, nil
		}
		o.base = &e
		if offset != "" {
			n, ok := number(offset)
			if !ok {
				return o, b.errorf("%s is not an address", text)
			}
			o.offset = int64(n.integer)
		}
		return o, nil
	}
	name := text
	if name[0] == '!' {
		o.negated = true
		name = strings.TrimSpace(name[1:])
	}
	if first, second, ok := strings.Cut(name, "|"); ok {
		name = strings.TrimSpace(first)
		if o.pair = b.find(strings.TrimSpace(second)); o.pair == nil || o.pair.bits != 1 {
			return o, b.errorf("%s is not a predicate", second)
		}
	}
	if name == "_" {
		o.kind = isSink
		return o, nil
	}
	if o.reg = b.find(name); o.reg != nil {
		return o, nil
	}
	if _, ok := specialBits(name); ok {
		o.kind = isSpecial
		return o, nil
	}
	if n, ok := number(name); ok {
		return n, nil
	}
	if inner, ok := strings.CutPrefix(name, "generic("); ok {
		name = strings.TrimSuffix(inner, ")")
	}
	base, offset := cutOffset(name)
	if s, ok := b.lookup(base); ok {
		o.kind, o.symbol = isSymbol, s
		if offset != "" {
			n, ok := number(offset)
			if !ok {
				return o, b.errorf("%s is not an address", text)
			}
			o.offset = int64(n.integer)
		}
		return o, nil
	}
	if name[0] == '%' {
		return o, b.errorf("%s is not declared", name)
	}
	o.kind = isLabel
	return o, nil
}

func enclosed(text string, open, shut byte) (string, bool) {
	if text[0] != open || text[len(text)-1] != shut {
		return "", false
	}
	return strings.TrimSpace(text[1 : len(text)-1]), true
}

// cutOffset takes name+8 and name+-8 apart.
func cutOffset(text string) (base, offset string) {
	if i := strings.IndexByte(text, '+'); i >= 0 {
		return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+1:])
	}
	if i := strings.LastIndexByte(text, '-'); i > 0 {
		return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i:])
	}
	return text, ""
}
