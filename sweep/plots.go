package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gotrain/internal/svg"
)

// plots are the pictures of a sweep's results, by their file's name. One that shows nothing is empty.
var plots = map[string]func(*Results) string{"parameters.svg": drawParameters, "curves.svg": drawCurves, "parallel.svg": drawParallel}

// color is that of a trial by its rank, from the best, which is blue, to the worst.
func (s *Results) color(rank int) string {
	worst := max(1, s.ranked()-1)
	share := float64(rank) / float64(worst)
	mix := func(a, b float64) int { return int(a + (b-a)*share) }
	return fmt.Sprintf("#%02x%02x%02x", mix(0, 235), mix(80, 170), mix(160, 90))
}

// ranked is the number of trials with a result; they come first.
func (s *Results) ranked() int {
	n := slices.IndexFunc(s.Trials, func(t Result) bool { return t.Mean == nil })
	if n < 0 {
		return len(s.Trials)
	}
	return n
}

// axis maps values to pixels: numbers on a line or by their logarithms, texts in their order.
type axis struct {
	low, high float64 // of the values, or of their logarithms
	from, to  float64 // pixels
	log       bool
	texts     []string // of a text axis
}

// pixel is where a number is.
func (a axis) pixel(v float64) float64 {
	if a.log {
		v = math.Log10(v)
	}
	return a.from + (a.to-a.from)*(v-a.low)/(a.high-a.low)
}

// place is where a value of a parameter is.
func (a axis) place(text string) float64 {
	if a.texts != nil {
		return a.pixel(float64(slices.Index(a.texts, text)))
	}
	v, _ := strconv.ParseFloat(text, 64)
	return a.pixel(v)
}

// marks are values with their words.
func (a axis) marks() (at []float64, words []string) {
	switch {
	case a.texts != nil:
		for i, t := range a.texts {
			if len([]rune(t)) > 14 {
				t = string([]rune(t)[:12]) + "..."
			}
			at, words = append(at, a.from+(a.to-a.from)*(float64(i)-a.low)/(a.high-a.low)), append(words, t)
		}
		return at, words
	case a.log:
		step := max(1, math.Ceil((a.high-a.low)/4))
		for e := math.Ceil(a.low - 1e-9); e <= a.high+1e-9; e += step {
			at, words = append(at, a.pixel(math.Pow(10, e))), append(words, fmt.Sprintf("1e%.0f", e))
		}
		if len(at) > 1 {
			return at, words
		}
		at, words = nil, nil
		for _, share := range []float64{0, 0.5, 1} {
			v := math.Pow(10, a.low+share*(a.high-a.low))
			at, words = append(at, a.pixel(v)), append(words, strconv.FormatFloat(v, 'g', 2, 64))
		}
		return at, words
	}
	unit := svg.Tick(a.high - a.low)
	if (a.high-a.low)/unit > 5 {
		unit *= 2
	}
	for n := math.Ceil(a.low/unit - 1e-9); n*unit <= a.high+1e-9*unit; n++ {
		at, words = append(at, a.pixel(n*unit)), append(words, strconv.FormatFloat(n*unit, 'g', 4, 64))
	}
	return at, words
}

// numbers makes an axis of numbers, with some room at both ends.
func numbers(values []float64, from, to float64, log bool) axis {
	a := axis{from: from, to: to, log: log, low: slices.Min(values), high: slices.Max(values)}
	if log {
		a.low, a.high = math.Log10(a.low), math.Log10(a.high)
	}
	room := 0.05 * (a.high - a.low)
	if room == 0 {
		room = max(math.Abs(a.low), 1) * 0.05
	}
	a.low, a.high = a.low-room, a.high+room
	return a
}

