package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"gotrain/distributed/group"
	"gotrain/pipeline"
	"gotrain/sweep"
)

func sweepCommand() *command {
	c := &command{
		name: "sweep", args: "-config FILE [key=value ...]", short: "makes many runs from one file, and says which is best", flags: newFlags(),
		long: "FILE has the one key sweep: a base, parameters with their values, and how to try them. Arguments key=value go over the base.\n" +
			"Each trial is trained in a process of its own. Ctrl-C stops all behind their minibatches; the same command goes on from there, and\n" +
			"where the sweep or a run was killed. What trials come to is written to standard output, and into the sweep's folder, below outputDir.",
		examples: []example{
			{"gotrain sweep -config rates.yaml -dry-run", "shows the trials, and how long they would take"},
			{"gotrain sweep -config rates.yaml", "makes the runs that are not made yet, and shows the results"},
			{"gotrain sweep -config rates.yaml -json learner.maxEpochs=5", "the same with shorter runs, for a program"},
		},
	}
	file := c.flags.String("config", "", "the sweep: `FILE`")
	dry := c.flags.Bool("dry-run", false, "only show the trials, and measure how long they would take")
	restart := c.flags.Bool("restart", false, "begin anew, in a folder of its own, where the sweep would be continued")
	failFast := c.flags.Bool("fail-fast", false, "end with the first run that fails")
	retries := c.flags.String("retries", "", "start runs that failed or crashed `N` times again, whatever the file says")
	asJSON := c.flags.Bool("json", false, "write the results as an object")
	asCSV := c.flags.Bool("csv", false, "write the results as comma-separated values")
	c.run = func(s streams, args []string) error {
		if err := overridesOnly(args, "the sweep goes after -config, all else is key=value"); err != nil {
			return err
		}
		if _, _, launched := group.Launched(); launched {
			return usage("sweep: starts processes by itself: start it without mpiexec")
		}
		if *file == "" {
			return usage("no sweep: name one with -config FILE")
		}
		if *asJSON && *asCSV {
			return usage("-json and -csv: give one of the two")
		}
		again := 0
		if *retries != "" {
			var err error
			if again, err = strconv.Atoi(*retries); err != nil || again < 0 {
				return usage("-retries %s: not a number of times", *retries)
			}
		}
		f, err := sweep.Read(*file)
		if err != nil {
			return err
		}
		if *retries != "" {
			f.Retries = again
		}
		ctx, stop := interruptible(s.log)
		defer stop()
		p, err := sweep.Expand(ctx, f, args)
		if err != nil {
			return err
		}
		if *dry {
			return dryRun(s, p)
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		settings := s.settings()
		results, err := sweep.Run(ctx, p, sweep.Settings{Program: program, Log: s.log, Terminal: settings.Terminal, Restart: *restart, FailFast: *failFast, Retries: f.Retries})
		if err != nil {
			return err
		}
		switch {
		case *asJSON:
			err = results.JSON(s.out)
		case *asCSV:
			err = results.CSV(s.out)
		default:
			err = results.Table(s.out)
		}
		if results.Best() == "" {
			return errors.Join(err, fmt.Errorf("no trial has a result"))
		}
		fmt.Fprintf(s.log, "The best configuration: gotrain -config %s\n", results.Best())
		return err
	}
	return c
}

// dryRun shows the trials of a sweep, and how long they would take.
func dryRun(s streams, p *sweep.Plan) error {
	if err := p.Table(s.out); err != nil {
		return err
	}
	e, err := p.Estimate(func(t sweep.Trial) (pipeline.Estimate, error) {
		settings := s.settings()
		settings.Config = t.Config
		return pipeline.Measure(settings)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, e)
	return err
}
