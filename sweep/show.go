package sweep

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// JSON writes the results for a program.
func (s *Results) JSON(w io.Writer) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// CSV writes the results as a table for a program, a trial a row (RFC 4180).
func (s *Results) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	head := append([]string{"trial", "status"}, s.Keys...)
	c.Write(append(head, s.Metric, "spread", "results", "seconds", "error"))
	for _, t := range s.Trials {
		row := append([]string{strconv.Itoa(t.Trial), t.Status}, t.Values...)
		c.Write(append(row, decimal(t.Mean), decimal(t.Spread), strconv.Itoa(len(t.Results)), fmt.Sprintf("%.3f", t.Seconds), t.Error))
	}
	c.Flush()
	return c.Error()
}

func decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// Table writes the results for a person, and why trials have none.
func (s *Results) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "TRIAL\tSTATUS\t%s\t%s\tRUNS\tTIME\n", strings.Join(titles(s.Keys), "\t"), strings.ToUpper(s.Metric))
	for _, r := range s.Trials {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%d\t%s\n", r.Trial, r.Status, cells(r.Values), s.value(r), len(r.Results), (time.Duration(r.Seconds*1000) * time.Millisecond).Round(100*time.Millisecond))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range s.Trials {
		if r.Error != "" {
			fmt.Fprintf(w, "trial %d: %s\n", r.Trial, why(r.Status, r.Error))
		}
	}
	return nil
}

// value is a trial's metric for a person.
func (s *Results) value(r Result) string {
	switch {
	case r.Mean == nil:
		return "-"
	case r.Spread == nil:
		return s.metric.show(*r.Mean)
	}
	return s.metric.show(*r.Mean) + " ± " + s.metric.show(*r.Spread)
}

// titles are the last words of keys, where they tell them apart.
func titles(keys []string) (all []string) {
	last := func(k string) string { return k[strings.LastIndexByte(k, '.')+1:] }
	count := map[string]int{}
	for _, k := range keys {
		count[last(k)]++
	}
	for _, k := range keys {
		if count[last(k)] == 1 {
			k = last(k)
		}
		all = append(all, strings.ToUpper(k))
	}
	return all
}

// cells are values for a table: long ones are cut.
func cells(values []string) string {
	all := make([]string, len(values))
	for i, v := range values {
		if len(v) > 40 {
			v = strings.ToValidUTF8(v[:37], "") + "..."
		}
		all[i] = strings.ReplaceAll(v, "\t", " ")
	}
	return strings.Join(all, "\t")
}

// Table writes the trials as they are proposed, and which cannot be trained.
func (p *Plan) Table(w io.Writer) error {
	var keys []string
	for _, x := range p.Parameters {
		keys = append(keys, x.Key)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "TRIAL\t%s\tRUNS\n", strings.Join(titles(keys), "\t"))
	for _, x := range p.Trials {
		values := slices.Repeat([]string{"..."}, len(keys)) // proposed when others have ended
		for i, v := range x.Values {
			values[i] = v.Text
		}
		runs := p.Repeats
		if x.Fault != nil {
			runs = 0
		}
		fmt.Fprintf(t, "%d\t%s\t%d\n", x.Number, cells(values), runs)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, x := range p.Trials {
		if x.Fault != nil {
			fmt.Fprintf(w, "trial %d is left out: %v\n", x.Number, x.Fault)
		}
	}
	return nil
}
