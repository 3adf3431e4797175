package configs

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// unknown records a key that the table does not have, with what was probably
// meant.
func (d *decoder) unknown(name *yaml.Node, section string) {
	if len(d.errs) >= maxErrors {
		return // suggesting takes time
	}
	path := join(section, scalar{text: name.Value}.show())
	d.fail(name, path, "unknown key: %s", d.suggest(name.Value, section))
}

func (d *decoder) suggest(name, section string) string {
	if d.table == schema {
		if say := notHere[strings.ToLower(name)]; say != "" {
			return say
		}
	}
	var same []string // the keys of that name in other sections
	for _, k := range d.table.keys {
		if strings.EqualFold(lastName(k.Path), name) {
			same = append(same, k.Path)
		}
		if slices.ContainsFunc(strings.Fields(k.CNTK), func(s string) bool { return strings.EqualFold(s, name) }) {
			d.bad[k.Path] = true
			return "CNTK's " + name + " is " + k.Path + " here"
		}
	}
	known := d.table.names(section)
	if near := Nearest(name, known); near != "" && len(same) == 0 {
		d.bad[join(section, near)] = true
		return "did you mean " + near + "?"
	}
	if len(same) == 0 {
		var last []string
		for _, k := range d.table.keys {
			last = append(last, lastName(k.Path))
		}
		if near := Nearest(name, last); near != "" {
			same = append(same, d.table.keys[slices.Index(last, near)].Path)
		}
	}
	if len(same) > 0 {
		for _, path := range same {
			d.bad[path] = true
		}
		return "did you mean " + listed(same, "or") + "?"
	}
	where := "here"
	if section != "" {
		where = "in " + d.prefix + section
	}
	return "the keys " + where + " are " + listed(known, "and")
}

// example is what could stand below a section, or at a key of a few words.
func (t *table) example(path string) string {
	if k := t.byPath[strings.ToLower(path)]; k != nil {
		return k.Values[0]
	}
	return t.names(path)[0] + ": ..."
}