// parameterAxis makes the axis of a parameter: of numbers where all its values are, and logarithmic where they span much.
func (s *Results) parameterAxis(k int, from, to float64) axis {
	var texts []string
	var values []float64
	for _, t := range s.Trials {
		if !slices.Contains(texts, t.Values[k]) {
			texts = append(texts, t.Values[k])
		}
		if v, err := strconv.ParseFloat(t.Values[k], 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) < len(s.Trials) {
		slices.Sort(texts)
		return axis{low: -0.5, high: float64(len(texts)) - 0.5, from: from, to: to, texts: texts}
	}
	low, high := slices.Min(values), slices.Max(values)
	return numbers(values, from, to, low > 0 && high/low >= 20)
}

// metricAxis makes the axis of the metric. It is logarithmic where values span much.
func (s *Results) metricAxis(from, to float64) axis {
	var values []float64
	for _, t := range s.Trials {
		values = append(values, t.Results...)
	}
	low := slices.Min(values)
	return numbers(values, from, to, low > 0 && slices.Max(values)/low >= 50)
}

// vertical draws an axis from bottom to top, with a grid.
func vertical(p *svg.Picture, a axis, left, right float64) {
	at, words := a.marks()
	for i, y := range at {
		p.Line(left, y, right, y, svg.Faint)
		p.Text(left-6, y+4, "end", svg.Grey, words[i])
	}
}

// drawParameters draws the metric against each parameter: a dot a run, a ring around the mean of a trial, and a cross for a trial
// without a result.
func drawParameters(s *Results) string {
	if s.ranked() == 0 {
		return ""
	}
	const width, height, columns = 330., 285., 3
	n := len(s.Keys)
	rows := (n + columns - 1) / columns
	p := svg.New(20+width*float64(min(n, columns)), 60+height*float64(rows))
	p.Text(20, 28, "start", `font-size="16"`, fmt.Sprintf("%s: %s against each parameter (a dot a run, a ring a trial's mean, × no result)", s.Name, s.Metric))
	for k, key := range s.Keys {
		left, top := 20+width*float64(k%columns)+50, 60+height*float64(k/columns)
		right, bottom := left+width-70, top+height-75
		y, x := s.metricAxis(bottom, top), s.parameterAxis(k, left, right)
		vertical(p, y, left, right)
		p.Line(left, bottom, right, bottom, svg.Strong)
		at, words := x.marks()
		for i, px := range at {
			p.Line(px, bottom, px, bottom+4, svg.Strong)
			style, anchor := svg.Grey, "middle"
			if x.texts != nil && len(at) > 3 {
				style, anchor = svg.Grey+fmt.Sprintf(` transform="rotate(-25 %.1f %.1f)"`, px+4, bottom+18), "end"
			}
			p.Text(px, bottom+18, anchor, style, words[i])
		}
		p.Text((left+right)/2, bottom+44, "middle", `font-weight="bold"`, key)
		for rank := len(s.Trials) - 1; rank >= 0; rank-- { // the best lies on top
			t := s.Trials[rank]
			px := x.place(t.Values[k])
			if t.Mean == nil {
				p.Text(px, top+2, "middle", `fill="#b00" font-weight="bold"`, "×")
				continue
			}
			for _, v := range t.Results {
				p.Circle(px, y.pixel(v), 2.5, s.color(rank), `fill-opacity="0.6"`)
			}
			p.Circle(px, y.pixel(*t.Mean), 5, "none", fmt.Sprintf(`stroke="%s" stroke-width="2"`, s.color(rank)))
		}
	}
	return p.End()
}

// drawCurves draws the metric of all runs by epoch, the best trial's thick, with the first few named.
func drawCurves(s *Results) string {
	const left, right, top, bottom = 70., 620., 60., 420.
	var values []float64
	epochs := 0
	for _, t := range s.Trials {
		for _, c := range t.curves {
			epochs = max(epochs, len(c))
			for _, v := range c {
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					values = append(values, v)
				}
			}
		}
	}
	if len(values) == 0 || s.ranked() == 0 {
		return ""
	}
	p := svg.New(800, 480)
	y := numbers(values, bottom, top, slices.Min(values) > 0 && slices.Max(values)/slices.Min(values) >= 50)
	x := axis{low: 1, high: math.Max(2, float64(epochs)), from: left, to: right}
	p.Text(left, 28, "start", `font-size="16"`, fmt.Sprintf("%s: %s of all runs, by epoch", s.Name, curveName(s.Metric)))
	vertical(p, y, left, right)
	p.Line(left, bottom, right, bottom, svg.Strong)
	step := max(1, math.Ceil(float64(epochs)/10))
	for e := 1.; e <= float64(epochs); e += step {
		p.Line(x.pixel(e), bottom, x.pixel(e), bottom+4, svg.Strong)
		p.Text(x.pixel(e), bottom+20, "middle", svg.Grey, fmt.Sprintf("%.0f", e))
	}
	p.Text((left+right)/2, bottom+44, "middle", svg.Grey, "epoch")
	for rank := len(s.Trials) - 1; rank >= 0; rank-- {
		t := s.Trials[rank]
		style := fmt.Sprintf(`stroke="%s" stroke-width="1.5"`, s.color(rank))
		switch {
		case t.Mean == nil:
			style = `stroke="#b00" stroke-width="1" stroke-dasharray="3 3"`
		case rank == 0:
			style = fmt.Sprintf(`stroke="%s" stroke-width="3"`, s.color(rank))
		}
		for _, c := range t.curves {
			var points [][2]float64
			for e, v := range c {
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					points = append(points, [2]float64{x.pixel(float64(e + 1)), y.pixel(v)})
				}
			}
			if len(points) == 1 {
				p.Circle(points[0][0], points[0][1], 3, s.color(min(rank, s.ranked()-1)), "")
			} else if len(points) > 1 {
				p.Polyline(points, style)
			}
		}
	}
	p.Text(right+16, top, "start", `font-weight="bold"`, "from the best")
	for rank := range min(s.ranked(), 15) {
		t := s.Trials[rank]
		p.Text(right+16, top+22+20*float64(rank), "start", fmt.Sprintf(`fill="%s"`, s.color(rank)), fmt.Sprintf("trial %d: %s", t.Trial, s.metric.show(*t.Mean)))
	}
	return p.End()
}

