package ptx

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// space is a state space.
type space uint8

const (
	generic space = iota
	global
	shared
	local
	constants
	params
)

// Windows of the generic address space, which the state spaces but the global one have at its upper end.
const (
	sharedWindow   = 0xF1 << 56
	localWindow    = 0xF2 << 56
	constantWindow = 0xF3 << 56
	paramWindow    = 0xF4 << 56
	firstWindow    = sharedWindow
)

var windows = [...]uint64{global: 0, shared: sharedWindow, local: localWindow, constants: constantWindow, params: paramWindow}

// symbol is a variable or a parameter.
type symbol struct {
	space  space
	offset int
	size   int
}

var typeSizes = map[string]int{"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
	"f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8}

// Parse reads a module. name is the file's, for messages. Errors are *SyntaxError.
func Parse(name string, text []byte) (*Module, error) {
	m := &Module{name: name, symbols: map[string]symbol{}, files: map[int]string{}}
	s := newScanner(name, text)
	staticShared := 0
	for s.skip() {
		start, word := s.line, s.word()
		if word == "" {
			return nil, s.errorf(start, "%q starts no directive of a module", s.peek())
		}
		switch word {
		case ".version", ".target", ".address_size":
			s.endOfLine()
		case ".file":
			f := strings.SplitN(s.endOfLine(), " ", 2)
			n, err := strconv.Atoi(f[0])
			if err != nil || len(f) < 2 {
				return nil, s.errorf(start, ".file has no number and name")
			}
			m.files[n] = strings.Trim(strings.SplitN(f[1], ",", 2)[0], "\" ")
		case ".section":
			if _, err := s.until("{"); err != nil {
				return nil, err
			}
			if _, err := s.until("}"); err != nil {
				return nil, err
			}
		case ".pragma":
			if _, err := s.until(";"); err != nil {
				return nil, err
			}
		case ".visible", ".weak", ".extern", ".common":
		case ".const", ".global", ".shared":
			decl, err := s.until(";")
			if err != nil {
				return nil, err
			}
			if err := m.variable(s, start, word, decl, &staticShared); err != nil {
				return nil, err
			}
		case ".entry":
			k, err := m.entry(s, staticShared)
			if err != nil {
				return nil, err
			}
			m.kernels = append(m.kernels, k)
		case ".func":
			return nil, s.errorf(start, "functions are not supported: have them inlined (__forceinline__)")
		default:
			return nil, s.errorf(start, "%q is not a directive of a module", word)
		}
	}
	for _, k := range m.kernels {
		if k.granule == 0 {
			k.granule = 4
		}
	}
	return m, nil
}

// declaration is a variable or a parameter as it is written.
type declaration struct {
	name        string
	align, size int // size < 0: open, as of extern shared memory
	element     int
	values      string
}

// declare reads ".align 4 .b8 name[32] = {...}".
func declare(s *scanner, at int, text string) (declaration, error) {
	d := declaration{align: 1, element: 1}
	text, d.values, _ = strings.Cut(text, "=")
	fields := strings.Fields(strings.ReplaceAll(text, "[", " ["))
	d.size = 0
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		switch {
		case f == ".align":
			if i++; i == len(fields) {
				return d, s.errorf(at, ".align has no number")
			}
			n, err := strconv.Atoi(fields[i])
			if err != nil || n <= 0 || n&(n-1) != 0 {
				return d, s.errorf(at, ".align %s is not a power of two", fields[i])
			}
			d.align = max(d.align, n)
		case f == ".ptr" || f == ".global" || f == ".shared" || f == ".const" || f == ".local":
			if f == ".ptr" { // attributes of what a parameter points to
				for i+1 < len(fields) && (strings.HasPrefix(fields[i+1], ".") || fields[i] == ".align") {
					i++
				}
			}
		case f[0] == '.':
			n, ok := typeSizes[f[1:]]
			if !ok {
				return d, s.errorf(at, "%s is not a type", f)
			}
			d.element, d.size = n, n
			d.align = max(d.align, n)
		case f[0] == '[':
			inner := strings.Trim(f, "[]")
			if inner == "" {
				d.size = -1
				break
			}
			n, err := strconv.Atoi(inner)
			if err != nil || n < 0 {
				return d, s.errorf(at, "%s is not an extent", f)
			}
			d.size *= n
		default:
			d.name = f
		}
	}
	if d.name == "" || d.size == 0 {
		return d, s.errorf(at, "%q declares nothing", strings.TrimSpace(text))
	}
	return d, nil
}

