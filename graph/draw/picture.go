package draw

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
	"unicode/utf8"

	"gotrain/graph"
)

// picture is an SVG document in the making.
type picture struct {
	plan          *graph.Plan
	options       Options
	layout        *layout
	out           bytes.Buffer
	y             []float64 // the top of each row
	width, height float64
	right         float64 // of the frames
	bus           float64 // where the line from the buckets to the update runs
}

type point struct{ x, y float64 }

type rect struct{ x, y, w, h float64 }

// paint is a fill and a line. The fills are light, and their text black, so that nothing is lost in black and white.
type paint struct{ fill, line string }

var (
	plainPaint = paint{"#f3f4f6", "#4b5563"}
	darkPaint  = paint{"#334155", "#0f172a"}
	stagePaint = paint{"#f8fafc", "#94a3b8"}
	blockPaint = paint{"#ffffff", "#cbd5e1"}
)

// legend gives the paint of operations, by what they are.
var legend = []struct {
	name  string
	paint paint
	kinds []graph.Kind
}{
	{"convolution", paint{"#dbeafe", "#1d4ed8"}, []graph.Kind{graph.Conv, graph.ConvBackwardData, graph.ConvBackwardWeights}},
	{"batch norm", paint{"#dcfce7", "#15803d"}, []graph.Kind{graph.BatchNorm, graph.BatchNormInference, graph.BatchNormBackward}},
	{"add, relu", paint{"#fef3c7", "#b45309"}, []graph.Kind{graph.Add, graph.ReLU, graph.ReLUBackward}},
	{"pooling, subsampling", paint{"#fae8ff", "#a21caf"}, []graph.Kind{graph.MaxPool, graph.MaxPoolBackward,
		graph.GlobalAveragePool, graph.GlobalAveragePoolBackward, graph.Subsample, graph.SubsampleBackward}},
	{"dense", paint{"#e0e7ff", "#4338ca"}, []graph.Kind{graph.Dense, graph.DenseBackwardData, graph.DenseBackwardWeights}},
	{"loss", paint{"#fee2e2", "#b91c1c"}, []graph.Kind{graph.SoftmaxCrossEntropy}},
}

func paintOf(k graph.Kind) paint {
	for _, l := range legend {
		for _, kind := range l.kinds {
			if kind == k {
				return l.paint
			}
		}
	}
	return plainPaint
}

func (s *picture) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// px words a measure with one decimal at most.
func px(v float64) string { return fmt.Sprint(math.Round(v*10) / 10) }

func escape(s string) string { return html.EscapeString(s) }

func (s *picture) open() {
	s.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" font-family="Helvetica, Arial, sans-serif">
`, px(s.width), px(s.height))
	s.printf(`<style>text{fill:#111827}.label{font-weight:bold}.faint{fill:#4b5563}.light{fill:#fff}.note{font-weight:bold;fill:#9f1239}.end{text-anchor:end}.middle{text-anchor:middle}.stream,.shortcut{fill:none;stroke:#374151;stroke-width:1.3}.shortcut{stroke:#c2410c;stroke-width:2.4}</style>
<defs><marker id="stream" markerUnits="userSpaceOnUse" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0 .5 7 4 0 7.5z" fill="#374151"/></marker><marker id="shortcut" markerUnits="userSpaceOnUse" markerWidth="10" markerHeight="10" refX="8" refY="5" orient="auto"><path d="M0 .5 9 5 0 9.5z" fill="#c2410c"/></marker></defs>
<rect width="100%%" height="100%%" fill="#fff"/>
`)
}

func (s *picture) fill(r rect, p paint, radius float64) {
	s.printf(`<rect x="%s" y="%s" width="%s" height="%s" rx="%s" fill="%s" stroke="%s"/>`, px(r.x), px(r.y), px(r.w), px(r.h), px(radius), p.fill, p.line)
}

func (s *picture) text(x, y, size float64, class, text string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	s.printf(`<text x="%s" y="%s" font-size="%s"%s>%s</text>`, px(x), px(y), px(size), class, escape(text))
}

// fit is text, smaller where it would be wider than w.
func (s *picture) fit(x, y, w, size float64, class, text string) {
	if wide := textWidth(text, size); wide > w {
		size *= w / wide
	}
	s.text(x, y, size, class, text)
}

// upright is text that reads upwards, centred on x and between two heights.
func (s *picture) upright(x, from, to, size float64, class, text string) {
	if wide := textWidth(text, size); wide > to-from {
		size *= (to - from) / wide
	}
	s.printf(`<text transform="translate(%s %s) rotate(-90)" font-size="%s" class="%s">%s</text>`,
		px(x+size*0.36), px((from+to)/2), px(size), strings.TrimSpace(class+" middle"), escape(text))
}

// textWidth estimates the width of text from above: fonts differ, and bold ones are wide.
func textWidth(s string, size float64) float64 {
	return 0.58 * size * float64(utf8.RuneCountInString(s))
}

// Classes of lines.
const (
	stream   = "stream"
	shortcut = "shortcut"
)

func (s *picture) line(class string, points ...point) {
	s.printf(`<path class="%s" d="%s"/>`+"\n", class, rounded(points))
}

func (s *picture) arrow(class string, points ...point) {
	s.printf(`<path class="%s" marker-end="url(#%[1]s)" d="%s"/>`+"\n", class, rounded(points))
}

// rounded is a path along horizontal and vertical lines, with rounded corners.
func rounded(points []point) string {
	var d strings.Builder
	fmt.Fprintf(&d, "M%s %s", px(points[0].x), px(points[0].y))
	for i := 1; i < len(points)-1; i++ {
		a, b, c := points[i-1], points[i], points[i+1]
		near := min(7, length(a, b)/2, length(b, c)/2)
		p, q := towards(b, a, near), towards(b, c, near)
		fmt.Fprintf(&d, "L%s %sQ%s %s %s %s", px(p.x), px(p.y), px(b.x), px(b.y), px(q.x), px(q.y))
	}
	last := points[len(points)-1]
	fmt.Fprintf(&d, "L%s %s", px(last.x), px(last.y))
	return d.String()
}

func length(a, b point) float64 { return math.Hypot(b.x-a.x, b.y-a.y) }

// towards is the point at a distance from a on the way to b.
func towards(a, b point, distance float64) point {
	l := length(a, b)
	if l == 0 {
		return a
	}
	return point{a.x + (b.x-a.x)*distance/l, a.y + (b.y-a.y)*distance/l}
}
