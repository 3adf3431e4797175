package configs

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Value is what one layer says about a key. It is a value of the merged map,
// whose library copies it: the fields are exported for that.
type Value struct {
	Data   any      // of the type of the key's field; nil: not to be had
	Origin string   // where it was written
	Errs   []*Error // what is wrong with it, where variables are to blame: it counts if no later layer replaces it
}

// content is what a layer says: values by canonical path, and the keys and
// sections that it resets by null.
type content struct {
	values map[string]*Value
	order  []string // of values, as written
	nulls  []string
}

// decoder turns the nodes of one source into values, by a table of keys.
type decoder struct {
	table  *table
	src    *source
	expand *expander
	prefix string // before every key in messages: reader.transforms[0].
	budget *int   // nodes that may still be looked at, aliases followed
	bad    map[string]bool

	errs     []*Error
	variable bool     // a variable was replaced in the value at hand
	env      []string // names from the environment that values used
}

const maxNodes = 100_000

// fail records what is wrong at a node.
func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.errs = append(d.errs, errorf(d.src.pos(n), d.prefix+path, format, args...))
}

// follow returns the node that an alias stands for. An alias inside its own
// anchor, and aliases of aliases that stand for too much, use up the budget.
func (d *decoder) follow(n *yaml.Node, path string) (*yaml.Node, bool) {
	for *d.budget > 0 {
		*d.budget--
		if n.Kind != yaml.AliasNode {
			return n, true
		}
		n = n.Alias
	}
	if *d.budget == 0 {
		*d.budget--
		d.fail(n, path, "the file holds more than %d values, those that aliases stand for counted", maxNodes)
	}
	return n, false
}

// mapping decodes the keys of a section into out.
func (d *decoder) mapping(n *yaml.Node, section string, out *content) {
	n, ok := d.follow(n, section)
	if !ok {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, section, "%s is not a mapping: write keys below it, such as %s", d.describe(n), d.exampleKey(section))
		return
	}
	seen := map[string]*yaml.Node{}
	chosen := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			d.fail(name, section, "a key is text, not %s", d.describe(name))
			continue
		}
		key, path, ok := d.table.lookup(section, name.Value)
		if !ok {
			d.unknown(name, section)
			continue
		}
		if first := seen[path]; first != nil {
			d.fail(name, path, "the key stands here twice, first at line %d: keep one", first.Line)
			continue
		}
		seen[path] = name
		if key != nil && key.Group != "" && !d.isNull(value) {
			if other := chosen[key.Group]; other != "" {
				d.fail(name, path, "%s is set too, and only one of the two can be: keep one", d.prefix+other)
				continue
			}
			chosen[key.Group] = path
		}
		d.entry(key, path, value, out)
	}
}

// entry decodes the value of a key (nil: of a section).
func (d *decoder) entry(key *Key, path string, n *yaml.Node, out *content) {
	n, ok := d.follow(n, path)
	if !ok {
		return
	}
	if d.isNull(n) {
		out.nulls = append(out.nulls, path)
		return
	}
	if key != nil && key.Path == "vars" || key != nil && key.field == nil {
		return // the loader has read vars and extends before
	}
	if key == nil {
		if key = d.table.short(path); key == nil || n.Kind != yaml.ScalarNode {
			d.mapping(n, path, out)
			return
		}
		path = key.Path
	}
	v := &Value{Origin: d.src.pos(n)}
	before, envBefore := len(d.errs), len(d.env)
	d.variable = false
	if data, ok := d.value(key, path, n); ok {
		v.Data = data
	} else if d.bad[path] = true; d.variable {
		v.Errs = append(v.Errs, d.errs[before:]...)
		d.errs = d.errs[:before]
		delete(d.bad, path)
	}
	if env := d.env[envBefore:]; len(env) > 0 {
		v.Origin += " (environment " + strings.Join(env, ", ") + ")"
	}
	out.values[path] = v
	out.order = append(out.order, path)
}

