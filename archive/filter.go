package archive

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gotrain/configs"
)

// field is what runs are sorted and filtered by, beside the keys of their configurations.
type field struct {
	name   string
	text   func(Run) string
	number func(Run) (v float64, known bool) // nil: it is a text
}

func known(v float64) (float64, bool) { return v, true }

var fields = []field{
	{name: "status", text: func(r Run) string { return r.Status }},
	{name: "name", text: func(r Run) string { return r.Name }},
	{name: "folder", text: func(r Run) string { return r.Folder }},
	{name: "hash", text: func(r Run) string { return r.Hash }},
	{name: "device", text: func(r Run) string { return r.Device }},
	{name: "precision", text: func(r Run) string { return r.Precision }},
	{name: "bits", text: func(r Run) string { return r.Bits }},
	{name: "version", text: func(r Run) string { return r.Version }},
	{name: "workers", number: func(r Run) (float64, bool) { return known(float64(r.Workers)) }},
	{name: "epochs", number: func(r Run) (float64, bool) { return known(float64(r.Epochs)) }},
	{name: "attempts", number: func(r Run) (float64, bool) { return known(float64(r.Attempts)) }},
	{name: "loss", number: func(r Run) (float64, bool) { return pointed(r.Loss) }},
	{name: "error", number: func(r Run) (float64, bool) { return pointed(r.BestError) }},
	{name: "speed", number: func(r Run) (float64, bool) { return r.SamplesPerSecond, r.Seconds > 0 }},
	{name: "time", number: func(r Run) (float64, bool) { return known(r.Seconds) }},
	{name: "started", number: func(r Run) (float64, bool) { return known(float64(r.Started.UnixNano())) }},
}

func pointed(v *float64) (float64, bool) {
	if v == nil {
		return 0, false
	}
	return *v, true
}

// FieldNames are what runs can be sorted by.
func FieldNames() []string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

func fieldOf(name string) *field {
	i := slices.IndexFunc(fields, func(f field) bool { return strings.EqualFold(f.name, name) })
	if i < 0 {
		return nil
	}
	return &fields[i]
}

var condition = regexp.MustCompile(`^([^=<>!]+)(!=|<=|>=|=|<|>)(.*)$`)

// Filter keeps the runs for which all conditions hold: KEY=VALUE, !=, <, >, <= or >=. KEY is one of FieldNames or a key of the
// configuration. Texts may have * and ? as file names have, and = and != only.
func (x *Index) Filter(ctx context.Context, runs []Run, conditions []string) ([]Run, error) {
	for _, c := range conditions {
		keep, err := x.condition(ctx, c)
		if err != nil {
			return nil, err
		}
		runs = slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return !keep(r) })
	}
	return runs, nil
}

func (x *Index) condition(ctx context.Context, c string) (func(Run) bool, error) {
	m := condition.FindStringSubmatch(c)
	if m == nil {
		return nil, fmt.Errorf("%s: no condition: write KEY=VALUE, KEY!=VALUE, KEY<NUMBER or KEY>NUMBER", c)
	}
	key, operator, value := m[1], m[2], m[3]
	f := fieldOf(key)
	if f == nil {
		if !slices.ContainsFunc(configs.Schema(), func(k configs.Key) bool { return strings.EqualFold(k.Path, key) }) {
			return nil, fmt.Errorf("%s: %s is neither a key of a configuration nor one of %s", c, key, strings.Join(FieldNames(), ", "))
		}
		values, err := x.values(ctx, key)
		if err != nil {
			return nil, err
		}
		text := func(r Run) string { return strings.Trim(values[r.Folder], `"`) }
		f = &field{key, text, nil}
		if _, err := strconv.ParseFloat(value, 64); err == nil {
			f.number = func(r Run) (float64, bool) {
				v, err := strconv.ParseFloat(text(r), 64)
				return v, err == nil
			}
		}
	}
	if f.number != nil {
		want, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a number", c, value)
		}
		return func(r Run) bool {
			v, known := f.number(r)
			return known && holds(operator, cmp.Compare(v, want))
		}, nil
	}
	if operator != "=" && operator != "!=" {
		return nil, fmt.Errorf("%s: %s is a text: write = or !=", c, f.name)
	}
	if _, err := path.Match(value, ""); err != nil {
		return nil, fmt.Errorf("%s: %q is not a pattern: close its bracket", c, value)
	}
	return func(r Run) bool {
		match, _ := path.Match(value, f.text(r))
		return (match || value == f.text(r)) == (operator == "=")
	}, nil
}

func holds(operator string, order int) bool {
	switch operator {
	case "=":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case ">":
		return order > 0
	case "<=":
		return order <= 0
	}
	return order >= 0
}

// Sort sorts runs by one of FieldNames; those that lack the value come last. Equal ones stay in order.
func Sort(runs []Run, name string, descending bool) error {
	f := fieldOf(name)
	if f == nil {
		return fmt.Errorf("%s: runs are sorted by one of %s", name, strings.Join(FieldNames(), ", "))
	}
	slices.SortStableFunc(runs, func(a, b Run) int {
		order := 0
		if f.number == nil {
			order = strings.Compare(f.text(a), f.text(b))
		} else {
			v, hasV := f.number(a)
			w, hasW := f.number(b)
			if !hasV || !hasW {
				return cmp.Compare(b2i(hasW), b2i(hasV))
			}
			order = cmp.Compare(v, w)
		}
		if descending {
			order = -order
		}
		return order
	})
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
