package configs

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Text may hold variables, which are replaced before its type is looked at:
//
//	$name$            a value of vars, or any scalar at the top of the file
//	${NAME}           the environment's value
//	${NAME:-default}  the environment's value, or default where it is unset or empty
//	$$                a dollar sign
//
// A default and a value of vars may hold variables in turn; what comes from the
// environment is text and nothing more.

const maxText = 1 << 16 // bytes of a text with its variables replaced

var (
	varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	varUse  = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*)\$`)
	envUse  = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(:-|$)`)
)

// variable is a value that $name$ stands for, by the last layer that sets it.
type variable struct {
	name string // as it was written
	path string // vars.name, or the top-level key
	node *yaml.Node
	src  *source

	busy, done bool
	value      replaced
	err        *Error
}

// replaced is a text with its variables replaced.
type replaced struct {
	text string
	dir  string // what the text is relative to if it is a path: where its head was written
	used bool   // there were variables
	env  []string
}

// expander replaces variables; all layers have given it theirs before.
type expander struct {
	vars    map[string]*variable // by lower-case name; nil: not known yet
	env     func(string) (string, bool)
	workDir string
	varsAt  string // where vars is, or would be
}

// use says where and for which key a text is needed.
type use struct {
	src *source
	pos string
	key string
}

func (x *expander) replace(text string, at use) (replaced, *Error) {
	out := replaced{dir: at.src.dir}
	var b strings.Builder
	add := func(piece, dir string) {
		if b.Len() == 0 && piece != "" {
			out.dir = dir
		}
		b.WriteString(piece)
	}
	for text != "" {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			i = len(text)
		}
		add(text[:i], at.src.dir)
		if text = text[i:]; text == "" {
			break
		}
		switch {
		case strings.HasPrefix(text, "$$"):
			add("$", at.src.dir)
			text = text[2:]
		case strings.HasPrefix(text, "${"):
			piece, rest, err := x.environment(text, at)
			if err != nil {
				return out, err
			}
			add(piece.text, piece.dir)
			out.env = append(out.env, piece.env...)
			out.used, text = true, rest
		default:
			m := varUse.FindStringSubmatch(text)
			if m == nil {
				return out, errorf(at.pos, at.key, "%s holds a single $: write $$ for a dollar sign, $name$ for a variable, ${NAME} for the environment's", scalar{text: text}.show())
			}
			piece, err := x.variable(m[1], at)
			if err != nil {
				return out, err
			}
			add(piece.text, piece.dir)
			out.env = append(out.env, piece.env...)
			out.used, text = true, text[len(m[0]):]
		}
		if b.Len() > maxText {
			return out, errorf(at.pos, at.key, "the text is longer than %d bytes with its variables replaced", maxText)
		}
	}
	out.text = b.String()
	return out, nil
}

// environment replaces the ${...} that text begins with.
func (x *expander) environment(text string, at use) (piece replaced, rest string, err *Error) {
	depth, end := 0, -1
	for i := 0; i < len(text) && end < 0; i++ {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			depth++
		case text[i] == '}':
			if depth--; depth == 0 {
				end = i
			}
		}
	}
	if end < 0 {
		return piece, "", errorf(at.pos, at.key, "%s has no closing brace: write ${NAME} or ${NAME:-default}", scalar{text: text}.show())
	}
	inner, rest := text[2:end], text[end+1:]
	m := envUse.FindStringSubmatch(inner)
	if m == nil {
		return piece, "", errorf(at.pos, at.key, "%s names no environment variable: write ${NAME} or ${NAME:-default}", scalar{text: text[:end+1]}.show())
	}
	name, hasDefault := m[1], m[2] != ""
	value, set := x.env(name)
	switch {
	case set && (value != "" || !hasDefault):
		if !utf8.ValidString(value) {
			return piece, "", errorf(at.pos, at.key, "the environment's %s is not UTF-8 text", name)
		}
		return replaced{text: value, dir: x.workDir, env: []string{name}}, rest, nil
	case hasDefault:
		piece, err = x.replace(inner[len(m[0]):], at)
		return piece, rest, err
	}
	return piece, "", errorf(at.pos, at.key, "${%s} is not set in the environment: export %s, or write ${%s:-default}", name, name, name)
}

// variable returns the value of $name$.
func (x *expander) variable(name string, at use) (replaced, *Error) {
	if x.vars == nil {
		return replaced{}, errorf(at.pos, at.key, "$%s$ is not known yet where files are put together: write ${NAME} for the environment's", name)
	}
	v := x.vars[strings.ToLower(name)]
	if v == nil {
		defined := make([]string, 0, len(x.vars))
		for _, v := range x.vars {
			defined = append(defined, v.name)
		}
		slices.Sort(defined)
		hint := ""
		if near := Nearest(name, defined); near != "" {
			hint = "did you mean $" + near + "$? Else "
		}
		return replaced{}, errorf(at.pos, at.key, "$%s$ is not defined: %sadd %s to vars (%s)", name, hint, name, x.varsAt)
	}
	if v.busy {
		return replaced{}, errorf(at.pos, at.key, "$%s$ is defined by itself, through %s", name, v.path)
	}
	if !v.done {
		v.busy = true
		v.value, v.err = x.resolve(v)
		v.busy, v.done = false, true
	}
	if v.err != nil {
		through := *v.err
		if at.key != v.err.Key {
			through.Message += " (" + at.key + " at " + at.pos + " uses it)"
		}
		return replaced{}, &through
	}
	return v.value, nil
}

func (x *expander) resolve(v *variable) (replaced, *Error) {
	out, err := x.replace(v.node.Value, use{v.src, v.src.pos(v.node), v.path})
	out.used = true
	return out, err
}
