package archive

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"gotrain/configs"
	"gotrain/pipeline"
)

// Comparison sets runs side by side.
type Comparison struct {
	Runs   []Run        `json:"runs"`
	Keys   []Difference `json:"configuration"` // keys whose values differ
	Epochs []SideBySide `json:"epochs"`
}

// Difference is a key with its value in each run, empty where it has none.
type Difference struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// SideBySide is an epoch of each run, nil in those that have not come to it.
type SideBySide struct {
	Epoch int                    `json:"epoch"`
	Runs  []*pipeline.EpochEvent `json:"runs"`
	Tests []*pipeline.TestEvent  `json:"tests"`
}

// Compare sets the records of runs side by side.
func Compare(all []Details) Comparison {
	var c Comparison
	values := make([]map[string]string, len(all))
	last := 0
	for i, d := range all {
		c.Runs = append(c.Runs, d.Run)
		values[i] = map[string]string{}
		if d.Attempt != nil {
			for _, v := range d.Attempt.Values {
				values[i][v.Key] = v.Value
			}
		}
		for _, e := range d.History.Epochs {
			last = max(last, e.Epoch)
		}
	}
	for _, k := range configs.Schema() {
		d := Difference{Key: k.Path}
		same := true
		for i := range all {
			d.Values = append(d.Values, values[i][k.Path])
			same = same && d.Values[i] == d.Values[0]
		}
		if !same {
			c.Keys = append(c.Keys, d)
		}
	}
	for epoch := 1; epoch <= last; epoch++ {
		s := SideBySide{epoch, make([]*pipeline.EpochEvent, len(all)), make([]*pipeline.TestEvent, len(all))}
		for i, d := range all {
			for _, e := range d.History.Epochs {
				if e.Epoch == epoch {
					s.Runs[i] = &e
				}
			}
			for _, e := range d.History.Tests {
				if e.Epoch == epoch {
					s.Tests[i] = &e
				}
			}
		}
		c.Epochs = append(c.Epochs, s)
	}
	return c
}

// Show writes a comparison for a person.
func (c Comparison) Show(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, of func(i int) string) {
		cells := []string{name}
		for i := range c.Runs {
			cells = append(cells, dash(of(i)))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("RUN", func(i int) string { return c.Runs[i].Folder })
	row("status", func(i int) string { return c.Runs[i].Status })
	row("best error", func(i int) string { return bestError(c.Runs[i]) })
	row("samples/s", func(i int) string { return speed(c.Runs[i]) })
	row("time", func(i int) string { return span(c.Runs[i].Seconds) })
	for _, k := range c.Keys {
		row(k.Key, func(i int) string { return k.Values[i] })
	}
	for _, e := range c.Epochs {
		row(fmt.Sprintf("epoch %d", e.Epoch), func(i int) string {
			if e.Runs[i] == nil {
				return ""
			}
			return "loss " + lossOf(e.Runs[i].Sums) + ", error " + errorOf(e.Runs[i].Sums)
		})
		if !slices.ContainsFunc(e.Tests, func(t *pipeline.TestEvent) bool { return t != nil }) {
			continue
		}
		row(fmt.Sprintf("test after %d", e.Epoch), func(i int) string {
			if e.Tests[i] == nil {
				return ""
			}
			return "loss " + lossOf(e.Tests[i].Sums) + ", error " + errorOf(e.Tests[i].Sums)
		})
	}
	return t.Flush()
}
