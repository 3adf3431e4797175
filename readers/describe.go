package readers

import (
	"fmt"
	"strings"
)

// Description says what one half of a data set holds.
type Description struct {
	Type, Path string
	Split      Split
	Samples    int
	C, H, W    int // of a sample after the transforms
	Classes    []string
	PerClass   []int // samples of each class
	Notes      []string
}

func (d *dataset) Describe() Description {
	c, h, w := d.Shape()
	s := Description{
		Type: d.kind, Path: d.path, Split: d.split, Samples: d.Len(), C: c, H: h, W: w,
		Classes: d.classes, PerClass: make([]int, len(d.classes)), Notes: append([]string(nil), d.notes...),
	}
	for _, label := range d.labels {
		s.PerClass[label]++
	}
	var none []string
	for i, n := range s.PerClass {
		if n == 0 {
			none = append(none, s.Classes[i])
		}
	}
	if len(none) > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("no sample of %d of %d classes: %s", len(none), len(s.Classes), shorten(none)))
	}
	return s
}

// String returns a few lines for a person.
func (d Description) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d samples of shape %dx%dx%d in %d classes, from %s\n",
		d.Split, d.Samples, d.C, d.H, d.W, len(d.Classes), d.Path)
	var counts []string
	for i, n := range d.PerClass {
		counts = append(counts, fmt.Sprintf("%s %d", d.Classes[i], n))
	}
	fmt.Fprintf(&b, "  %s\n", shorten(counts))
	for _, n := range d.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	return b.String()
}

// shorten joins a list of which only the beginning is shown where it is long.
func shorten(list []string) string {
	if len(list) > 20 {
		return fmt.Sprintf("%s, and %d more", strings.Join(list[:20], ", "), len(list)-20)
	}
	return strings.Join(list, ", ")
}
