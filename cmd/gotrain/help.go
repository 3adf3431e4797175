package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gotrain/configs"
)

func helpCommand() *command {
	return &command{
		name: "help", alone: true, args: "[COMMAND]", short: "explains a command, with examples", flags: newFlags(),
		long: "Without a command, lists them all.",
		examples: []example{
			{"gotrain help graph", "explains gotrain graph"},
		},
		run: func(s streams, args []string) error {
			all := commands()
			if len(args) == 0 {
				overview(s.out, all)
				return nil
			}
			word := strings.Join(args, " ")
			if c := find(all, word); c != nil {
				c.describe(s.out)
				return nil
			}
			if len(args) > 1 && args[0] != "runs" {
				return usage("help: explains one command at a time")
			}
			return unknownCommand(word, all)
		},
	}
}

// overview lists the commands.
func overview(w io.Writer, all []*command) {
	fmt.Fprint(w, "gotrain trains image-classification ResNets from YAML files.\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, c := range all {
		fmt.Fprintf(t, "    %s\t%s\n", c.line(), c.short)
	}
	t.Flush()
	all[0].explain(w)
	fmt.Fprintf(w, "\nConfigurations that ship: %s.\n", strings.Join(configs.Shipped(), ", "))
	fmt.Fprint(w, "Exit status: 0 done; 1 the run failed; 2 usage or configuration; 130 interrupted: with a checkpoint, except after a second signal.\n")
}

// line is a command's usage.
func (c *command) line() string {
	return strings.Join(strings.Fields("gotrain "+c.name+" "+c.args), " ")
}

// describe writes all about a command.
func (c *command) describe(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n%s %s.\n", c.line(), strings.TrimSpace("gotrain "+c.name), c.short)
	c.explain(w)
}

// explain writes a command's paragraphs, flags and examples.
func (c *command) explain(w io.Writer) {
	if c.long != "" {
		fmt.Fprintf(w, "\n%s\n", c.long)
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	title := "\nFlags, before or after the arguments:\n"
	c.flags.VisitAll(func(f *flag.Flag) {
		name, says := flag.UnquoteUsage(f)
		fmt.Fprintf(t, "%s    %s\t%s\n", title, strings.TrimSpace("-"+f.Name+" "+name), says)
		title = ""
	})
	t.Flush()
	title = "\nExamples:\n"
	for _, e := range c.examples {
		fmt.Fprintf(w, "%s    %s\n        %s\n", title, e.line, e.says)
		title = ""
	}
}
