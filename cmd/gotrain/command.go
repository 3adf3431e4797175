package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"gotrain/configs"
	"gotrain/distributed/group"
)

// command is one thing that gotrain does. Each is made by a function of its own, which ties the flags to run.
type command struct {
	name     string // of one or two words; "" for the one without a name: training
	args     string // what follows the name, for its usage line
	short    string // one line, without a full stop
	long     string // paragraphs
	examples []example
	flags    *flag.FlagSet
	alone    bool // of the processes of mpiexec only the first does it
	run      func(s streams, args []string) error
}

type example struct{ line, says string }

// commands lists what there is, in the order of the help.
func commands() []*command {
	all := []*command{trainCommand(), checkCommand(), graphCommand(), profileCommand(), evalCommand(), sweepCommand()}
	all = append(all, runsCommands()...)
	return append(all, resumeCommand(), replayCommand(), doctorCommand(), versionCommand(), helpCommand())
}

// newFlags returns an empty set that leaves all messages to parse.
func newFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("gotrain", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// dispatch finds the command that the arguments name, and runs it.
func dispatch(args []string, s streams) error {
	all := commands()
	if len(args) == 0 {
		overview(s.log, all)
		return usage("nothing to do: name a configuration with -config, or a command")
	}
	c := all[0]
	switch first := args[0]; {
	case slices.Contains([]string{"-h", "-help", "--help"}, first):
		args[0] = "help"
		return dispatch(args, s)
	case slices.Contains([]string{"-v", "-version", "--version"}, first):
		args[0] = "version"
		return dispatch(args, s)
	case !strings.HasPrefix(first, "-") && !strings.Contains(first, "="):
		if c = find(all, first); c == nil {
			return unknownCommand(first, all)
		}
		args = args[1:]
		if len(args) > 0 {
			if two := find(all, first+" "+args[0]); two != nil {
				c, args = two, args[1:]
			}
		}
	}
	if rank, _, launched := group.Launched(); launched && rank > 0 && c.alone {
		return nil // what one process says, mpiexec need not show once for each
	}
	rest, err := c.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		c.describe(s.out)
		return nil
	}
	if err != nil {
		return err
	}
	return c.run(s, rest)
}

func find(all []*command, name string) *command {
	for _, c := range all {
		if c.name == name && name != "" {
			return c
		}
	}
	return nil
}

// unknownCommand says what was probably meant by a first word that is no command.
func unknownCommand(word string, all []*command) error {
	var names []string
	for _, c := range all[1:] {
		if strings.HasPrefix(word, "runs ") || !strings.Contains(c.name, " ") {
			names = append(names, c.name)
		}
	}
	if near := configs.Nearest(word, names); near != "" {
		return usage("%s: unknown command: did you mean gotrain %s?", word, near)
	}
	name := strings.TrimSuffix(word, ".yaml")
	if strings.HasSuffix(word, ".yaml") || strings.HasSuffix(word, ".yml") || slices.Contains(configs.Shipped(), name) {
		return usage("%s: a configuration goes after a flag: gotrain -config %s", word, word)
	}
	if word == "train" {
		return usage("train: to train, name a configuration: gotrain -config FILE")
	}
	return usage("%s: unknown command: the commands are %s", word, strings.Join(names, ", "))
}

// parse sets the flags and returns the other arguments. Flags may stand anywhere before an argument "--".
func (c *command) parse(args []string) (rest []string, err error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(rest, args[i+1:]...), nil
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			rest = append(rest, arg)
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if name == "h" || name == "help" {
			return nil, flag.ErrHelp
		}
		f := c.flags.Lookup(name)
		if f == nil {
			return nil, c.unknownFlag(name)
		}
		switch isSwitch(f) {
		case true:
			if !given {
				value = "true"
			}
		case false:
			if !given && i+1 < len(args) {
				i++
				value, given = args[i], true
			}
			if !given || value == "" {
				return nil, usage("-%s: %s is missing after it: %s", name, placeholder(f), c.hint())
			}
		}
		if err := c.flags.Set(name, value); err != nil {
			return nil, usage("-%s=%s: write -%s or -%s=false", name, value, name, name)
		}
	}
	return rest, nil
}

func (c *command) unknownFlag(name string) error {
	var known []string
	c.flags.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	if near := configs.Nearest(name, known); near != "" {
		return usage("-%s: unknown flag: did you mean -%s?", name, near)
	}
	if len(known) == 0 {
		return usage("-%s: unknown flag: gotrain %s has none", name, c.name)
	}
	return usage("-%s: unknown flag: the flags are -%s: %s", name, strings.Join(known, ", -"), c.hint())
}

// hint says where to read more.
func (c *command) hint() string { return strings.TrimSpace("see gotrain help " + c.name) }

// isSwitch tells flags without a value.
func isSwitch(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// placeholder is what stands for a flag's value: the word in back quotes of its usage.
func placeholder(f *flag.Flag) string {
	name, _ := flag.UnquoteUsage(f)
	return name
}

// overridesOnly checks that all arguments are key=value.
func overridesOnly(args []string, hint string) error {
	for _, a := range args {
		if !strings.Contains(a, "=") {
			return usage("%s: not key=value: %s", a, hint)
		}
	}
	return nil
}

// fileAndOverrides splits the arguments of a command that takes a configuration: its name, and then key=value.
func (c *command) fileAndOverrides(args []string) (file string, overrides []string, err error) {
	i := slices.IndexFunc(args, func(a string) bool { return !strings.Contains(a, "=") })
	if i < 0 {
		return "", nil, usage("%s: no configuration: name a file or one that ships (%s)", c.name, strings.Join(configs.Shipped(), ", "))
	}
	if args[i] == "" {
		return "", nil, usage("%s: the name of the configuration is empty: name a file or one that ships (%s)", c.name, strings.Join(configs.Shipped(), ", "))
	}
	overrides = slices.Delete(slices.Clone(args), i, i+1)
	return args[i], overrides, overridesOnly(overrides, fmt.Sprintf("%s takes one configuration, and %s is it", c.name, args[i]))
}
