package draw

import (
	"fmt"
	"strings"
)

// header is the title, what the plan amounts to, the legend, and the names of the columns.
func (s *picture) header() {
	s.text(margin, 32, 20, "label", s.options.title(s.plan))
	facts := summary(s.plan)
	if s.plan.Inference { // in two lines, for lack of width
		s.facts(52, "", facts[:4])
		s.facts(69, "", facts[4:])
	} else {
		s.facts(52, "", facts)
		s.facts(69, "arenas: ", arenas(s.plan))
	}
	x := float64(margin)
	for _, l := range legend {
		s.fill(rect{x, 85, 18, 12}, l.paint, 3)
		s.text(x+23, 95, 10.5, "", l.name)
		x += 23 + textWidth(l.name, 10.5) + 8
	}
	s.line(shortcut, point{x, 91}, point{x + 18, 91})
	s.text(x+23, 95, 10.5, "", "shortcut")
	x += 23 + textWidth("shortcut", 10.5) + 8
	help := fmt.Sprintf("shapes: channels×rows×columns, for each of %d samples; bytes: of all samples", s.plan.Batch)
	if !s.plan.Inference {
		help += "; ∂x, ∂w: gradients by data and by weights"
	}
	s.text(margin, 114, 10.5, "faint", help)
	s.text(columns[forwardMain].x, 140, 12, "label", "forward ↓")
	if !s.plan.Inference {
		s.text(columns[backwardMain].x, 140, 12, "label", "backward ↑")
		s.text(bucketX, 140, 12, "label", "gradients, update")
	}
}

func (s *picture) facts(y float64, lead string, facts [][2]string) {
	var words []string
	for _, f := range facts {
		words = append(words, fmt.Sprintf(`%s <tspan class="label">%s</tspan>`, escape(f[0]), escape(f[1])))
	}
	s.printf(`<text x="%d" y="%s" font-size="11.5">%s%s</text>`+"\n", margin, px(y), lead, strings.Join(words, " · "))
}

// frames draws the stages and their blocks, behind everything.
func (s *picture) frames() {
	x := float64(margin)
	for _, g := range s.layout.groups {
		y, end := s.y[g.from]-groupPad, s.y[g.to]+boxHeight+groupPad
		s.fill(rect{x, y, s.right - x, end - y}, stagePaint, 8)
		s.upright(x+12, y+3, end-3, 13, "label", g.name)
		s.printf("\n")
	}
	x += 24
	for _, b := range s.layout.blocks {
		y, end := s.y[b.from]-blockPad, s.y[b.to]+boxHeight+blockPad
		r := rect{x, y, s.right - x - 8, end - y}
		if b.times > 1 { // a second frame looks out from behind
			s.fill(rect{r.x + 4, r.y - 3, r.w, r.h}, stagePaint, 6)
			s.fill(r, paint{blockPaint.fill, stagePaint.line}, 6)
			s.upright(x+14, y+3, end-3, 11, "label", fmt.Sprintf("%s, ×%d", b.name, b.times))
		} else {
			s.fill(r, blockPaint, 6)
			s.upright(x+14, y+3, end-3, 11, "", b.name)
		}
		s.printf("\n")
	}
}
