package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"gotrain/archive"
	"gotrain/configs"
	"gotrain/distributed/group"
	"gotrain/pipeline"
)

func trainCommand() *command {
	c := &command{
		args: "-config FILE [key=value ...]", short: "does what the file's command says: trains, tests", flags: newFlags(),
		long: "FILE is a path, or the name of a configuration that ships. Arguments key=value go over the file's keys. An unfinished\n" +
			"run of the same configuration is continued. With command=[test] the model of the last run of the name is tested. Ctrl-C stops after the running minibatch, with a checkpoint.",
		examples: []example{
			{"gotrain -config quickstart", "trains a small network on pictures that are in the binary, in under a minute"},
			{"gotrain -config resnet20_10epochs reader.path=cifar-10-batches-bin precision=bfloat16", "trains ResNet-20 on CIFAR-10 in ten epochs, activations in bfloat16"},
			{"gotrain -config mine.yaml learner.maxEpochs=20 -accept-changes", "continues a run with another number of epochs"},
		},
	}
	file := c.flags.String("config", "", "the configuration: `FILE`, or the name of one that ships")
	restart := c.flags.Bool("restart", false, "start a new run, in a folder of its own, where an unfinished one would be continued")
	accept := c.flags.Bool("accept-changes", false, "continue the last run although the configuration or the data has changed")
	c.run = func(s streams, args []string) error {
		if err := overridesOnly(args, "a configuration goes after -config, all else is key=value"); err != nil {
			return err
		}
		if *file == "" {
			return usage("no configuration: name one with -config FILE")
		}
		cfg, err := configs.Load(*file, args)
		if err != nil {
			return err
		}
		settings := s.settings()
		settings.Config, settings.Restart, settings.AcceptChanges = cfg, *restart, *accept
		return train(s, settings)
	}
	return c
}

// train runs, until it is interrupted, and keeps the index of the runs up to date meanwhile.
func train(s streams, settings pipeline.Settings) error {
	ctx, stop := interruptible(s.log)
	defer stop()
	indexed := func() error { return nil }
	settings.Opened = func(run string) { indexed = archive.Follow(run) }
	err := pipeline.Run(ctx, settings)
	if e := indexed(); e != nil {
		fmt.Fprintf(s.log, "warning: the index of the runs is not up to date: %v\n", e)
	}
	return err
}

// settings are those that do not depend on the command.
func (s streams) settings() pipeline.Settings {
	f, ok := s.log.(*os.File)
	return pipeline.Settings{Out: s.out, Log: s.log, Terminal: ok && term.IsTerminal(int(f.Fd())), Version: programVersion()}
}

// interruptible returns a context that the first signal to stop cancels: Ctrl-C, SIGTERM, SIGHUP, or SIGUSR1, which is the one
// for processes of mpiexec, for after the others it gives them a second only. The second signal ends the process.
func interruptible(log io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGUSR1)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	rank, _, launched := group.Launched()
	go func() {
		s := <-signals
		var cause error
		switch {
		case !launched:
			fmt.Fprintf(log, "\n%v: stopping after this minibatch; once more: at once, without a checkpoint\n", s)
		case s != syscall.SIGUSR1:
			cause = pipeline.ErrTerminated
		case rank == 0:
			fmt.Fprintf(log, "%v: all workers stop after this minibatch\n", s)
		}
		cancel(cause)
		for s := range signals {
			if launched && s == syscall.SIGUSR1 {
				continue // one to the job and one to this process
			}
			os.Exit(130)
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
