package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gotrain/graph"
	"gotrain/learners"
	"gotrain/readers"
)

// Step is what hooks see of a training step that has been made.
type Step struct {
	State
	Minibatch   *readers.Minibatch
	Metrics     graph.Metrics // of the minibatch
	Update      graph.Update
	Norm        float64 // of the gradient, before clipping
	Minibatches int     // in the epoch
	Elapsed     time.Duration
	EpochEnd    bool // it was the last of its epoch; State.Sums is then that of the epoch
}

// hook is something that happens after every step; the first error ends training. Hooks run in order.
type hook struct {
	name string
	run  func(*Step) error
}

// train trains from where the state stands to the last epoch, and writes the model.
func (r *run) train(ctx context.Context) error {
	total := r.total()
	if r.state.Samples < total {
		if err := r.store.RemoveRunFile(modelPart); err != nil { // one of fewer epochs would outlast this training
			return err
		}
		r.record.Model = nil
		loader, err := readers.NewLoader(r.data, readers.LoaderConfig{Seed: r.cfg.Seed, MinibatchSize: r.cfg.Learner.MinibatchSize,
			EpochSize: r.cfg.Learner.EpochSize, Start: r.state.Samples, End: total, Shuffle: r.cfg.Reader.Randomize,
			Prefetch: r.cfg.Reader.Prefetch, Decoders: r.cfg.Reader.Workers})
		if err != nil {
			return err
		}
		defer loader.Close()
		r.say.start(total, r.state.Samples)
		defer r.say.stop()
		if err := r.loop(ctx, loader); err != nil {
			return err
		}
		r.say.stop()
	}
	if err := pull(r.exec); err != nil {
		return err
	}
	model, err := writeFile(r.store.files, r.dir, tensorsPart(modelPart, modelTensors(r.exec)))
	if err != nil {
		return err
	}
	r.record.Model = &model
	return r.write()
}

// total is the number of samples of all epochs.
func (r *run) total() int64 { return int64(r.epoch) * int64(r.cfg.Learner.MaxEpochs) }

// loop makes steps until the loader ends.
func (r *run) loop(ctx context.Context, loader *readers.Loader) error {
	minibatches := (r.epoch + r.cfg.Learner.MinibatchSize - 1) / r.cfg.Learner.MinibatchSize
	hooks := r.hooks(ctx, loader)
	r.shown = time.Now()
	start, before := time.Now(), time.Duration(r.state.Seconds*float64(time.Second))
	for {
		mb, err := loader.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("epoch %d, minibatch %d: %w", r.state.Epoch+1, r.state.Batch+1, err)
		}
		s, err := r.step(mb, r.learner, r.epoch)
		if err != nil {
			return err
		}
		s.Minibatches, s.EpochEnd = minibatches, mb.Last
		s.Elapsed = before + time.Since(start)
		r.advance(s)
		if s.EpochEnd {
			start, before = time.Now(), 0
		}
		s.State = r.state
		for _, h := range hooks {
			if err := h.run(s); err != nil {
				if errors.Is(err, ErrInterrupted) {
					return err
				}
				return fmt.Errorf("%s: %w", h.name, err)
			}
		}
		if s.EpochEnd {
			r.state.Sums, r.state.Shown = graph.Metrics{}, graph.Metrics{}
		}
		mb.Release() // not before: the hooks look at it
	}
}

// step trains on one minibatch, unless its gradient is not finite.
func (r *run) step(mb *readers.Minibatch, learner *learners.Learner, epochSize int) (*Step, error) {
	at := learners.Position{Epoch: mb.Epoch, Samples: mb.Position - int64(mb.Count) - int64(mb.Epoch)*int64(epochSize), Step: r.state.Step - r.state.RuleSince, Count: mb.Count}
	s := &Step{Minibatch: mb, Update: learner.Update(at)}
	result, err := r.exec.Step(&mb.Batch, s.Update, nil)
	if err != nil {
		return nil, err
	}
	s.Metrics, s.Norm = result.Metrics, result.Norm
	if !result.Finite() {
		return nil, r.divergence(mb, s)
	}
	return s, nil
}

// advance moves the state behind a step.
func (r *run) advance(s *Step) {
	st := &r.state
	st.Step++
	st.Batch++
	st.Samples = s.Minibatch.Position
	st.Sums.Add(s.Metrics)
	st.Seconds = s.Elapsed.Seconds()
	if s.EpochEnd {
		st.Epoch, st.Batch, st.Seconds = st.Epoch+1, 0, 0
	}
}
