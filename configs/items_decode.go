package configs

import (
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// item decodes a mapping with one key, the item's kind, into the struct of its
// table. It returns the kind and the paths that were set, without their kind.
func (d *decoder) item(t *table, path string, n *yaml.Node, into reflect.Value) (kind string, set map[string]bool, ok bool) {
	in := &decoder{table: t, src: d.src, expand: d.expand, budget: d.budget, bad: map[string]bool{}, prefix: d.prefix + path + "."}
	if n.Kind != yaml.MappingNode {
		hint := ""
		if k, sub, ok := t.lookup("", n.Value); ok && n.Kind == yaml.ScalarNode {
			hint = ": write {" + sub + ": {" + t.example(sub) + "}}"
			if k != nil {
				hint = ": write {" + sub + ": " + t.example(sub) + "}"
			}
		}
		d.fail(n, path, "%s is not a mapping with one key of %s%s", d.describe(n), listed(t.names(""), "or"), hint)
		return "", nil, false
	}
	if keys := len(n.Content) / 2; keys != 1 {
		d.fail(n, path, "%d keys in one item: write one key of %s, and each as an item of its own", keys, listed(t.names(""), "or"))
		return "", nil, false
	}
	out := &content{values: map[string]*Value{}}
	in.mapping(n, "", out)
	_, kind, known := t.lookup("", n.Content[0].Value)
	if known && len(out.nulls) > 0 && out.nulls[0] == kind {
		in.fail(n.Content[1], kind, "null says nothing here: write %s", t.example(kind))
	}
	set = map[string]bool{}
	before := len(in.errs)
	for _, k := range t.keys {
		v := out.values[k.Path]
		switch {
		case !known || k.Path != kind && parent(k.Path) != kind:
		case v != nil:
			set[lastName(k.Path)] = true
			if len(v.Errs) > 0 {
				in.errs = append(in.errs, v.Errs...)
				d.variable = true
			}
			if v.Data != nil {
				k.set(into, v.Data)
			}
		case k.Required && !in.bad[k.Path] && before == 0:
			in.fail(n.Content[1], k.Path, "missing: write %s", k.Want())
		case k.Default != "":
			v, _ := in.value(k, k.Path, &yaml.Node{Kind: yaml.ScalarNode, Value: k.Default})
			k.set(into, v)
		}
	}
	d.errs = append(d.errs, in.errs[:max(0, min(len(in.errs), maxErrors-len(d.errs)))]...)
	d.env = append(d.env, in.env...)
	return kind, set, len(in.errs) == 0
}

func (d *decoder) transform(_ *Key, path string, n *yaml.Node) (Transform, bool) {
	t := Transform{Origin: d.src.pos(n)}
	kind, set, ok := d.item(transformTable, path, n, reflect.ValueOf(&t).Elem())
	if !ok {
		return t, false
	}
	t.Kind = kind
	bad := func(format string, args ...any) (Transform, bool) {
		d.fail(n, path+"."+kind, format, args...)
		return t, false
	}
	switch kind {
	case "crop":
		switch {
		case set["padding"]:
			t.CropType = "padded"
			if set["sideRatio"] || set["jitterType"] {
				return bad("sideRatio and jitterType belong to type: randomSide or center, not to padding")
			}
		case !set["type"]:
			return bad("missing: write padding, or type with sideRatio")
		case !set["sideRatio"]:
			t.SideRatio = [2]float64{1, 1}
		}
		if t.CropType == "center" && t.SideRatio[0] != t.SideRatio[1] {
			return bad("a center crop has one sideRatio, not a range of them")
		}
		if t.CropType == "randomSide" && !set["jitterType"] {
			t.Jitter = "uniRatio"
		}
	case "mean":
		if !set["values"] && !set["file"] {
			return bad("missing: write values or file")
		}
		if set["values"] && len(t.Mean) == 0 {
			return bad("values is empty: write one value, or one a channel")
		}
	case "normalize":
		if len(t.Mean) == 0 || len(t.Mean) != len(t.Std) {
			return bad("mean has %d values and std %d: write as many of each, one or one a channel", len(t.Mean), len(t.Std))
		}
	}
	return t, true
}

func (d *decoder) piece(_ *Key, path string, n *yaml.Node) (Piece, bool) {
	var p Piece
	kind, set, ok := d.item(pieceTable, path, n, reflect.ValueOf(&p).Elem())
	p.Kind = kind
	if !ok {
		return p, false
	}
	switch kind {
	case "constant":
		p.To = p.From
	case "oneCycle":
		if !set["start"] {
			p.From = p.Peak / 25
		}
	}
	return p, true
}

// itemKeys returns the keys of a kind's table, for printing.
func itemKeys(t *table, kind string) (keys []*Key) {
	for _, k := range t.keys {
		if k.Path == kind || strings.HasPrefix(k.Path, kind+".") {
			keys = append(keys, k)
		}
	}
	return keys
}
