package draw

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"gotrain/graph"
)

// DOT writes a plan in the language of Graphviz: a node an operation, framed by phase and by the first part of its name,
// and an edge a tensor that one operation hands another, activations that the backward pass reads again (dashed) included.
func DOT(w io.Writer, p *graph.Plan, o Options) error {
	out := bufio.NewWriter(w)
	var facts []string
	for _, f := range summary(p) {
		facts = append(facts, f[0]+" "+f[1])
	}
	fmt.Fprintf(out, "digraph plan {\n  label=%s; labelloc=t; fontname=\"sans-serif\";\n", quote(o.title(p)+"\n"+strings.Join(facts, ", ")))
	fmt.Fprintln(out, `  node [shape=box, style="filled,rounded", fontname="sans-serif", fontsize=10]; edge [fontname="sans-serif", fontsize=8];`)
	producer := map[*graph.Tensor]string{}
	if t := p.Inputs.Images; t != nil {
		producer[t] = "images"
		fmt.Fprintf(out, "  images [label=%s];\n", quote("images\n"+t.Shape.String()))
	}
	index := map[*graph.Op]int{}
	var order []string
	members := map[string][]*graph.Op{}
	for i, op := range p.Ops {
		index[op] = i
		for _, t := range op.Out {
			producer[t] = node(i)
		}
		frame := op.Phase.String() + " " + group(op.Name)
		if members[frame] == nil {
			order = append(order, frame)
		}
		members[frame] = append(members[frame], op)
	}
	for i, frame := range order {
		fmt.Fprintf(out, "  subgraph cluster_%d {\n    label=%s; style=rounded; color=\"%s\";\n", i, quote(frame), stagePaint.line)
		for _, op := range members[frame] {
			c := paintOf(op.Kind)
			label := op.Name + "\n" + plain.operation(op)
			if len(op.Out) > 0 {
				label += "\n" + op.Out[0].Shape.String() + ", " + size(written(op))
			}
			if note := o.Notes[op]; note != "" {
				label += "\n" + note
			}
			fmt.Fprintf(out, "    %s [label=%s, fillcolor=\"%s\", color=\"%s\"];\n", node(index[op]), quote(label), c.fill, c.line)
		}
		fmt.Fprintln(out, "  }")
	}
	for i, op := range p.Ops {
		seen := map[string]bool{}
		for _, t := range op.In {
			from := producer[t]
			if from == "" || seen[from] {
				continue
			}
			seen[from] = true
			style := ""
			if op.Phase == graph.Backward && t.Of == nil {
				style = " [style=dashed, constraint=false, color=\"#9ca3af\"]"
			}
			fmt.Fprintf(out, "  %s -> %s%s;\n", from, node(i), style)
		}
	}
	fmt.Fprintln(out, "}")
	return out.Flush()
}

func node(i int) string { return fmt.Sprintf("op%d", i) }

// quote is a string in DOT: between double quotes, which a backslash escapes.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