// drawParallel draws a line a trial across an axis for each parameter and one for the metric (Inselberg, "The plane with parallel
// coordinates", The Visual Computer 1, 1985).
func drawParallel(s *Results) string {
	if s.ranked() == 0 {
		return ""
	}
	const gap, left, top, bottom = 190., 110., 80., 400.
	n := len(s.Keys)
	p := svg.New(left+gap*float64(n)+120, 440)
	p.Text(20, 28, "start", `font-size="16"`, fmt.Sprintf("%s: a line a trial, from its parameters to its %s; the best is blue", s.Name, s.Metric))
	axes := make([]axis, n+1)
	for k := range axes {
		x := left + gap*float64(k)
		title := s.Metric
		if k < n {
			axes[k], title = s.parameterAxis(k, bottom, top), s.Keys[k][strings.LastIndexByte(s.Keys[k], '.')+1:]
		} else {
			axes[k] = s.metricAxis(bottom, top)
		}
		p.Text(x, top-18, "middle", `font-weight="bold"`, title)
	}
	for rank := s.ranked() - 1; rank >= 0; rank-- {
		t := s.Trials[rank]
		var points [][2]float64
		for k := range s.Keys {
			points = append(points, [2]float64{left + gap*float64(k), axes[k].place(t.Values[k])})
		}
		points = append(points, [2]float64{left + gap*float64(n), axes[n].pixel(*t.Mean)})
		width := 1.5
		if rank == 0 {
			width = 3
		}
		p.Polyline(points, fmt.Sprintf(`stroke="%s" stroke-width="%g"`, s.color(rank), width))
	}
	for k, a := range axes {
		x := left + gap*float64(k)
		p.Line(x, bottom, x, top, svg.Strong)
		at, words := a.marks()
		for i, y := range at {
			p.Line(x-4, y, x, y, svg.Strong)
			p.Text(x-8, y+4, "end", svg.Grey+` stroke="white" stroke-width="3" paint-order="stroke"`, words[i])
		}
	}
	return p.End()
}
