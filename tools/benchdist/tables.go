package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// table is a piece of Markdown, which stands in the pages between two comments with its name.
type table struct{ name, text string }

// The comments around a table.
func opening(name string) string { return "<!-- bench-distributed: " + name + " -->\n" }

const closing = "<!-- /bench-distributed -->"

var place = regexp.MustCompile(`(?m)^<!-- bench-distributed: (.*) -->$`)

// tables are all that can be made of what was measured.
func (r *record) tables() (all []table) {
	add := func(name, text string) {
		if text != "" {
			all = append(all, table{name, text})
		}
	}
	if len(r.Results) == 0 {
		return nil
	}
	rounds := "one round"
	if n := r.rounds(); n > 1 {
		rounds = fmt.Sprintf("medians of up to %d rounds", n)
	}
	add("machine", fmt.Sprintf("%d cores of an %s, load before: %s; %s.\n", r.Cores, r.Processor, r.Load, rounds))
	for _, depth := range r.depths() {
		add("speed "+depth, r.speeds(depth))
		add("demands "+depth, r.demands(depth))
	}
	depth := r.depths()[0]
	add("choices", r.choices(depth))
	add("split", r.splits(depth))
	add("cntk", r.likeCNTK(depth))
	add("profile", r.profiled(depth))
	add("quantizer", r.quantizer())
	return all
}

// grid writes a table; the first column is text, the others are figures. A row without any is left out.
func grid(head []string, rows [][]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|---|%s\n", strings.Join(head, " | "), strings.Repeat("--:|", len(head)-1))
	any := false
	for _, row := range rows {
		if strings.Join(row[1:], "") != "" {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			any = true
		}
	}
	if !any {
		return ""
	}
	return b.String()
}

// head is a column for each rate behind the first.
func (r *record) head(first string) []string {
	head := []string{first}
	for _, rate := range r.rates() {
		head = append(head, rateName(rate))
	}
	return head
}

// row has a cell for each rate.
func (r *record) row(name string, cell func(rate string) string) []string {
	row := []string{name}
	for _, rate := range r.rates() {
		row = append(row, cell(rate))
	}
	return row
}

func (r *record) speeds(depth string) string {
	var rows [][]string
	for _, s := range r.settings() {
		if isPart(s) {
			continue // they stand beside CNTK's way
		}
		rows = append(rows, r.row(settingName(s), func(rate string) string {
			if v := r.speed(depth, rate, s); v > 0 {
				return fmt.Sprintf("%.0f", v)
			}
			return ""
		}))
	}
	return grid(r.head("ResNet-"+depth+", samples/s"), rows)
}

// demand is a ratio that should lie within bounds.
type demand struct {
	what  string
	ratio func(rate string) float64
	least map[string]float64 // by rate; none: it is for information
	most  float64            // 0: no bound
}

func (r *record) demands(depth string) string {
	at := func(rate, setting string) func(int) float64 {
		return func(round int) float64 { return r.in(round, depth, rate, setting, speed) }
	}
	over := func(a, b string) func(string) float64 {
		return func(rate string) float64 { return r.ratio(at(rate, a), at(rate, b)) }
	}
	best := func(rate string, wanted func(setting string) bool) func(int) float64 {
		return func(round int) (most float64) {
			for _, s := range r.settings() {
				if wanted(s) {
					most = max(most, r.in(round, depth, rate, s, speed))
				}
			}
			return most
		}
	}
	fixed := func(s string) bool { return bits(s) > 0 }
	predicted := func(bits string) func(string) float64 {
		return func(rate string) float64 {
			return r.ratio(func(round int) float64 {
				return r.in(round, depth, rate, profile, func(x result) float64 { return x.Predicted[bits] })
			}, func(round int) float64 {
				if v := r.in(round, depth, rate, bits, speed); v > 0 {
					return batch / v
				}
				return 0
			})
		}
	}
	all := func(v float64) map[string]float64 {
		m := map[string]float64{}
		for _, rate := range r.rates() {
			m[rate] = v
		}
		return m
	}
	hosts := all(1)
	delete(hosts, local)
	var rows [][]string
	for _, d := range []demand{
		{"1 bit / itself on unshaped links", func(rate string) float64 {
			if rate == "none" || rate == local {
				return 0
			}
			return r.ratio(at(rate, "1"), at("none", "1"))
		}, map[string]float64{"100mbit": 0.95, "10mbit": 0.75}, 0},
		{"1 bit / 32 bits", over("1", "32"), map[string]float64{"none": 0.97, "1gbit": 0.97, local: 0.97, "10mbit": 5}, 0},
		{"auto / best fixed", func(rate string) float64 { return r.ratio(at(rate, "auto"), best(rate, fixed)) }, all(0.95), 0},
		{"32 bits / without overlap", over("32", blocking), nil, 0},
		{"1 bit / CNTK's way", over("1", cntk), nil, 0},
		{"time predicted / measured, 32 bits", predicted("32"), all(0.8), 1.2},
		{"time predicted / measured, 1 bit", predicted("1"), all(0.8), 1.2},
		{"32 bits / PyTorch", over("32", torch), hosts, 0},
		{"1 bit / PyTorch's best", func(rate string) float64 { return r.ratio(at(rate, "1"), best(rate, isTorch)) },
			map[string]float64{"100mbit": 1.4, "10mbit": 4}, 0},
	} {
		rows = append(rows, r.row(d.what, func(rate string) string { return d.cell(rate) }))
	}
	return grid(r.head("ResNet-"+depth+", ratio (demanded)"), rows)
}

