package draw

import (
	"fmt"
	"strings"

	"gotrain/graph"
)

// Operations are named group.block.layer, as in stage1.0.conv1, or group.layer, as in stem.conv.

// group is the first part of an operation's name.
func group(name string) string {
	g, _, _ := strings.Cut(name, ".")
	return g
}

// block is the first two parts of an operation's name, and empty where there is no third.
func block(name string) string {
	parts := strings.SplitN(name, ".", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[0] + "." + parts[1]
}

// layer is an operation's name within its block or group.
func layer(name string) string {
	if b := block(name); b != "" {
		return name[len(b)+1:]
	}
	if _, l, ok := strings.Cut(name, "."); ok {
		return l
	}
	return name
}

// bands finds the runs of equal names, one name a row. Empty ones make no band.
func bands(names []string) []band {
	var found []band
	for r, name := range names {
		if name == "" {
			continue
		}
		if last := len(found) - 1; last >= 0 && found[last].name == name && found[last].to == r-1 {
			found[last].to = r
		} else {
			found = append(found, band{name, r, r, 1})
		}
	}
	return found
}

// joinSingles joins neighbouring bands of one row each, such as those of the dense layer and the loss.
func joinSingles(in []band) []band {
	var out []band
	single := false // the last one of out is made of single rows
	for _, b := range in {
		one := b.from == b.to
		if last := len(out) - 1; one && single && out[last].to == b.from-1 {
			out[last].name += ", " + b.name
			out[last].to = b.to
			continue
		}
		single = one
		out = append(out, b)
	}
	return out
}

// collapseFrom is the least number of equal blocks in succession that are drawn as one: fewer are better seen than told.
const collapseFrom = 4

// collapse finds the blocks, and which of them are drawn in place of others.
func (a *arrangement) collapse() {
	names := make([]string, len(a.main))
	a.drawn = make([]int, len(a.main))
	for r, o := range a.main {
		names[r], a.drawn[r] = block(o.Name), r
	}
	a.blocks = bands(names)
	looks := make([]string, len(a.blocks))
	for i, b := range a.blocks {
		looks[i] = a.look(b)
	}
	for i := 0; i < len(a.blocks); {
		n := 1
		for i+n < len(a.blocks) && looks[i+n] == looks[i] && a.blocks[i+n].from == a.blocks[i+n-1].to+1 {
			n++
		}
		if n >= collapseFrom {
			first := &a.blocks[i]
			for _, b := range a.blocks[i+1 : i+n] {
				for r := b.from; r <= b.to; r++ {
					a.drawn[r] = first.from + r - b.from
				}
			}
			first.times = n
			last := a.blocks[i+n-1].name
			first.name += "–" + strings.TrimPrefix(last, group(last)+".")
		}
		i += n
	}
}

// look is equal for blocks that are drawn alike: same operations on same shapes, with same notes.
func (a *arrangement) look(b band) string {
	var s strings.Builder
	fmt.Fprintln(&s, group(b.name))
	for r := b.from; r <= b.to; r++ {
		for t := range tracks {
			for _, x := range a.cells[cell{r, t}] {
				o := x.op
				fmt.Fprintln(&s, r-b.from, t, o.Kind, layer(o.Name), o.Attr, shapes(o.In), shapes(o.Out), a.notes[o])
			}
		}
	}
	return s.String()
}

func shapes(tensors []*graph.Tensor) []string {
	var s []string
	for _, t := range tensors {
		s = append(s, t.Shape.String())
	}
	return s
}
