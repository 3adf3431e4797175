// Package svg writes the elements of simple plots: lines, dots and words on a white ground. It lays nothing out.
package svg

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Picture collects the elements of a picture. It has a white background, so that it reads on dark pages as well.
type Picture struct {
	strings.Builder
}

// New begins a picture of a size in pixels.
func New(width, height float64) *Picture {
	s := &Picture{}
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" font-family="sans-serif" font-size="13">`+"\n", width, height, width, height)
	fmt.Fprintf(s, `<rect width="%g" height="%g" fill="white"/>`+"\n", width, height)
	return s
}

// End is the whole picture.
func (s *Picture) End() string { return s.String() + "</svg>\n" }

// Line draws a line; style has further attributes.
func (s *Picture) Line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
}

// Rect fills a rectangle.
func (s *Picture) Rect(x, y, width, height float64, fill string) {
	fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, width, height, fill)
}

// Circle fills a circle; style has further attributes.
func (s *Picture) Circle(x, y, radius float64, fill, style string) {
	fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s" %s/>`+"\n", x, y, radius, fill, style)
}

// Text writes words; anchor is start, middle or end.
func (s *Picture) Text(x, y float64, anchor, style, words string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, style, html.EscapeString(words))
}

// Polyline draws a line through points; style has further attributes.
func (s *Picture) Polyline(points [][2]float64, style string) {
	s.WriteString(`<polyline points="`)
	for i, p := range points {
		if i > 0 {
			s.WriteByte(' ')
		}
		fmt.Fprintf(s, "%.1f,%.1f", p[0], p[1])
	}
	fmt.Fprintf(s, `" fill="none" %s/>`+"\n", style)
}

// Styles of what is not data.
const (
	Faint  = `stroke="#ddd"`
	Strong = `stroke="#444"`
	Grey   = `fill="#555"`
)

// Tick is a round distance between four to eight marks up to a value.
func Tick(most float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{0.1, 0.2, 0.25, 0.5, 1, 2} {
		if most/(f*unit) <= 8 {
			return f * unit
		}
	}
	return unit
}
