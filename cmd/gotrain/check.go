package main

import (
	"context"

	"gotrain/configs"
	"gotrain/pipeline"
)

func checkCommand() *command {
	c := &command{
		name: "check", alone: true, args: "[-print] FILE [key=value ...]", short: "validates the configuration and the data, trains nothing", flags: newFlags(),
		long: "Opens the data, compiles the network for it, and reports counts, shapes and classes, or everything that does not fit.",
		examples: []example{
			{"gotrain check mine.yaml", "says whether mine.yaml would train, and on what"},
			{"gotrain check -print quickstart > mine.yaml", "writes the whole configuration with all its defaults into a file to begin with"},
		},
	}
	show := c.flags.Bool("print", false, "print the resolved configuration, with defaults and what it extends, and leave the data alone")
	c.run = func(s streams, args []string) error {
		file, overrides, err := c.fileAndOverrides(args)
		if err != nil {
			return err
		}
		cfg, err := configs.Load(file, overrides)
		if err != nil {
			return err
		}
		if *show {
			_, err := s.out.Write(cfg.YAML())
			return err
		}
		return pipeline.Check(context.Background(), cfg, s.out)
	}
	return c
}
