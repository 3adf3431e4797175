package ptx

import (
	"bytes"
	"fmt"
	"strings"
)

// SyntaxError is a place in a module that Parse does not take.
type SyntaxError struct {
	File string
	Line int
	What string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.What) }

// scanner hands out the pieces of a module between delimiters. Comments have become spaces.
type scanner struct {
	file string
	text string
	pos  int
	line int
}

func newScanner(file string, text []byte) *scanner {
	return &scanner{file: file, text: blankComments(text), line: 1}
}

// blankComments keeps newlines, so that lines can be counted, and strings, which can hold slashes.
func blankComments(text []byte) string {
	out := append([]byte(nil), text...)
	blank := func(i, end int) int {
		for ; i < end; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
		return end
	}
	for i := 0; i < len(out); {
		next := byte(0)
		if i+1 < len(out) {
			next = out[i+1]
		}
		switch {
		case out[i] == '/' && next == '/':
			end := bytes.IndexByte(out[i:], '\n')
			if end < 0 {
				end = len(out) - i
			}
			i = blank(i, i+end)
		case out[i] == '/' && next == '*':
			end := bytes.Index(out[i:], []byte("*/"))
			if end < 0 {
				end = len(out) - i - 2
			}
			i = blank(i, i+end+2)
		case out[i] == '"':
			for i++; i < len(out) && out[i] != '"' && out[i] != '\n'; i++ {
			}
			i++
		default:
			i++
		}
	}
	return string(out)
}

func (s *scanner) errorf(line int, format string, args ...any) error {
	return &SyntaxError{s.file, line, fmt.Sprintf(format, args...)}
}

func (s *scanner) advance(n int) string {
	piece := s.text[s.pos : s.pos+n]
	s.pos += n
	s.line += strings.Count(piece, "\n")
	return piece
}

// skip passes white space and says whether anything is left.
func (s *scanner) skip() bool {
	rest := s.text[s.pos:]
	s.advance(len(rest) - len(strings.TrimLeft(rest, " \t\r\n\f\v")))
	return s.pos < len(s.text)
}

func (s *scanner) peek() byte {
	if s.pos == len(s.text) {
		return 0
	}
	return s.text[s.pos]
}

// word is the run of letters that a name, a directive or an opcode can have.
func (s *scanner) word() string {
	i := s.pos
	for i < len(s.text) && (isName(s.text[i]) || s.text[i] == '.' || s.text[i] == ':' && strings.HasPrefix(s.text[i:], "::")) {
		if s.text[i] == ':' {
			i++
		}
		i++
	}
	return s.advance(i - s.pos)
}

func isName(c byte) bool {
	return c == '_' || c == '$' || c == '%' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// until takes the text up to one of the delimiters, and the delimiter, which must not lie within parentheses.
func (s *scanner) until(delimiters string) (string, error) {
	depth, start := 0, s.line
	for i := s.pos; i < len(s.text); i++ {
		c := s.text[i]
		if depth == 0 && strings.IndexByte(delimiters, c) >= 0 {
			piece := s.advance(i - s.pos)
			s.advance(1)
			return strings.TrimSpace(piece), nil
		}
		switch c {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			depth--
		}
	}
	return "", s.errorf(start, "%q is missing", delimiters)
}

// endOfLine takes the rest of the line.
func (s *scanner) endOfLine() string { return s.before("\n") }

// before takes the text in front of the first of some characters.
func (s *scanner) before(any string) string {
	end := strings.IndexAny(s.text[s.pos:], any)
	if end < 0 {
		end = len(s.text) - s.pos
	}
	return strings.TrimSpace(s.advance(end))
}

// split cuts at commas outside of parentheses.
func split(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	if last := strings.TrimSpace(text[from:]); last != "" || len(parts) > 0 {
		parts = append(parts, last)
	}
	return parts
}
