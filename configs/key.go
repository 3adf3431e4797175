package configs

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Key describes one key of the configuration. The table of keys is the only
// place that knows them: the check for unknown keys, types, defaults, ranges,
// printing and the documents all read it.
type Key struct {
	Path    string   // dotted, in its canonical spelling: learner.minibatchSize
	Default string   // as it would be written; empty: none, the zero value
	Values  []string // the words allowed for a text, or for the items of a list
	Range   *Range   // of a number, or of each number of a list or schedule; nil: any
	Zero    string   // the word that stands for 0, or for no text: auto
	Group   string   // keys of one group exclude one another; a later layer's choice replaces an earlier one's
	Doc     string   // one sentence: what the key means, with its unit
	CNTK    string   // what CNTK calls it, where the name differs; several separated by a space

	Required bool // there is no default, and nothing works without
	IsPath   bool // a text that names a file or folder
	Short    bool // a scalar in the place of the section stands for this key
	Aside    bool // does not change what is trained: no part of the hash

	to    string       // name of the field that it fills, where that is not Path
	field []int        // the field's place in the table's struct; nil: the loader's own key
	typ   reflect.Type // of that field
}

// Range is an interval of numbers.
type Range struct {
	Low, High         float64
	LowOpen, HighOpen bool
}

func atLeast(low float64) *Range      { return &Range{Low: low, High: math.Inf(1)} }
func above(low float64) *Range        { return &Range{Low: low, High: math.Inf(1), LowOpen: true} }
func within(low, high float64) *Range { return &Range{Low: low, High: high} }
func share() *Range                   { return &Range{Low: 0, High: 1, LowOpen: true} }
func belowOne() *Range                { return &Range{Low: 0, High: 1, HighOpen: true} }

// Contains reports whether v lies in the interval; a nil range is everything.
func (r *Range) Contains(v float64) bool {
	return r == nil || (v > r.Low || !r.LowOpen && v == r.Low) && (v < r.High || !r.HighOpen && v == r.High)
}

// String says the interval in words that follow "a number", or "" for nil.
func (r *Range) String() string {
	if r == nil {
		return ""
	}
	low, high := formatLimit(r.Low), formatLimit(r.High)
	switch {
	case math.IsInf(r.High, 1) && r.LowOpen:
		return " above " + low
	case r.High >= 1<<31-1: // a limit of computers, not of sense
		return " of at least " + low
	case r.LowOpen:
		return " above " + low + " and up to " + high
	case r.HighOpen:
		return " from " + low + " to below " + high
	}
	return " from " + low + " to " + high
}

