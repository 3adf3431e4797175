// Command configdoc writes docs/configuration.md, the list of all keys, from the schema of package configs:
//
//	go run ./tools/configdoc > docs/configuration.md
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"gotrain/configs"
)

func main() { write(os.Stdout) }

func write(w io.Writer) {
	fmt.Fprint(w, `<!-- Written by go run ./tools/configdoc > docs/configuration.md: change the schema in package configs instead. -->

# The configuration

A configuration is a YAML file. Keys are matched without regard to case; an unknown one is an error that names the nearest
known key. `+"`gotrain check -print FILE`"+` prints a file with everything that it extends, all defaults and all variables
replaced.

Layers, each over those before: the defaults; the files of `+"`extends`"+`; the file; arguments `+"`key=value`"+`. A mapping is merged
key by key, a list or schedule replaces the one before, `+"`null`"+` brings the default back. Of keys that exclude one another,
"one of the rate keys" for instance, a later layer's choice puts out an earlier one's, and a learner type without momentum
puts out the momentum of the layers before.

`+"`$name$`"+` stands for a value of `+"`vars`"+` or any scalar at the top of the file, `+"`${NAME}`"+` for a variable of the environment,
`+"`${NAME:-default}`"+` for it or the default, `+"`$$`"+` for a dollar sign. A relative path is relative to the file that holds it, in an
argument to the working directory; `+"`~/`"+` is the home folder.

A schedule by epoch is a number, or CNTK's form: `+"`1.0*80:0.1*40:0.01`"+` is 1.0 for 80 epochs, 0.1 for 40, and 0.01 from
then on.

The table has the keys of all parts of the project. What a build cannot do yet is refused when a run starts.
`)
	section := ""
	begin(w, "At the top")
	for _, k := range configs.Schema() {
		if s, _, nested := strings.Cut(k.Path, "."); nested && s != section {
			section = s
			begin(w, s)
		}
		row(w, k)
	}
	begin(w, "Items of reader.transforms")
	for _, k := range configs.TransformSchema() {
		row(w, k)
	}
	begin(w, "Items of learner.learningRateSchedule")
	for _, k := range configs.PieceSchema() {
		row(w, k)
	}
}

// begin starts the table of a section.
func begin(w io.Writer, title string) {
	fmt.Fprintf(w, "\n## %s\n\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n", title)
}

// row writes what is known of a key.
func row(w io.Writer, k configs.Key) {
	value := k.Type() + k.Range.String()
	if len(k.Values) > 0 {
		value = strings.Join(k.Values, ", ")
	}
	if k.Group != "" {
		value += " (one of the " + k.Group + " keys)"
	}
	standard := ""
	switch {
	case k.Required:
		standard = "required"
	case k.Default != "":
		standard = "`" + k.Default + "`"
	}
	meaning := k.Doc
	if k.CNTK != "" {
		meaning += " CNTK: " + strings.ReplaceAll(k.CNTK, " ", ", ") + "."
	}
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", k.Path, cell(value), cell(standard), cell(meaning))
}
