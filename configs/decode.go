package configs

import (
	"strings"

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

const (
	maxNodes  = 100_000
	maxErrors = 100 // of a file; who has as many gave the wrong file
)

// fail records what is wrong at a node.
func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	if len(d.errs) >= maxErrors {
		return
	}
	d.errs = append(d.errs, errorf(d.src.pos(n), d.prefix+path, format, args...))
}

// spoil marks all keys of a section as having an error already.
func (d *decoder) spoil(section string) {
	for _, k := range d.table.keys {
		if strings.HasPrefix(k.Path, section+".") {
			d.bad[k.Path] = true
		}
	}
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
		d.fail(n, section, "%s is not a mapping: write keys below it, such as %s", d.describe(n), d.table.example(section))
		d.spoil(section)
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
