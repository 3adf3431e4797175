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
	faults := []error{checkSupported(cfg)}
	for _, split := range []readers.Split{readers.Train, readers.Test} {
		ds, err := readers.Open(cfg.Reader, split)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		fmt.Fprintln(w, ds.Describe())
		if split == readers.Train {
			faults = append(faults, checkPlan(cfg, ds, w))
		}
		ds.Close()
	}
	return errors.Join(faults...)
}

func checkPlan(cfg *configs.Config, ds readers.Dataset, w io.Writer) error {
	plan, err := source(spec(cfg, ds), cfg)(cfg.Learner.MinibatchSize, false)
	if err != nil {
		return err
	}
	epochSize := cfg.Learner.EpochSize
	if epochSize == 0 {
		epochSize = ds.Len()
	}
	fmt.Fprintf(w, "network: resnet-%d, %s, %d parameters, %d operations a step\n", cfg.Network.Depth, cfg.Precision, parameterCount(&plan.Parameters), len(plan.Ops))
	fmt.Fprintln(w, memoryLine(plan))
	fmt.Fprintf(w, "training: %d epochs of %d samples, %d minibatches of %d each\n", cfg.Learner.MaxEpochs, epochSize,
		(epochSize+cfg.Learner.MinibatchSize-1)/cfg.Learner.MinibatchSize, cfg.Learner.MinibatchSize)
	return nil
}