func align(n, to int) int { return (n + to - 1) / to * to }

// variable is one of the module's scope.
func (m *Module) variable(s *scanner, at int, where, text string, sharedBytes *int) error {
	d, err := declare(s, at, text)
	if err != nil {
		return err
	}
	if where == ".shared" {
		if d.size < 0 {
			m.symbols[d.name] = symbol{shared, -1, 0}
			return nil
		}
		*sharedBytes = align(*sharedBytes, d.align)
		m.symbols[d.name] = symbol{shared, *sharedBytes, d.size}
		*sharedBytes += d.size
		return nil
	}
	if where == ".global" && d.values == "" {
		return s.errorf(at, "%s is a global variable that a kernel could write: pass memory as a parameter", d.name)
	}
	if d.size < 0 {
		return s.errorf(at, "%s has no extent", d.name)
	}
	from := align(len(m.constant), d.align)
	m.constant = append(m.constant, make([]byte, from+d.size-len(m.constant))...)
	sp := constants
	if where == ".global" {
		sp = generic
	}
	m.symbols[d.name] = symbol{sp, from, d.size}
	values := split(strings.Trim(strings.TrimSpace(d.values), "{}"))
	if len(values)*d.element > d.size {
		return s.errorf(at, "%s has %d values, and room for %d", d.name, len(values), d.size/d.element)
	}
	for i, v := range values {
		o, ok := number(v)
		if !ok {
			return s.errorf(at, "%s: %q is not a number", d.name, v)
		}
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], o.bits(d.element*8))
		copy(m.constant[from+i*d.element:], word[:d.element])
	}
	return nil
}

// entry is a kernel from its name to its closing brace.
func (m *Module) entry(s *scanner, sharedBytes int) (*Kernel, error) {
	s.skip()
	k := &Kernel{module: m, name: s.word(), threads: 1024, shared: sharedBytes, predicates: 2}
	b := &builder{k: k, m: m, s: s, scopes: []map[string]*register{{}}, symbols: map[string]symbol{}, labels: map[string]int32{},
		constants: map[constant]int32{}, specials: map[string]int32{}}
	s.skip()
	if s.peek() == '(' {
		s.advance(1)
		at := s.line
		list, err := s.until(")")
		if err != nil {
			return nil, err
		}
		for _, p := range split(list) {
			d, err := declare(s, at, strings.TrimPrefix(p, ".param"))
			if err != nil {
				return nil, err
			}
			k.paramBytes = align(k.paramBytes, d.align)
			k.params = append(k.params, Param{d.name, k.paramBytes, d.size})
			b.symbols[d.name] = symbol{params, k.paramBytes, d.size}
			k.paramBytes += d.size
		}
	}
	for s.skip() && s.peek() != '{' {
		at, word := s.line, s.word()
		rest := s.before("\n{")
		switch word {
		case ".maxntid", ".reqntid":
			k.threads = 1
			for _, n := range split(rest) {
				v, err := strconv.Atoi(n)
				if err != nil {
					return nil, s.errorf(at, "%s %s has no numbers", word, rest)
				}
				k.threads *= v
			}
		case ".minnctapersm", ".maxnreg", ".maxnctapersm", ".noreturn":
		default:
			return nil, s.errorf(at, "%q is not a directive of an entry", word)
		}
	}
	if err := b.body(); err != nil {
		return nil, err
	}
	return k, nil
}
