package ptx

import (
	"strconv"
	"strings"
)

// builder turns the body of an entry into instructions.
type builder struct {
	k       *Kernel
	m       *Module
	s       *scanner
	scopes  []map[string]*register
	symbols map[string]symbol // parameters, and variables of the function
	labels  map[string]int32
	tables  map[string][]string // of .branchtargets
	fixups  []fixup

	constants map[constant]int32
	specials  map[string]int32
	dynamic   []int // constants that are addresses of extern shared memory
	fixed     int   // bytes of constants and special registers, which lie below the registers

	at    line // the instruction that is being decoded
	guard *register
	not   bool
}

// fixup is a branch whose label may come later.
type fixup struct {
	code  int
	label string
	table int // index in inst.more, or -1 for inst.target
	at    int
}

func (b *builder) errorf(format string, args ...any) error {
	return b.s.errorf(b.at.number, format, args...)
}

// body reads from the opening brace to the closing one.
func (b *builder) body() error {
	s := b.s
	start := s.line
	if !s.skip() {
		return s.errorf(start, "entry %s has no body", b.k.name)
	}
	s.advance(1)
	label := ""
	for {
		if !s.skip() {
			return s.errorf(start, "the body of entry %s does not end", b.k.name)
		}
		b.at.number = s.line
		switch c := s.peek(); {
		case c == '{':
			s.advance(1)
			b.scopes = append(b.scopes, map[string]*register{})
			continue
		case c == '}':
			s.advance(1)
			if b.scopes = b.scopes[:len(b.scopes)-1]; len(b.scopes) == 0 {
				return b.finish()
			}
			continue
		case c == '@':
			text, err := s.until(";")
			if err != nil {
				return err
			}
			if err := b.statement(text); err != nil {
				return err
			}
			continue
		}
		word := s.word()
		switch {
		case word == "":
			return b.errorf("%q starts no instruction", string(s.peek()))
		case s.peek() == ':':
			s.advance(1)
			if _, twice := b.labels[word]; twice {
				return b.errorf("label %s is there twice", word)
			}
			b.labels[word] = int32(len(b.k.code))
			label = word
		case word == ".loc":
			f := strings.Fields(strings.SplitN(s.endOfLine(), ",", 2)[0])
			if len(f) < 2 {
				return b.errorf(".loc has no file and line")
			}
			b.at.file, _ = strconv.Atoi(f[0])
			if n, _ := strconv.Atoi(f[1]); n > 0 { // line 0: the compiler does not know, so the last one is the best guess
				b.at.from = n
			}
		case word[0] == '.':
			text, err := s.until(";")
			if err != nil {
				return err
			}
			if err := b.directive(word, text, label); err != nil {
				return err
			}
		default:
			text, err := s.until(";")
			if err != nil {
				return err
			}
			if err := b.statement(word + " " + text); err != nil {
				return err
			}
		}
	}
}

func (b *builder) directive(word, text, label string) error {
	switch word {
	case ".reg":
		fields := strings.SplitN(text, " ", 2)
		kind, names, _ := strings.Cut(strings.Join(strings.Fields(text), " "), " ")
		width := 1
		if kind != ".pred" {
			width = 8 * typeSizes[strings.TrimPrefix(kind, ".")]
		}
		if width == 8 {
			width = 16
		}
		if width == 0 || len(fields) < 2 {
			return b.errorf(".reg %s declares nothing", text)
		}
		scope := b.scopes[len(b.scopes)-1]
		for _, name := range split(names) {
			if stem, count, ok := strings.Cut(name, "<"); ok {
				n, err := strconv.Atoi(strings.TrimSuffix(count, ">"))
				if err != nil {
					return b.errorf("%s is not a range of registers", name)
				}
				scope[stem+"<>"] = &register{name: stem, bits: width, slot: int32(n)}
				continue
			}
			scope[name] = &register{name: name, bits: width, slot: -1}
		}
	case ".shared", ".local":
		d, err := declare(b.s, b.at.number, text)
		if err != nil {
			return err
		}
		sp, bytes := shared, &b.k.shared
		if word == ".local" {
			sp, bytes = local, &b.k.local
		}
		if d.size < 0 {
			return b.errorf("%s has no extent", d.name)
		}
		*bytes = align(*bytes, d.align)
		b.symbols[d.name] = symbol{sp, *bytes, d.size}
		*bytes += d.size
	case ".pragma":
	case ".branchtargets":
		if b.tables == nil {
			b.tables = map[string][]string{}
		}
		b.tables[label] = split(text)
	default:
		return b.errorf("%s is not a directive of a function", word)
	}
	return nil
}

// statement decodes one instruction.
func (b *builder) statement(text string) error {
	text = strings.Join(strings.Fields(text), " ")
	b.at.text, b.guard = text, nil
	if text[0] == '@' {
		guard, rest, _ := strings.Cut(text[1:], " ")
		b.not = strings.HasPrefix(guard, "!")
		b.guard = b.find(strings.TrimPrefix(guard, "!"))
		if b.guard == nil || b.guard.bits != 1 {
			return b.errorf("%s is not a predicate", guard)
		}
		text = rest
	}
	op, rest, _ := strings.Cut(text, " ")
	var args []operand
	for _, part := range split(rest) {
		o, err := b.operand(part)
		if err != nil {
			return err
		}
		args = append(args, o)
	}
	return b.decode(op, args)
}

// emit appends an instruction under the statement's guard.
func (b *builder) emit(in inst) *inst {
	in.guard = -1
	if b.guard != nil {
		in.guard = b.predicate(b.guard)
		if b.not {
			in.guardNot = ^uint32(0)
		}
	}
	b.k.code = append(b.k.code, in)
	b.k.lines = append(b.k.lines, b.at)
	return &b.k.code[len(b.k.code)-1]
}

func (b *builder) finish() error {
	b.guard = nil
	b.at.text = "}"
	b.emit(inst{kind: exits}) // for code that runs off its end
	for _, f := range b.fixups {
		target, ok := b.labels[f.label]
		if !ok {
			return b.s.errorf(f.at, "label %s is not there", f.label)
		}
		if in := &b.k.code[f.code]; f.table < 0 {
			in.target = target
		} else {
			in.more[f.table] = target
		}
	}
	// extern shared memory begins behind all static variables
	b.k.shared = align(b.k.shared, 16)
	for _, p := range b.dynamic {
		b.k.constants[p].value += uint64(b.k.shared)
	}
	b.k.fixedBytes = b.fixed
	return nil
}

// slot is where a register lies; it gets its place when it is first used.
func (b *builder) slot(r *register) int32 {
	if r.slot < 0 {
		r.slot = int32(b.k.fileBytes)
		b.k.fileBytes += 32 * max(r.bits, 32) / 8
	}
	return r.slot
}

func (b *builder) predicate(r *register) int32 {
	if r.slot < 0 {
		r.slot = int32(b.k.predicates)
		b.k.predicates++
	}
	return r.slot
}

// constant is where an immediate operand lies.
func (b *builder) constant(value uint64, width int) int32 {
	c := constant{wide: width == 64, value: value}
	if slot, ok := b.constants[c]; ok {
		return slot
	}
	slot := b.below(width)
	b.constants[c] = slot
	c.slot = slot
	b.k.constants = append(b.k.constants, c)
	return slot
}

func (b *builder) below(width int) int32 {
	b.fixed += 32 * max(width, 32) / 8
	return int32(-b.fixed)
}

// temporary is a register that the text does not have.
func (b *builder) temporary(width int) *register {
	return &register{name: "temporary", bits: width, slot: -1}
}