// value decodes a value into the type of its key's field.
func (d *decoder) value(key *Key, path string, n *yaml.Node) (any, bool) {
	switch reflect.Zero(key.typ).Interface().(type) {
	case []string:
		return list(d, key, path, n, d.word)
	case []int:
		return list(d, key, path, n, d.integer)
	case []float64:
		if n.Kind == yaml.ScalarNode {
			v, ok := d.number(key, path, n)
			return []float64{v}, ok
		}
		return list(d, key, path, n, d.number)
	case [2]float64:
		return d.pair(key, path, n)
	case []Transform:
		return list(d, key, path, n, d.transform)
	case []Piece:
		return list(d, key, path, n, d.piece)
	}
	s, ok := d.scalar(key, path, n)
	if !ok {
		return nil, false
	}
	if key.Zero != "" && s.text == key.Zero && s.is(tagText) {
		return reflect.Zero(key.typ).Interface(), true
	}
	wrong := func(hint string) (any, bool) {
		d.wrong(key, path, n, s, hint)
		return nil, false
	}
	switch reflect.Zero(key.typ).Interface().(type) {
	case bool:
		if !s.is(tagBool) {
			return wrong(s.hint(tagBool))
		}
		return strings.EqualFold(s.text, "true"), true
	case int:
		v, ok := d.integer(key, path, n)
		return v, ok
	case int64:
		v, ok := d.integer(key, path, n)
		return int64(v), ok
	case float64:
		return d.number(key, path, n)
	case time.Duration:
		if v, ok := parseDuration(s.text); ok {
			return v, true
		}
		if s.is(tagFloat) {
			return wrong("write the unit too, such as " + s.text + "s")
		}
		return wrong("")
	case PerEpoch:
		p, err := ParsePerEpoch(s.text)
		if err != nil {
			return wrong(err.Error())
		}
		for _, span := range p {
			if !key.Range.Contains(span.Value) {
				if len(p) > 1 {
					return wrong(formatFloat(span.Value) + " is not")
				}
				return wrong("")
			}
		}
		return p, true
	case Bits:
		b, err := parseBits(s.text)
		if err != nil {
			return wrong(err.Error())
		}
		return b, true
	}
	return d.text(key, path, n, s)
}

// text decodes a text, a word of a few, or a path.
func (d *decoder) text(key *Key, path string, n *yaml.Node, s scalar) (any, bool) {
	switch {
	case !s.opaque && s.tag != tagText:
		hint := ""
		if len(key.Values) == 0 {
			hint = "write \"" + s.text + "\" with quotes"
		}
		d.wrong(key, path, n, s, hint)
		return nil, false
	case len(key.Values) > 0:
		for _, v := range key.Values {
			if v == s.text {
				return v, true
			}
		}
		hint := nearest(s.text, key.Values)
		if hint != "" {
			hint = "did you mean " + hint + "?"
		}
		d.wrong(key, path, n, s, hint)
		return nil, false
	case key.IsPath:
		p, problem := d.src.absolute(s)
		if problem != "" {
			d.wrong(key, path, n, s, problem)
			return nil, false
		}
		return p, true
	}
	return s.text, true
}

// scalar returns the scalar of a node with its variables replaced.
func (d *decoder) scalar(key *Key, path string, n *yaml.Node) (scalar, bool) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "%s is not %s", d.describe(n), key.Want())
		return scalar{}, false
	}
	s, problem := d.src.scalar(n)
	if problem != "" {
		d.fail(n, path, "%s", problem)
		return s, false
	}
	if !strings.Contains(s.text, "$") {
		return s, true
	}
	r, err := d.expand.replace(s.text, use{d.src, d.src.pos(n), d.prefix + path})
	if err != nil {
		d.errs = append(d.errs, err)
		d.variable = true
		return s, false
	}
	d.env = append(d.env, r.env...)
	if r.used {
		d.variable = true
		s.opaque, s.from = true, s.text
	}
	s.text, s.dir = r.text, r.dir
	return s, true
}

