package main

import (
	"context"

	"gotrain/configs"
	"gotrain/pipeline"
)

func profileCommand() *command {
	return &command{
		name: "profile", args: "FILE [key=value ...]", short: "measures a step: where time goes, and what each number of bits takes", flags: newFlags(),
		long: "Measures computation, quantizers, and latency and bandwidth between the workers, predicts a minibatch's time at 32, 16, 8, 4,\n" +
			"2 and 1 bits, measures it too, and says whether 1 bit would pay here, and from which bandwidth on. Trains nothing.\n" +
			"Start it as training is started: for several hosts, mpiexec -n 4 gotrain profile FILE.",
		examples: []example{
			{"gotrain profile quickstart distributed.workers=2", "says what two workers in one process would gain"},
			{"gotrain profile resnet20_1bit distributed.workers=8 learner.minibatchSize=512", "asks the same of another size"},
		},
		run: func(s streams, args []string) error {
			c := find(commands(), "profile")
			file, overrides, err := c.fileAndOverrides(args)
			if err != nil {
				return err
			}
			cfg, err := configs.Load(file, overrides)
			if err != nil {
				return err
			}
			settings := s.settings()
			settings.Config = cfg
			return pipeline.Profile(context.Background(), settings)
		},
	}
}
