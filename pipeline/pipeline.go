// Package pipeline compiles a configuration into a plan and runs it: it opens the data, builds the network, makes the
// executor, trains, evaluates, and keeps checkpoints from which a run goes on as if nothing had happened.
//
// It decides what happens when; how a gradient is computed (packages cpu, cuda), how a batch is read (readers) and what an
// update is (learners) are others' business. The record of all runs, sweeps and plots stand above it.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"gotrain/configs"
	"gotrain/cuda"
	"gotrain/distributed/group"
)

// Settings say what to run and where to write.
type Settings struct {
	Config        *configs.Config
	Restart       bool      // start a new run where an unfinished one would be continued
	AcceptChanges bool      // go on although configuration or data have changed
	Out           io.Writer // results
	Log           io.Writer // progress and messages
	Terminal      bool      // Log is a terminal: show a progress bar
	Version       string    // of the program

	Run    string           // the folder of the run that is to be continued; "": the newest of the configuration's name
	Replay *Record          // of the run that is made again: what it had chosen is not chosen anew; may be nil
	Opened func(run string) // called by the leading process when training begins in a run's folder; may be nil

	provider cuda.Provider // of convolutions, in place of cuDNN, for tests; may be nil
}

// ErrInterrupted is returned when the context was cancelled and a checkpoint has been written.
var ErrInterrupted = errors.New("interrupted")

// ErrTerminated is the cause of a context that ends because somebody, mpiexec perhaps, ends the process.
var ErrTerminated = errors.New("terminated")

// UsageError is a fault of what was asked for, not of the run.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// ExitStatus is the status of a process that ends with err: 0 done, 1 the run failed, 2 usage or configuration,
// 130 interrupted.
func ExitStatus(err error) int {
	var u *UsageError
	var c configs.Errors
	var common *commonError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &common):
		return common.status
	case errors.Is(err, ErrInterrupted):
		return 130
	case errors.As(err, &u), errors.As(err, &c):
		return 2
	}
	return 1
}

// Run does what the configuration's command says, in order. Without training in it, that is to test the model of the last
// run of the configuration's name.
func Run(ctx context.Context, s Settings) error {
	if s.Restart && s.AcceptChanges {
		return usage("-restart starts a new run, and -accept-changes continues the last one: give one of the two")
	}
	if !slices.Contains(s.Config.Command, "train") {
		if rank, _, _ := group.Launched(); rank > 0 {
			return nil // one process is enough, and writes the lines once
		}
		return testLast(ctx, s)
	}
	r, err := openRun(s)
	if err != nil {
		return err
	}
	defer r.team.tellWaiting(ctx, s.Log)()
	if err = r.record(ctx); err == nil {
		err = r.commands(ctx)
	}
	return r.finish(r.recordEnd(err))
}

// commands does what the configuration's command says.
func (r *run) commands(ctx context.Context) error {
	for _, command := range r.cfg.Command {
		var err error
		switch command {
		case "train":
			err = r.train(ctx)
		case "test":
			err = r.test(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
