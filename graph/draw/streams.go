package draw

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// Work is one piece of work that a stream of a device does in a step, as an executor gives it to the device.
type Work struct {
	Worker, Device int
	Stream         string
	What           string
	After          []int // the pieces that it waits for, by index
}

func (w Work) lane() string {
	return fmt.Sprintf("device %d, worker %d, %s", w.Device, w.Worker, w.Stream)
}

// streamOrder puts streams beside those that they wait for most.
var streamOrder = map[string]int{"copy": 0, "compute": 1, "exchange": 2}

// lanesOf lists the streams, by device and worker.
func lanesOf(all []Work) (lanes []Work) {
	for _, w := range all {
		if !slices.ContainsFunc(lanes, func(l Work) bool { return l.lane() == w.lane() }) {
			lanes = append(lanes, w)
		}
	}
	slices.SortStableFunc(lanes, func(a, b Work) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Worker, b.Worker), cmp.Compare(streamOrder[a.Stream], streamOrder[b.Stream]))
	})
	return lanes
}

// across are what a piece of work waits for in other streams.
func across(all []Work, i int) (from []int) {
	for _, n := range all[i].After {
		if all[n].lane() != all[i].lane() {
			from = append(from, n)
		}
	}
	return from
}

// StreamsText writes work as a table, in the order in which streams are given it. What waits for work of its own stream alone has
// nothing in the last column.
func StreamsText(w io.Writer, all []Work) error {
	out := bufio.NewWriter(w)
	t := table{right: []bool{true, true, true}}
	t.add("work", "device", "worker", "stream", "what", "waits for")
	for i, x := range all {
		var from []string
		for _, n := range across(all, i) {
			from = append(from, fmt.Sprint(n))
		}
		t.add(fmt.Sprint(i), fmt.Sprint(x.Device), fmt.Sprint(x.Worker), x.Stream, x.What, strings.Join(from, " "))
	}
	t.write(out)
	return out.Flush()
}

// StreamsDOT writes work in the language of Graphviz: a frame a stream, and an edge for whatever waits.
func StreamsDOT(w io.Writer, all []Work) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "digraph streams {\n  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", fontsize=10, fillcolor=\"#f3f4f6\"];")
	for i, l := range lanesOf(all) {
		fmt.Fprintf(out, "  subgraph cluster_%d {\n    label=%s; style=rounded; color=\"%s\";\n", i, quote(l.lane()), stagePaint.line)
		for n, x := range all {
			if x.lane() == l.lane() {
				fmt.Fprintf(out, "    %s [label=%s];\n", node(n), quote(x.What))
			}
		}
		fmt.Fprintln(out, "  }")
	}
	for n, x := range all {
		for _, from := range x.After {
			fmt.Fprintf(out, "  %s -> %s;\n", node(from), node(n))
		}
	}
	fmt.Fprintln(out, "}")
	return out.Flush()
}

// Measures of the drawing of streams, in pixels.
const (
	workWidth  = 250
	workHeight = 15
	workRow    = 19
	workTop    = 64
)

// StreamsSVG draws work: a column a stream, time from top to bottom, each piece as high up as what it waits for allows, and a line
// for each wait across streams.
func StreamsSVG(w io.Writer, all []Work, title string) error {
	lanes := lanesOf(all)
	column := map[string]int{}
	for i, l := range lanes {
		column[l.lane()] = i
	}
	row, last := make([]int, len(all)), 0
	for i, x := range all {
		for _, n := range x.After {
			row[i] = max(row[i], row[n]+1)
		}
		last = max(last, row[i])
	}
	x := func(i int) int { return margin + column[all[i].lane()]*(workWidth+40) }
	y := func(i int) int { return workTop + row[i]*workRow }
	out := bufio.NewWriter(w)
	width, height := margin+len(lanes)*(workWidth+40), workTop+(last+1)*workRow+margin
	fmt.Fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"10\">\n", width, height, width, height)
	fmt.Fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n<text x=\"%d\" y=\"24\" font-size=\"15\">%s</text>\n", width, height, margin, html.EscapeString(title))
	for i, l := range lanes {
		fmt.Fprintf(out, "<text x=\"%d\" y=\"48\" font-weight=\"bold\">%s</text>\n", margin+i*(workWidth+40), html.EscapeString(l.lane()))
	}
	for i := range all {
		for _, n := range across(all, i) {
			x1, x2 := x(n)+workWidth, x(i)
			if x1 > x2 {
				x1, x2 = x(n), x(i)+workWidth
			}
			fmt.Fprintf(out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\"/>\n", x1, y(n)+workHeight/2, x2, y(i)+workHeight/2, stagePaint.line)
		}
	}
	paints := map[string]paint{"compute": {"#dbeafe", "#1d4ed8"}, "copy": {"#fef3c7", "#b45309"}, "exchange": {"#dcfce7", "#15803d"}}
	for i, k := range all {
		p, ok := paints[k.Stream]
		if !ok {
			p = plainPaint
		}
		fmt.Fprintf(out, "<g><title>%s</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"%s\" stroke=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text></g>\n",
			html.EscapeString(k.lane()+": "+k.What), x(i), y(i), workWidth, workHeight, p.fill, p.line, x(i)+5, y(i)+workHeight-4, html.EscapeString(cut(k.What, 44)))
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// cut shortens a text to so many characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