// formatLimit writes a whole number without an exponent: it may be the limit of an integer.
func formatLimit(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return formatFloat(v)
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Type names the kind of value in a word or two, for the documents.
func (k *Key) Type() string {
	switch reflect.Zero(k.typ).Interface().(type) {
	case bool:
		return "boolean"
	case int, int64:
		return "integer"
	case float64:
		return "number"
	case time.Duration:
		return "duration"
	case PerEpoch:
		return "schedule by epoch"
	case Bits:
		return "bits by epoch"
	case map[string]string:
		return "mapping"
	case string:
		if k.IsPath {
			return "path"
		}
		return "text"
	}
	return "list"
}

// Want says what a value of the key must be, as a phrase that completes "is
// not".
func (k *Key) Want() string {
	want := k.wantType()
	if k.Zero != "" {
		return k.Zero + " or " + want
	}
	return want
}

func (k *Key) wantType() string {
	switch reflect.Zero(k.typ).Interface().(type) {
	case bool:
		return "true or false"
	case int, int64:
		return "an integer" + k.Range.String()
	case float64:
		return "a number" + k.Range.String()
	case time.Duration:
		return "a duration such as 60s or 2m30s"
	case PerEpoch:
		return "a number" + k.Range.String() + " or a schedule by epoch such as " + exampleSchedule(k.Range)
	case Bits:
		return "auto, 32, 16, 8, 4, 2 or 1, or a schedule of them by epoch such as 32*1:1"
	case string:
		switch {
		case k.IsPath:
			return "a path"
		case len(k.Values) == 1:
			return k.Values[0]
		case len(k.Values) > 1:
			return "one of " + strings.Join(k.Values, ", ")
		}
		return "text"
	case []string:
		if len(k.Values) > 0 {
			return "a list of " + listed(k.Values, "and") + " such as [" + strings.Join(k.Values, ", ") + "]"
		}
		return "text or a list of texts"
	case []int:
		return "a list of integers" + k.Range.String() + " such as [3, 32, 32]"
	case []float64:
		return "a number" + k.Range.String() + " or a list of them, one a channel"
	case [2]float64:
		return "a number" + k.Range.String() + " or a pair of them such as [0.8, 1]"
	case []Transform:
		return "a list of transforms such as [{crop: {padding: 4}}, {flip: horizontal}]"
	case []Piece:
		return "a list of pieces such as [{linear: {from: 0, to: 0.4, epochs: 3}}, {cosine: {from: 0.4, to: 0, epochs: 7}}]"
	case map[string]string:
		return "a mapping of names to values such as {dataDir: /data}"
	}
	return fmt.Sprintf("a %v", k.typ)
}

func exampleSchedule(r *Range) string {
	if r != nil && r.High == 1 {
		return "0*1:0.9"
	}
	return "1.0*80:0.1*40:0.01"
}

// table is a set of keys with the struct that they fill.
type table struct {
	keys     []*Key
	byPath   map[string]*Key   // by lower-case path
	sections map[string]string // canonical spelling by lower-case path
}

// newTable binds each key to the field of target whose dotted name is the key's
// path, without regard to case, or the name that the key gives.
func newTable(target any, keys []Key) *table {
	t := &table{byPath: map[string]*Key{}, sections: map[string]string{"": ""}}
	for i := range keys {
		k := &keys[i]
		k.bind(reflect.TypeOf(target))
		t.keys = append(t.keys, k)
		t.byPath[strings.ToLower(k.Path)] = k
		for i, r := range k.Path {
			if r == '.' {
				t.sections[strings.ToLower(k.Path[:i])] = k.Path[:i]
			}
		}
	}
	return t
}

func (k *Key) bind(target reflect.Type) {
	path := k.to
	if path == "" {
		path = k.Path
	}
	at := target
	for _, name := range strings.Split(path, ".") {
		f, ok := at.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		if !ok {
			return
		}
		k.field, at = append(k.field, f.Index...), f.Type
	}
	k.typ = at
}

// get returns the key's value in a struct of the table's type.
func (k *Key) get(from reflect.Value) any { return from.FieldByIndex(k.field).Interface() }

// set changes the key's value in a struct of the table's type.
func (k *Key) set(in reflect.Value, v any) { in.FieldByIndex(k.field).Set(reflect.ValueOf(v)) }

// lookup finds what a name means in a section ("" is the top): a key, or a
// section by its canonical path, or neither.
func (t *table) lookup(section, name string) (key *Key, sub string, ok bool) {
	path := strings.ToLower(join(section, name))
	if strings.Contains(name, ".") {
		return nil, "", false
	}
	if k := t.byPath[path]; k != nil {
		return k, k.Path, true
	}
	sub, ok = t.sections[path]
	return nil, sub, ok && sub != ""
}

// short returns the key that a scalar in the place of a section stands for.
func (t *table) short(section string) *Key {
	for _, k := range t.keys {
		if k.Short && parent(k.Path) == section {
			return k
		}
	}
	return nil
}

// group returns the other keys that one key excludes.
func (t *table) group(key *Key) (others []*Key) {
	for _, k := range t.keys {
		if key.Group != "" && k.Group == key.Group && k != key {
			others = append(others, k)
		}
	}
	return others
}

// names returns the keys and sections that a section holds, in the table's
// order.
func (t *table) names(section string) (names []string) {
	seen := map[string]bool{}
	for _, k := range t.keys {
		rest, ok := strings.CutPrefix(k.Path, section+".")
		if section == "" {
			rest, ok = k.Path, true
		}
		name, _, _ := strings.Cut(rest, ".")
		if ok && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
