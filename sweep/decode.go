package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gotrain/configs"
)

// decoder turns the nodes of a sweep file into values, and gathers what is wrong with them.
type decoder struct {
	file string
	errs configs.Errors
}

func (d *decoder) pos(n *yaml.Node) string {
	if n == nil || n.Line == 0 {
		return d.file
	}
	return fmt.Sprintf("%s:%d:%d", d.file, n.Line, n.Column)
}

func (d *decoder) fail(n *yaml.Node, key, format string, args ...any) {
	if len(d.errs) < 100 { // who has as many gave the wrong file
		d.errs = append(d.errs, &configs.Error{Pos: d.pos(n), Key: short(key), Message: fmt.Sprintf(format, args...)})
	}
}

// short cuts a text for a message.
func short(text string) string {
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:77], "") + "..."
	}
	return text
}

// mapping gives each key of a mapping to do.
func (d *decoder) mapping(n *yaml.Node, section string, do func(name, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, section, "%s is not a mapping: write keys below it", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch line, twice := seen[name.Value]; {
		case name.Kind != yaml.ScalarNode:
			d.fail(name, section, "a key is text, not %s", describe(name))
			continue
		case twice:
			d.fail(name, join(section, name.Value), "the key stands here twice, first at line %d: keep one", line)
			continue
		}
		seen[name.Value] = name.Line
		if value.Kind == yaml.MappingNode || d.whole(value, join(section, name.Value)) { // a mapping is looked at key by key
			do(name, value)
		}
	}
}

// whole refuses aliases in a value: what they stand for could be without bounds, and a sweep has no use for them.
func (d *decoder) whole(n *yaml.Node, key string) bool {
	if n.Kind == yaml.AliasNode {
		d.fail(n, key, "a sweep takes no aliases: write out what *%s stands for", short(n.Value))
		return false
	}
	return !slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return !d.whole(c, key) })
}

func (d *decoder) unknown(name *yaml.Node, section string, known []string) {
	say := "the keys here are " + strings.Join(known, ", ")
	if near := configs.Nearest(name.Value, known); near != "" {
		say = "did you mean " + near + "?"
	}
	d.fail(name, join(section, name.Value), "unknown key: %s", say)
}

// text decodes a text; "" where there is none.
func (d *decoder) text(n *yaml.Node, key string) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == "!!null" {
		d.fail(n, key, "%s is not text", describe(n))
		return ""
	}
	return n.Value
}

// word decodes one of a few words; the first where it is none.
func (d *decoder) word(n *yaml.Node, key string, words ...string) string {
	if n.Kind == yaml.ScalarNode && slices.Contains(words, n.Value) {
		return n.Value
	}
	say := ""
	if n.Kind == yaml.ScalarNode {
		if near := configs.Nearest(n.Value, words); near != "" {
			say = ": did you mean " + near + "?"
		}
	}
	d.fail(n, key, "%s is not one of %s%s", describe(n), strings.Join(words, ", "), say)
	return words[0]
}

func (d *decoder) integer(n *yaml.Node, key string, low, high int) int {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || quoted(n) || err != nil || v < low || v > high {
		d.fail(n, key, "%s is not an integer from %d to %d", describe(n), low, high)
		return low
	}
	return v
}

func (d *decoder) number(n *yaml.Node, key string) float64 {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || quoted(n) || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		d.fail(n, key, "%s is not a number", describe(n))
		return 0
	}
	return v
}

func quoted(n *yaml.Node) bool { return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 }

// describe says what stands at a node.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.Value == "" || quoted(n) || strings.ContainsAny(n.Value, "\n\t"):
		return strconv.Quote(short(n.Value))
	}
	return short(n.Value)
}

func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}
