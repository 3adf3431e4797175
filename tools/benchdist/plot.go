package main

import (
	"fmt"
	"math"
	"strings"

	"gotrain/internal/svg"
)

// look of each curve. Colors are told apart by people who see few of them, and dashes by printers.
var look = map[string]struct{ color, dash string }{
	"32":      {"#0072b2", ""},
	"1":       {"#d55e00", ""},
	cntk:      {"#000000", "6 3"},
	torch:     {"#009e73", "2 3"},
	torchFP16: {"#cc79a7", "2 3"},
}

// drawSpeeds draws samples per second against the rate of links.
func (r *record) drawSpeeds(depth string) string {
	const left, right, top, bottom = 70., 590., 50., 380.
	s := svg.New(760, 440)
	var rates []string // from the slowest to the fastest
	for _, rate := range r.rates() {
		if rate != local {
			rates = append([]string{rate}, rates...)
		}
	}
	most := 0.0
	for _, rate := range rates {
		for setting := range look {
			most = max(most, r.speed(depth, rate, setting))
		}
	}
	// One decade of the rate is one unit; unshaped stands one behind the fastest.
	position, last := map[string]float64{}, 0.0
	for i, rate := range rates {
		if v := bytesPerSecond(rate); v > 0 {
			last = math.Log10(v)
		} else if i > 0 {
			last++
		}
		position[rate] = last
	}
	if len(rates) == 0 || most == 0 {
		return s.End()
	}
	low, high := position[rates[0]], position[rates[len(rates)-1]]
	x := func(rate string) float64 { return left + (right-left)*(position[rate]-low)/max(high-low, 1e-9) }
	unit := svg.Tick(most)
	ceiling := unit * math.Ceil(most/unit)
	y := func(v float64) float64 { return bottom - (bottom-top)*v/ceiling }
	s.Text(left, 28, "start", `font-size="16"`, "ResNet-"+depth+" on 4 hosts, minibatches of 128: samples per second")
	for v := 0.0; v <= ceiling; v += unit {
		s.Line(left, y(v), right, y(v), svg.Faint)
		s.Text(left-8, y(v)+4, "end", svg.Grey, fmt.Sprintf("%.0f", v))
	}
	for _, rate := range rates {
		s.Line(x(rate), bottom, x(rate), bottom+5, svg.Strong)
		s.Text(x(rate), bottom+22, "middle", svg.Grey, rateName(rate))
	}
	s.Line(left, bottom, right, bottom, svg.Strong)
	s.Text((left+right)/2, bottom+46, "middle", svg.Grey, "rate of each host's link (logarithmic)")
	type label struct {
		y       float64
		setting string
	}
	var labels []label
	for _, setting := range []string{"32", "1", cntk, torch, torchFP16} {
		var points []string
		end := 0.0
		for _, rate := range rates {
			if v := r.speed(depth, rate, setting); v > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(rate), y(v)))
				fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x(rate), y(v), look[setting].color)
				end = y(v)
			}
		}
		if len(points) == 0 {
			continue
		}
		fmt.Fprintf(s, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
			strings.Join(points, " "), look[setting].color, look[setting].dash)
		labels = append(labels, label{end, setting})
	}
	// Labels keep the order of the curves' ends, and a line's distance.
	for i := range labels {
		for j := i; j > 0 && labels[j].y < labels[j-1].y; j-- {
			labels[j], labels[j-1] = labels[j-1], labels[j]
		}
	}
	for i := range labels {
		if i > 0 {
			labels[i].y = max(labels[i].y, labels[i-1].y+18)
		}
	}
	for _, l := range labels {
		s.Text(right+12, l.y+4, "start", fmt.Sprintf(`fill="%s" font-weight="bold"`, look[l.setting].color), settingName(l.setting))
	}
	return s.End()
}

// drawTimes draws where the time of a minibatch goes: a panel with a scale of its own for each rate, and in it a bar for each
// setting.
func (r *record) drawTimes(depth string) string {
	const left, right, bar, gap = 170., 620., 18., 6.
	parts := []struct {
		name, color string
		of          func(step) float64
	}{
		{"compute", "#56b4e9", func(s step) float64 { return s.compute }},
		{"quantize", "#e69f00", func(s step) float64 { return s.quantize }},
		{"exchange exposed", "#d55e00", func(s step) float64 { return s.exposed }},
	}
	rates := r.rates()
	panel := 34 + float64(len(compared))*(bar+gap) + 14
	s := svg.New(760, 70+panel*float64(len(rates)))
	s.Text(20, 28, "start", `font-size="16"`, "ResNet-"+depth+", 4 workers, minibatches of 128: where a minibatch's time goes")
	x := 20.0
	for _, p := range parts {
		s.Rect(x, 42, 14, 14, p.color)
		s.Text(x+20, 54, "start", svg.Grey, p.name)
		x += 30 + 8*float64(len(p.name))
	}
	y := 70.0
	for _, rate := range rates {
		most := 0.0
		for _, setting := range compared {
			most = max(most, r.step(depth, rate, setting).total())
		}
		name := rateName(rate)
		if bytesPerSecond(rate) > 0 || rate == "none" {
			name += " links"
		}
		s.Text(20, y+20, "start", `font-weight="bold"`, name)
		y += 34
		for _, setting := range compared {
			step := r.step(depth, rate, setting)
			if step.total() == 0 {
				continue
			}
			s.Text(left-10, y+bar-5, "end", svg.Grey, settingName(setting))
			x := left
			for _, p := range parts {
				width := (right - left) * p.of(step) / most
				s.Rect(x, y, width, bar, p.color)
				x += width
			}
			s.Text(x+8, y+bar-5, "start", svg.Grey, milliseconds(step.total())+" ms")
			y += bar + gap
		}
		y += 14
	}
	out := s.End()
	full := fmt.Sprintf("%g", 70+panel*float64(len(rates)))
	return strings.ReplaceAll(out, `height="`+full+`"`, fmt.Sprintf(`height="%g"`, y)) // where bars are missing
}
