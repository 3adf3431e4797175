package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gotrain/configs"
	"gotrain/readers"
)

// Check opens the data and compiles the plan of a configuration, and reports what a run would find. The error lists
// everything that does not fit.
func Check(_ context.Context, cfg *configs.Config, w io.Writer) error {
	train, test, err := openSets(cfg)
	faults := []error{checkSupported(cfg), err}
	if train != nil {
		defer train.Close()
		fmt.Fprintln(w, train.Describe())
		faults = append(faults, checkPlan(cfg, train, w))
	}
	if test != nil {
		defer test.Close()
		fmt.Fprintln(w, test.Describe())
	}
	return errors.Join(faults...)
}

func checkPlan(cfg *configs.Config, ds readers.Dataset, w io.Writer) error {
	epoch := epochSize(cfg, ds)
	size := minibatchSize(cfg, epoch)
	workers := cfg.Distributed.Workers
	plan, err := source(spec(cfg, ds), cfg)(largestShare(size, workers), false)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "network: resnet-%d, %s, %d parameters, %d operations a step\n", cfg.Network.Depth, cfg.Precision, parameterCount(&plan.Parameters), len(plan.Ops))
	fmt.Fprintln(w, memoryLine(plan))
	if workers > 1 {
		fmt.Fprintf(w, "each of %d workers: mostly %d samples of a minibatch\n", workers, largestShare(size, workers))
	}
	fmt.Fprintf(w, "training: %d epochs of %d samples, %d minibatches of %d each\n", cfg.Learner.MaxEpochs, epoch, (epoch+size-1)/size, size)
	return nil
}
