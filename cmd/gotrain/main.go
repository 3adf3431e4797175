// Command gotrain trains image-classification ResNets from YAML files.
//
//	gotrain -config FILE [key=value ...]
//
// It has flags, subcommands and exit codes; what they do is done by the packages. Results go to standard output, progress
// and messages to standard error. The exit status is 0 when all is done, 1 when the run failed, 2 for a mistake in usage or
// configuration, and 130 when the run was interrupted: a checkpoint is written, except after a second signal.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"gotrain/configs"
	"gotrain/distributed/group"
	"gotrain/pipeline"
)

func main() {
	limitSpinning()
	os.Exit(run(os.Args[1:], streams{os.Stdout, os.Stderr}))
}

// streams are where a command writes: results and messages.
type streams struct{ out, log io.Writer }

// results remembers the first error of writing, for commands that print much and ask once.
type results struct {
	w   io.Writer
	err error
}

func (r *results) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// run executes a command line and returns the exit status.
func run(args []string, s streams) int {
	out := &results{w: s.out}
	err := dispatch(args, streams{out, s.log})
	if err == nil && out.err != nil {
		err = fmt.Errorf("writing results: %w", out.err)
	}
	if err != nil && !pipeline.Told(err) {
		waitForFirst()
		tell(s.log, err)
	}
	return pipeline.ExitStatus(err)
}

// usage is a mistake in the command line.
func usage(format string, args ...any) error {
	return &pipeline.UsageError{Err: fmt.Errorf(format, args...)}
}

// tell writes an error.
func tell(w io.Writer, err error) {
	if _, faults := err.(configs.Errors); faults { // each line begins with its place, as editors expect
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "gotrain:", err)
}

// waitForFirst gives the first of several processes the time to tell of an error that all of them meet, and mpiexec, which
// takes 2 seconds, that to end the others.
func waitForFirst() {
	if rank, _, ok := group.Launched(); ok && rank > 0 {
		time.Sleep(3 * time.Second)
	}
}
