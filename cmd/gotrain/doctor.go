package main

import (
	"fmt"

	"gotrain/internal/doctor"
)

func doctorCommand() *command {
	return &command{
		name: "doctor", short: "says what this machine has for training, and how to get what it lacks", flags: newFlags(),
		long: "Looks for oneDNN and its instruction set, cores, MPI, CUDA, cuDNN and NCCL, each where a program would load it from.",
		run: func(s streams, args []string) error {
			if len(args) > 0 {
				return usage("doctor: takes no arguments")
			}
			fmt.Fprintf(s.out, "%-12s %s\n", "gotrain", programVersion())
			doctor.Write(s.out, doctor.Examine(userEnv))
			return nil
		},
	}
}
