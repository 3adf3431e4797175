package configs

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestEveryKeyHasAFieldAndEveryFieldAKey(t *testing.T) {
	for _, test := range []struct {
		table  *table
		target any
		free   []string // fields that no key fills
	}{
		{schema, Config{}, nil},
		{transformTable, Transform{}, []string{"Kind", "Origin"}},
		{pieceTable, Piece{}, []string{"Kind"}},
	} {
		filled := map[string]bool{}
		for _, f := range test.free {
			filled[f] = true
		}
		for _, k := range test.table.keys {
			if k.typ == nil || k.field == nil && k.Path != "extends" {
				t.Errorf("%s fills no field", k.Path)
				continue
			}
			name, at := []string{}, reflect.TypeOf(test.target)
			for _, i := range k.field {
				f := at.Field(i)
				name, at = append(name, f.Name), f.Type
			}
			filled[strings.Join(name, ".")] = true
		}
		var walk func(prefix string, in reflect.Type)
		walk = func(prefix string, in reflect.Type) {
			for i := range in.NumField() {
				f := in.Field(i)
				name := prefix + f.Name
				if f.IsExported() && !filled[name] {
					if f.Type.Kind() != reflect.Struct {
						t.Errorf("no key fills %v.%s", in, name)
						continue
					}
					walk(name+".", f.Type)
				}
			}
		}
		walk("", reflect.TypeOf(test.target))
	}
}

func TestTheSchemaIsFitForDocuments(t *testing.T) {
	sentence := regexp.MustCompile(`^\S.*\.$`)
	seen := map[string]bool{}
	for _, k := range append(append(Schema(), TransformSchema()...), PieceSchema()...) {
		if !sentence.MatchString(k.Doc) {
			t.Errorf("%s: %q is not a sentence", k.Path, k.Doc)
		}
		if k.Type() == "" || strings.Contains(k.Want(), "configs.") {
			t.Errorf("%s: a %s, %s", k.Path, k.Type(), k.Want())
		}
		if seen[strings.ToLower(k.Path)] {
			t.Errorf("%s stands in the schema twice", k.Path)
		}
		seen[strings.ToLower(k.Path)] = true
		if k.Required && k.Default != "" {
			t.Errorf("%s is required and has a default", k.Path)
		}
	}
}

func TestNearestWords(t *testing.T) {
	for _, test := range []struct{ word, want string }{
		{"minibachSize", "minibatchSize"}, {"MINIBATCHSIZE", "minibatchSize"}, {"minibatchsiez", "minibatchSize"},
		{"epoch", ""}, {"zzz", ""}, {"", ""}, {strings.Repeat("a", 1000), ""}, {"keeep", "keep"},
	} {
		if got := Nearest(test.word, []string{"minibatchSize", "maxEpochs", "keep"}); got != test.want {
			t.Errorf("%s: %q, not %q", test.word, got, test.want)
		}
	}
}