func (d *decoder) wrong(key *Key, path string, n *yaml.Node, s scalar, hint string) {
	if hint != "" {
		hint = ": " + hint
	}
	d.fail(n, path, "%s is not %s%s", s.show(), key.Want(), hint)
}

func (d *decoder) integer(key *Key, path string, n *yaml.Node) (int, bool) {
	s, ok := d.scalar(key, path, n)
	if !ok {
		return 0, false
	}
	if !s.is(tagInt) {
		d.wrong(key, path, n, s, s.hint(tagInt))
		return 0, false
	}
	v, ok := parseInt(s.text)
	if !ok || !key.Range.Contains(float64(v)) {
		d.wrong(key, path, n, s, "")
		return 0, false
	}
	return int(v), true
}

func (d *decoder) number(key *Key, path string, n *yaml.Node) (float64, bool) {
	s, ok := d.scalar(key, path, n)
	if !ok {
		return 0, false
	}
	if !s.is(tagFloat) {
		d.wrong(key, path, n, s, s.hint(tagFloat))
		return 0, false
	}
	v, ok := parseFloat(s.text)
	if !ok || !key.Range.Contains(v) {
		d.wrong(key, path, n, s, "")
		return 0, false
	}
	return v, true
}

func (d *decoder) word(key *Key, path string, n *yaml.Node) (string, bool) {
	s, ok := d.scalar(key, path, n)
	if !ok {
		return "", false
	}
	v, ok := d.text(&Key{Values: key.Values, typ: reflect.TypeFor[string]()}, path, n, s)
	if !ok {
		return "", false
	}
	return v.(string), true
}

// list decodes each item of a list by item, and goes on after a wrong one.
func list[T any](d *decoder, key *Key, path string, n *yaml.Node, item func(*Key, string, *yaml.Node) (T, bool)) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode {
			hint = ": write [" + n.Value + "]"
		}
		d.fail(n, path, "%s is not %s%s", d.describe(n), key.Want(), hint)
		return nil, false
	}
	items, all := make([]T, 0, len(n.Content)), true
	for i, c := range n.Content {
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		c, ok := d.follow(c, itemPath)
		if !ok {
			return nil, false
		}
		v, ok := item(key, itemPath, c)
		items, all = append(items, v), all && ok
	}
	return items, all
}

// pair decodes two numbers, or one that stands for both.
func (d *decoder) pair(key *Key, path string, n *yaml.Node) (any, bool) {
	if n.Kind == yaml.ScalarNode {
		v, ok := d.number(key, path, n)
		return [2]float64{v, v}, ok
	}
	v, ok := list(d, key, path, n, d.number)
	if !ok {
		return nil, false
	}
	p := v.([]float64)
	if len(p) != 2 || p[0] > p[1] {
		d.fail(n, path, "%s is not %s, the smaller first", d.describe(n), key.Want())
		return nil, false
	}
	return [2]float64{p[0], p[1]}, true
}

// describe says what stands at a node.
func (d *decoder) describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	s, _ := d.src.scalar(n)
	return s.show()
}

func (d *decoder) isNull(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	s, problem := d.src.scalar(n)
	return problem == "" && s.tag == tagNull
}

// absolute turns the text into an absolute, clean path.
func (s *source) absolute(t scalar) (path, problem string) {
	path = t.text
	switch {
	case path == "" || strings.ContainsRune(path, 0):
		return "", "write the name of a file or folder"
	case path == "~" || strings.HasPrefix(path, "~/"):
		if s.home == "" {
			return "", "there is no home folder for ~ to stand for: write the whole path"
		}
		path = s.home + path[1:]
	case path[0] == '~':
		return "", "~ stands for your own home folder only: write the whole path, or ./" + path
	case !filepath.IsAbs(path):
		path = filepath.Join(t.dir, path)
	}
	return filepath.Clean(path), ""
}
