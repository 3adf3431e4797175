package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"gotrain/archive"
	"gotrain/pipeline"
)

func resumeCommand() *command {
	c := &command{
		name: "resume", args: "RUN [key=value ...]", short: "continues a run from its record", flags: newFlags(),
		long: runWords + " The run goes on from its newest checkpoint, in its folder, without the files that its\n" +
			"configuration came from. A finished run goes on with more epochs.",
		examples: []example{
			{"gotrain resume latest", "continues the newest run, where it was killed or interrupted"},
			{"gotrain resume quickstart learner.maxEpochs=40 -accept-changes", "trains on with more epochs"},
		},
	}
	dir := c.runsDir()
	accept := c.flags.Bool("accept-changes", false, "go on although the configuration or the data has changed")
	c.run = func(s streams, args []string) error {
		word, overrides, err := c.runAndOverrides(args)
		if err != nil {
			return err
		}
		r, err := oneRun(s, c, *dir, word)
		if err != nil {
			return err
		}
		if r.Status == pipeline.Finished && len(overrides) == 0 {
			return usage("%s is finished: to train on, give more epochs: gotrain resume %s learner.maxEpochs=%d -accept-changes", r.Folder, word, 2*max(r.MaxEpochs, 1))
		}
		settings := s.settings()
		if settings.Config, err = archive.Again(*dir, r, overrides...); err != nil {
			return err
		}
		settings.AcceptChanges, settings.Run = *accept, filepath.Join(*dir, r.Folder)
		return train(s, settings)
	}
	return c
}

func replayCommand() *command {
	c := &command{
		name: "replay", args: "RUN [key=value ...]", short: "makes a run again from its record, and compares it to the bit", flags: newFlags(),
		long: runWords + " The new run has a folder of its own. Loss and error of every step and the checksums of\n" +
			"every checkpoint are compared: prints \"identical through epoch N\", or the first difference with both values, and then which of\n" +
			"configuration, environment, binary, libraries, data and device differ from the record. The status is 1 where there is a difference.\n" +
			"A bundle that was exported with its data is replayed with that data.",
		examples: []example{
			{"gotrain replay latest", "makes the newest run again"},
			{"gotrain replay quickstart -epochs 1", "makes its first epoch again"},
			{"gotrain replay quickstart reader.path=/data/elsewhere", "takes the data from another place"},
		},
	}
	dir := c.runsDir()
	epochs := c.flags.String("epochs", "", "only the first `N` epochs")
	c.run = func(s streams, args []string) error {
		word, overrides, err := c.runAndOverrides(args)
		if err != nil {
			return err
		}
		n := 0
		if *epochs != "" {
			if n, err = strconv.Atoi(*epochs); err != nil || n < 1 {
				return usage("-epochs %s: not a number of epochs", *epochs)
			}
		}
		r, err := oneRun(s, c, *dir, word)
		if err != nil {
			return err
		}
		settings := s.settings()
		indexed := func() error { return nil }
		settings.Opened = func(run string) { indexed = archive.Follow(run) }
		ctx, stop := interruptible(s.log)
		defer stop()
		result, err := archive.Replay(ctx, *dir, r, n, overrides, settings)
		if e := indexed(); e != nil {
			fmt.Fprintf(s.log, "warning: the index of the runs is not up to date: %v\n", e)
		}
		if result == nil {
			return err
		}
		fmt.Fprint(s.out, result)
		if err == nil && result.Difference != "" {
			err = fmt.Errorf("the replay of %s differs from its record", r.Folder)
		}
		return err
	}
	return c
}

// runAndOverrides splits the arguments of a command that takes a run: a word, and then key=value.
func (c *command) runAndOverrides(args []string) (word string, overrides []string, err error) {
	if len(args) == 0 {
		return "", nil, usage("%s: no run: give its name, folder, hash, or latest", c.name)
	}
	return args[0], args[1:], overridesOnly(args[1:], c.name+" takes one run, and "+args[0]+" is it")
}

// oneRun finds the run that a word means.
func oneRun(s streams, c *command, dir, word string) (r archive.Run, err error) {
	err = withRuns(s, dir, func(_ context.Context, _ *archive.Index, runs []archive.Run) error {
		found, err := findRuns(c, runs, dir, []string{word})
		if err == nil {
			r = found[0]
		}
		return err
	})
	return r, err
}
