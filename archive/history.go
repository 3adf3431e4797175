package archive

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"gotrain/pipeline"
)

// History is what a run's metrics come to: of steps that were made again after a crash, the last time counts.
type History struct {
	Attempts    []AttemptSpan              `json:"attempts"`
	Minibatches []pipeline.MinibatchEvent  `json:"-"` // by step
	Epochs      []pipeline.EpochEvent      `json:"epochs"`
	Tests       []pipeline.TestEvent       `json:"tests"`
	Checkpoints []pipeline.CheckpointEvent `json:"checkpoints"`
}

// AttemptSpan is an attempt from its beginning to its end, where it has one.
type AttemptSpan struct {
	pipeline.BeginEvent
	End *pipeline.EndEvent `json:"end"`
}

// ReadHistory reads the metrics of a run's folder. A run of an older program has none.
func ReadHistory(run string) (h History, err error) {
	_, err = pipeline.ReadEvents(filepath.Join(run, pipeline.MetricsFile), 0, func(e pipeline.Event) error {
		h.add(e)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return h, err
}

func (h *History) add(e pipeline.Event) {
	switch {
	case e.Begin != nil:
		h.forget(e.Begin.Step)
		h.Attempts = append(h.Attempts, AttemptSpan{BeginEvent: *e.Begin})
	case e.Minibatch != nil:
		h.Minibatches = append(h.Minibatches, *e.Minibatch)
	case e.Epoch != nil:
		h.Epochs = append(h.Epochs, *e.Epoch)
	case e.Test != nil:
		h.Tests = append(h.Tests, *e.Test)
	case e.Checkpoint != nil:
		h.Checkpoints = append(h.Checkpoints, *e.Checkpoint)
	case e.End != nil && len(h.Attempts) > 0:
		h.Attempts[len(h.Attempts)-1].End = e.End
	}
}

// forget removes what comes behind a step.
func (h *History) forget(step int64) {
	h.Minibatches = slices.DeleteFunc(h.Minibatches, func(m pipeline.MinibatchEvent) bool { return m.Step > step })
	h.Epochs = slices.DeleteFunc(h.Epochs, func(p pipeline.EpochEvent) bool { return p.Step > step })
	h.Tests = slices.DeleteFunc(h.Tests, func(t pipeline.TestEvent) bool { return t.Step > step })
	h.Checkpoints = slices.DeleteFunc(h.Checkpoints, func(c pipeline.CheckpointEvent) bool { return c.Step > step })
}

// LastAttempt is what the last attempt of a run has found, and that before it nothing was recorded: ok is false.
func LastAttempt(run string, h History) (a pipeline.Attempt, ok bool, err error) {
	if len(h.Attempts) == 0 {
		return a, false, nil
	}
	a, err = pipeline.ReadAttempt(run, h.Attempts[len(h.Attempts)-1].Attempt)
	return a, err == nil, err
}
