package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"gotrain/cpu"
)

// version is set by the linker: see the Makefile.
var version string

// programVersion is the version of the program, however it was built.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

func versionCommand() *command {
	return &command{
		name: "version", alone: true, short: "prints the versions of gotrain, Go and oneDNN", flags: newFlags(),
		run: func(s streams, args []string) error {
			if len(args) > 0 {
				return usage("version: takes no arguments")
			}
			fmt.Fprintf(s.out, "gotrain %s\n%s %s/%s\n%s\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, cpu.Describe())
			return nil
		},
	}
}
