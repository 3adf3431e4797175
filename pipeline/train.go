package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"gotrain/configs"
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

// rule is the update rule of a configuration.
func rule(cfg *configs.Config) (graph.Rule, error) {
	r, ok := map[string]graph.Rule{"sgd": graph.SGD, "momentumSGD": graph.Momentum, "adam": graph.Adam}[cfg.Learner.Type]
	if !ok {
		return 0, usage("learner.type: %s is no rule", cfg.Learner.Type)
	}
	return r, nil
}

// train trains from where the state stands to the last epoch, and writes the model.
func (r *run) train(ctx context.Context) error {
	epochSize := r.cfg.Learner.EpochSize
	if epochSize == 0 {
		epochSize = r.data.Len()
	}
	learner, err := learners.New(r.cfg.Learner, epochSize)
	if err != nil {
		return err
	}
	total := int64(epochSize) * int64(r.cfg.Learner.MaxEpochs)
	if r.state.Samples < total {
		loader, err := readers.NewLoader(r.data, readers.LoaderConfig{Seed: r.cfg.Seed, MinibatchSize: r.cfg.Learner.MinibatchSize,
			EpochSize: r.cfg.Learner.EpochSize, Start: r.state.Samples, End: total, Shuffle: r.cfg.Reader.Randomize,
			Prefetch: r.cfg.Reader.Prefetch, Decoders: r.cfg.Reader.Workers})
		if err != nil {
			return err
		}
		defer loader.Close()
		r.say.start(total, r.state.Samples)
		defer r.say.stop()
		if err := r.loop(ctx, loader, learner, epochSize); err != nil {
			return err
		}
		r.say.stop()
	}
	if err := pull(r.exec); err != nil {
		return err
	}
	return r.store.WriteRunFile(tensorsPart(modelPart, modelTensors(r.exec)))
}

// loop makes steps until the loader ends.
func (r *run) loop(ctx context.Context, loader *readers.Loader, learner *learners.Learner, epochSize int) error {
	minibatches := (epochSize + r.cfg.Learner.MinibatchSize - 1) / r.cfg.Learner.MinibatchSize
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
		s, err := r.step(mb, learner, epochSize)
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

// step computes the gradient of one minibatch and updates the parameters with it, unless it is not finite.
func (r *run) step(mb *readers.Minibatch, learner *learners.Learner, epochSize int) (*Step, error) {
	at := learners.Position{Epoch: mb.Epoch, Samples: mb.Position - int64(mb.Count) - int64(mb.Epoch)*int64(epochSize), Step: r.state.Step, Count: mb.Count}
	s := &Step{Minibatch: mb}
	var err error
	if s.Metrics, err = r.exec.Gradients(&mb.Batch, nil); err != nil {
		return nil, err
	}
	squares, err := r.exec.SumSquares()
	if err != nil {
		return nil, err
	}
	s.Norm = math.Sqrt(squares)
	s.Update = learner.Update(at, s.Norm)
	if !finite(s.Norm) || !finite(s.Metrics.Loss) {
		return nil, r.divergence(mb, s)
	}
	return s, r.exec.Update(s.Update)
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
