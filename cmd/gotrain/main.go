// Command gotrain trains image-classification ResNets from YAML files.
//
//	gotrain -config FILE [key=value ...]
//
// It has flags, subcommands and exit codes; what they do is done by the packages. Results go to standard output, progress
// and messages to standard error. The exit status is 0 when all is done, 1 when the run failed, 2 for a mistake in usage or
// configuration, and 130 when the run was interrupted and a checkpoint is written.
package main

import (
	"fmt"
	"io"
	"os"

	"gotrain/configs"
	"gotrain/pipeline"
)

func main() {
	limitSpinning()
	os.Exit(run(os.Args[1:], streams{os.Stdout, os.Stderr}))
}

// streams are where a command writes: results and messages.
type streams struct{ out, log io.Writer }

// run executes a command line and returns the exit status.
func run(args []string, s streams) int {
	err := dispatch(args, s)
	switch err.(type) {
	case nil:
	case configs.Errors: // each line begins with its place, as editors expect
		fmt.Fprintln(s.log, err)
	default:
		fmt.Fprintln(s.log, "gotrain:", err)
	}
	return pipeline.ExitStatus(err)
}

// usage is a mistake in the command line.
func usage(format string, args ...any) error {
	return &pipeline.UsageError{Err: fmt.Errorf(format, args...)}
}
