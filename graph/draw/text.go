package draw

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gotrain/graph"
)

// Text writes a plan as a table, one line an operation, in the order in which they run: index, phase, layer, what is
// computed, the shape of the first result, the bytes of all results, where the first one lives (a byte offset into the
// block of intermediates, or the offset of a value in the arena of gradients), FLOPs, and the note if there are any.
// Buckets, memory and arenas follow.
func Text(w io.Writer, p *graph.Plan, o Options) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s\n\n", o.title(p))
	ops := table{right: []bool{0: true, 5: true, 6: true, 7: true}}
	ops.add("op", "phase", "layer", "operation", "result", "bytes", "offset", "FLOPs")
	for i, op := range p.Ops {
		shape := "-"
		if len(op.Out) > 0 {
			shape = op.Out[0].Shape.String()
		}
		ops.add(fmt.Sprint(i), op.Phase.String(), op.Name, plain.operation(op), shape, fmt.Sprint(written(op)), offset(p, op), fmt.Sprint(op.FLOPs()))
	}
	if len(o.Notes) > 0 {
		ops.rows[0] = append(ops.rows[0], "note")
		for i, op := range p.Ops {
			ops.rows[i+1] = append(ops.rows[i+1], o.Notes[op])
		}
	}
	ops.write(out)
	if len(p.Buckets) > 0 {
		buckets := table{right: []bool{true, true, true, true, true}}
		buckets.add("bucket", "begin", "end", "bytes", "after op")
		for i, b := range p.Buckets {
			buckets.add(fmt.Sprint(i), fmt.Sprint(b.Begin), fmt.Sprint(b.End), fmt.Sprint(4*(b.End-b.Begin)), fmt.Sprint(b.Ready-1))
		}
		fmt.Fprintln(out)
		buckets.write(out)
	}
	var facts, blocks table
	for _, f := range summary(p) {
		facts.add(f[0], f[1])
	}
	for _, a := range arenas(p) {
		blocks.add("arena", a[0], a[1])
	}
	fmt.Fprintln(out)
	facts.write(out)
	fmt.Fprintln(out)
	blocks.write(out)
	return out.Flush()
}

// offset is where the first result of an operation lives.
func offset(p *graph.Plan, o *graph.Op) string {
	if len(o.Out) == 0 {
		return "-"
	}
	t := o.Out[0]
	if t.Role == graph.ParameterGradient {
		if s, ok := p.Parameters.Find(t.Of.Name); ok {
			return fmt.Sprintf("gradients[%d]", s.Offset)
		}
	}
	return fmt.Sprint(p.Memory.Offset[t.ID])
}

// table is text in aligned columns.
type table struct {
	right []bool // columns of numbers
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range t.rows {
		line := ""
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i < len(t.right) && t.right[i] {
				c = pad + c
			} else {
				c += pad
			}
			line += c + "  "
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}