// cell is a ratio, and what it should be; one that is not that is bold.
func (d demand) cell(rate string) string {
	v := d.ratio(rate)
	if v == 0 {
		return ""
	}
	text := fmt.Sprintf("%.2f", v)
	least, bound := d.least[rate]
	if !bound {
		return text
	}
	want := fmt.Sprintf("≥ %.4g", least)
	if d.most > 0 {
		want = fmt.Sprintf("%.4g to %.4g", least, d.most)
	}
	if rounded := math.Round(100*v) / 100; rounded < least || d.most > 0 && rounded > d.most {
		text = "**" + text + "**"
	}
	return text + " (" + want + ")"
}

// choices are what gotrain has chosen, in its own words.
func (r *record) choices(depth string) string {
	var b strings.Builder
	for _, rate := range r.rates() {
		if all := r.of(depth, rate, "auto"); len(all) > 0 {
			fmt.Fprintf(&b, "- %s: %s\n", rateName(rate), all[0].Chosen)
		}
	}
	return b.String()
}

// compared are the settings whose time is split.
var compared = []string{"32", blocking, "1", cntk}

func (r *record) splits(depth string) string {
	var rows [][]string
	for _, rate := range r.rates() {
		for _, s := range compared {
			step := r.step(depth, rate, s)
			if step.total() == 0 {
				continue
			}
			rows = append(rows, []string{rateName(rate) + ": " + settingName(s), milliseconds(step.compute), milliseconds(step.quantize), milliseconds(step.exposed), milliseconds(step.total())})
		}
	}
	return grid([]string{"A minibatch of ResNet-" + depth + ", ms", "compute", "quantize", "exchange exposed", "all"}, rows)
}

// step is where the time of a minibatch goes, in seconds.
type step struct{ compute, quantize, exposed float64 }

func (s step) total() float64 { return s.compute + s.quantize + s.exposed }

func (r *record) step(depth, rate, setting string) step {
	return step{
		r.median(depth, rate, setting, func(x result) float64 { return x.Compute }),
		r.median(depth, rate, setting, func(x result) float64 { return x.Quantize }),
		r.median(depth, rate, setting, func(x result) float64 { return x.Exposed }),
	}
}

// milliseconds of seconds, with three digits.
func milliseconds(s float64) string {
	switch ms := 1e3 * s; {
	case ms < 9.995:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.0f", ms)
	}
}

// likeCNTK sets CNTK's way beside ours.
func (r *record) likeCNTK(depth string) string {
	var rows [][]string
	for _, s := range []string{"32", blocking, "1", columns, tensors, late, cntk} {
		name := "gotrain, " + settingName(s)
		if s == cntk {
			name = settingName(s) + ", 1 bit"
		}
		row := []string{name, ""}
		for _, rate := range r.rates() {
			if all := r.of(depth, rate, s); len(all) > 0 && row[1] == "" {
				row[1] = all[0].Sent
			}
		}
		for _, rate := range r.rates() {
			text := ""
			if v := r.speed(depth, rate, s); v > 0 {
				text = fmt.Sprintf("%.0f", v)
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	head := []string{"ResNet-" + depth + ", samples/s", "sent a minibatch"}
	for _, rate := range r.rates() {
		head = append(head, rateName(rate))
	}
	return grid(head, rows)
}

// profiled is what gotrain profile prints, on links of 100 Mbit/s if those were measured.
func (r *record) profiled(depth string) string {
	for _, rate := range append([]string{"100mbit"}, r.rates()...) {
		if all := r.of(depth, rate, profile); len(all) > 0 {
			text := fmt.Sprintf("On %d hosts, %s:\n\n", workers, rateName(rate))
			for line := range strings.Lines(strings.TrimSpace(all[0].Profile) + "\n") {
				text += strings.TrimRight("    "+line, " \n") + "\n"
			}
			return text
		}
	}
	return ""
}

// document writes the tables into the pages of a folder, and its pictures.
func (r *record) document(dir string) error {
	for _, page := range []string{"performance.md", "onebit.md"} {
		path := filepath.Join(dir, page)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out, tables := string(text), r.tables()
		for _, m := range place.FindAllStringSubmatch(out, -1) {
			t := table{m[1], "Not measured.\n"}
			if i := slices.IndexFunc(tables, func(t table) bool { return t.name == m[1] }); i >= 0 {
				t = tables[i]
			}
			if out, err = replace(out, t); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		if err := os.WriteFile(path, []byte(out), 0o666); err != nil {
			return err
		}
	}
	depth := r.depths()[0]
	if err := os.WriteFile(filepath.Join(dir, "onebit-speed.svg"), []byte(r.drawSpeeds(depth)), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "onebit-time.svg"), []byte(r.drawTimes(depth)), 0o666)
}

// replace writes a table wherever a page has a place for it.
func replace(page string, t table) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(page, opening(t.name))
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		_, rest, found := strings.Cut(after, closing)
		if !found {
			return "", fmt.Errorf("%q is not closed by %q", strings.TrimSpace(opening(t.name)), closing)
		}
		b.WriteString(opening(t.name) + "\n" + t.text + "\n" + closing)
		page = rest
	}
}
