package main

import (
	"context"

	"gotrain/pipeline"
)

func evalCommand() *command {
	c := &command{
		name: "eval", alone: true, args: "-run DIR [key=value ...]", short: "measures loss and error of a run's model on its test set", flags: newFlags(),
		long: "The run's folder knows its configuration; key=value changes it, for other data for example.",
		examples: []example{
			{"gotrain eval -run runs/quickstart-20260131-120000-70f66a4d", "tests that run's model again"},
		},
	}
	dir := c.flags.String("run", "", "the run's folder, `DIR`")
	accept := c.flags.Bool("accept-changes", false, "test although the test set's classes have other names")
	c.run = func(s streams, args []string) error {
		if err := overridesOnly(args, "the run's folder goes after -run, all else is key=value"); err != nil {
			return err
		}
		if *dir == "" {
			return usage("eval: no run: name its folder with -run DIR")
		}
		settings := s.settings()
		settings.AcceptChanges = *accept
		return pipeline.Evaluate(context.Background(), *dir, args, settings)
	}
	return c
}
