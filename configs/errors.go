package configs

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Error is one thing that is wrong in a configuration.
type Error struct {
	Pos     string // file:line:column, file:line, file, or "argument key=value"; empty: not known
	Key     string // dotted path in its canonical spelling; empty: the file as a whole
	Message string // what is wrong and what would be right
}

// Error returns the position, the key and the message in one line. An
// argument names its key already.
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	if e.Pos != "" {
		parts = append(parts, e.Pos)
	}
	if e.Key != "" && !e.namesKey() {
		parts = append(parts, e.Key)
	}
	return strings.Join(append(parts, e.Message), ": ")
}

func (e *Error) namesKey() bool {
	arg, ok := strings.CutPrefix(e.Pos, argumentPrefix)
	key, _, _ := strings.Cut(arg, "=")
	return ok && strings.EqualFold(strings.TrimSpace(key), e.Key)
}

// Errors holds everything that is wrong in a configuration, in the order of
// its layers, and within a file in the order of its lines.
type Errors []*Error

// Error returns one line an error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.As the single errors.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// orNil is es as an error, each message once, in order.
func (es Errors) orNil() error {
	seen, rank := map[string]bool{}, map[string]int{}
	es = slices.DeleteFunc(slices.Clone(es), func(e *Error) bool {
		was := seen[e.Error()]
		seen[e.Error()] = true
		if file, _, _ := e.place(); !was && rank[file] == 0 {
			rank[file] = len(rank) + 1
		}
		return was
	})
	if len(es) == 0 {
		return nil
	}
	slices.SortStableFunc(es, func(a, b *Error) int {
		fileA, lineA, columnA := a.place()
		fileB, lineB, columnB := b.place()
		return cmp.Or(rank[fileA]-rank[fileB], lineA-lineB, columnA-columnB)
	})
	return es
}

var placeForm = regexp.MustCompile(`^(.*?):([0-9]+)(?::([0-9]+))?$`)

// place is the position in its parts; an argument is a file of its own.
func (e *Error) place() (file string, line, column int) {
	m := placeForm.FindStringSubmatch(e.Pos)
	if m == nil || strings.HasPrefix(e.Pos, argumentPrefix) {
		return e.Pos, 0, 0
	}
	line, _ = strconv.Atoi(m[2])
	column, _ = strconv.Atoi(m[3])
	return m[1], line, column
}

// asErrors is err as a list, whatever made it.
func asErrors(pos string, err error) Errors {
	var list Errors
	if errors.As(err, &list) {
		return list
	}
	var one *Error
	if errors.As(err, &one) {
		return Errors{one}
	}
	return Errors{{Pos: pos, Message: err.Error()}}
}

func errorf(pos, key, format string, args ...any) *Error {
	return &Error{Pos: pos, Key: key, Message: fmt.Sprintf(format, args...)}
}

// distance is the number of letters to insert, delete, replace or swap with
// the neighbour to turn a into b, without regard to case (the optimal string
// alignment distance).
func distance(a, b string) int {
	x, y := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	var before, last []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(x); i++ {
		before, last, row = last, row, make([]int, len(y)+1)
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(y)]
}

// Nearest returns the candidate that a misspelt word was probably meant to be,
// or "". Commands and flags are matched as keys are.
func Nearest(word string, candidates []string) string {
	best, least := "", max(1, (len(word)+1)/3)
	if len(word) > maxWord {
		return ""
	}
	for _, c := range candidates {
		if d := distance(word, c); d < least || d == least && best == "" {
			best, least = c, d
		}
	}
	return best
}

// maxWord bounds the work of comparing words.
const maxWord = 64

// listed joins words as a sentence does: a, b or c.
func listed(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}
