package configs

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

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
		return d.toInteger(key, path, n, s)
	case int64:
		v, ok := d.toInteger(key, path, n, s)
		return int64(v), ok
	case float64:
		return d.toNumber(key, path, n, s)
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
		hint := Nearest(s.text, key.Values)
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
	return d.toInteger(key, path, n, s)
}

func (d *decoder) toInteger(key *Key, path string, n *yaml.Node, s scalar) (int, bool) {
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
	return d.toNumber(key, path, n, s)
}

func (d *decoder) toNumber(key *Key, path string, n *yaml.Node, s scalar) (float64, bool) {
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
