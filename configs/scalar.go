package configs

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// tag is the type of a plain scalar in the core schema of YAML 1.2 (section
// 10.3.2 of the specification).
type tag int

const (
	tagText tag = iota
	tagNull
	tagBool
	tagInt
	tagFloat
)

func (t tag) String() string {
	return [...]string{"text", "null", "true or false", "an integer", "a number"}[t]
}

var (
	nullForm  = regexp.MustCompile(`^(null|Null|NULL|~|)$`)
	boolForm  = regexp.MustCompile(`^(true|True|TRUE|false|False|FALSE)$`)
	intForm   = regexp.MustCompile(`^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
	floatForm = regexp.MustCompile(`^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

func resolve(plain string) tag {
	switch {
	case nullForm.MatchString(plain):
		return tagNull
	case boolForm.MatchString(plain):
		return tagBool
	case intForm.MatchString(plain):
		return tagInt
	case floatForm.MatchString(plain):
		return tagFloat
	}
	return tagText
}

// scalar is a scalar of a file or an argument, with its variables replaced.
type scalar struct {
	text   string
	tag    tag
	quoted bool
	opaque bool   // from a variable or an argument: the key's type decides, not the tag
	from   string // as it was written, where variables were replaced
	dir    string // what a relative path is relative to
}

// show is the scalar as it stands in a message.
func (s scalar) show() string {
	text := clip(s.text)
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if s.quoted || text == "" || strings.TrimSpace(text) != text || strings.ContainsFunc(text, odd) {
		text = strconv.Quote(text)
	}
	if s.from != "" {
		text += " (from " + scalar{text: s.from}.show() + ")"
	}
	return text
}

// clip shortens a long text for a message.
func clip(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}

// is reports whether the scalar can be read as a value of the tag.
func (s scalar) is(t tag) bool {
	if s.opaque {
		got := resolve(s.text)
		return got == t || t == tagFloat && got == tagInt
	}
	return s.tag == t || t == tagFloat && s.tag == tagInt
}

// hint says what probably was meant where a value of type want stands.
func (s scalar) hint(want tag) string {
	plain := resolve(s.text)
	switch {
	case s.quoted && !s.opaque && (plain == want || want == tagFloat && plain == tagInt):
		return "write " + s.text + " without quotes"
	case want == tagBool:
		switch strings.ToLower(s.text) {
		case "yes", "on", "y", "1", "true":
			return "write true"
		case "no", "off", "n", "0", "false":
			return "write false"
		}
	case want == tagInt && plain == tagFloat:
		if v, ok := parseFloat(s.text); ok && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return "write " + strconv.FormatFloat(v, 'f', -1, 64)
		}
	case want == tagInt || want == tagFloat:
		bare := strings.NewReplacer("_", "", ",", "", " ", "").Replace(s.text)
		if bare != s.text && resolve(bare) >= tagInt {
			return "write " + bare
		}
	}
	return ""
}

// parseInt reads an integer of the core schema; false: too large.
func parseInt(text string) (int64, bool) {
	base := 10
	if len(text) > 2 && (text[1] == 'o' || text[1] == 'x') {
		base = map[byte]int{'o': 8, 'x': 16}[text[1]]
		text = text[2:]
	}
	v, err := strconv.ParseInt(text, base, 64)
	return v, err == nil
}

// parseFloat reads an integer or number of the core schema; false: not finite.
func parseFloat(text string) (float64, bool) {
	if resolve(text) == tagInt {
		if v, ok := parseInt(text); ok {
			return float64(v), true
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}

// parseDuration reads a length of time above 0.
func parseDuration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0
}
