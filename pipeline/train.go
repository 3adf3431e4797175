package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gotrain/distributed"
	"gotrain/distributed/group"
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
	Bits        int     // that gradients were sent with
	Minibatches int     // in the epoch
	Elapsed     time.Duration
	EpochEnd    bool // it was the last of its epoch; State.Sums is then that of the epoch
	Stop        bool // a process has been asked to stop
	Unsynced    bool // block momentum: the workers' models differ, until their block is full
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
		r.Record.Model = nil
		if err := r.team.agree(new(struct{}), func() error { return r.store.RemoveRunFile(modelPart) }); err != nil { // one of fewer epochs would outlast this training
			return err
		}
		r.say.start(total, r.state.Samples)
		defer r.say.stop()
		for _, w := range r.workers {
			if w.block != nil {
				w.block.Begin(w.exec.Arena(graph.Parameters))
			}
		}
		if err := r.loop(ctx); err != nil {
			return err
		}
		r.say.stop()
	}
	return r.writeModel()
}

// writeModel writes the model with which training has ended. All workers go on with its statistics.
func (r *run) writeModel() error {
	for _, w := range r.workers {
		if err := pull(w.exec); err != nil {
			return err
		}
	}
	all, err := r.gather(func(w *worker) []float32 { return w.exec.Arena(graph.Statistics) })
	if err != nil {
		return err
	}
	exec := r.workers[0].exec
	if err := r.team.agree(new(struct{}), func() error {
		if r.team.workers > 1 {
			copy(exec.Arena(graph.Statistics), weighted(all, r.state.Trained))
		}
		model, err := writeFile(r.store.files, r.Dir, tensorsPart(modelPart, modelTensors(exec, exec.Arena(graph.Statistics))))
		if err != nil {
			return err
		}
		r.Record.Model = &model
		return r.write()
	}); err != nil {
		return err
	}
	if err := r.spread(graph.Statistics); err != nil {
		return err
	}
	for _, w := range r.workers {
		if err := w.exec.Push(graph.Statistics); err != nil {
			return err
		}
	}
	return nil
}

// total is the number of samples of all epochs.
func (r *run) total() int64 { return int64(r.epoch) * int64(r.cfg.Learner.MaxEpochs) }

// aloneUntil is the number of samples up to which every worker trains on whole minibatches by itself: CNTK's warm start. It
// ends with a minibatch.
func (r *run) aloneUntil() int64 {
	w, size, epoch := r.cfg.Distributed.WarmStart, int64(learnerOf(r.cfg).MinibatchSize), int64(r.epoch)
	if w.Mode != "single" || w.Samples == 0 || !aggregates(r.cfg) {
		return 0
	}
	whole := w.Samples / epoch * epoch
	return min(whole+min((w.Samples-whole+size-1)/size*size, epoch), r.total())
}

// load starts the workers' loaders from where the state stands. alone gives each of them whole minibatches.
func (r *run) load(alone bool, end int64) error {
	for _, w := range r.workers {
		if w.loader != nil {
			w.loader.Close()
		}
		c := readers.LoaderConfig{Seed: r.cfg.Seed, MinibatchSize: learnerOf(r.cfg).MinibatchSize,
			EpochSize: r.cfg.Learner.EpochSize, Start: r.state.Samples, End: end, Shuffle: r.cfg.Reader.Randomize,
			Worker: w.member.Rank(), Workers: w.member.Size(), Prefetch: r.cfg.Reader.Prefetch, Decoders: r.cfg.Reader.Workers}
		c.PlanOnly = r.held != nil
		if alone {
			c.Worker, c.Workers = 0, 1
		}
		var err error
		if w.loader, err = readers.NewLoader(r.data, c); err != nil {
			return err
		}
	}
	return nil
}

// loop makes steps to the end of the last epoch.
func (r *run) loop(ctx context.Context) error {
	size := learnerOf(r.cfg).MinibatchSize
	minibatches := (r.epoch + size - 1) / size
	hooks := r.hooks()
	r.shown = time.Now()
	start, before := time.Now(), time.Duration(r.state.Seconds*float64(time.Second))
	alone, aloneUntil := r.state.Samples < r.aloneUntil(), r.aloneUntil()
	if err := r.load(alone, map[bool]int64{true: aloneUntil, false: r.total()}[alone]); err != nil {
		return err
	}
	for {
		mb, err := r.next()
		if errors.Is(err, io.EOF) && alone {
			if alone = false; r.state.Samples < r.total() {
				if err := r.load(alone, r.total()); err != nil {
					return err
				}
				continue
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("epoch %d, minibatch %d: %w", r.state.Epoch+1, r.state.Batch+1, err)
		}
		s, err := r.step(mb, alone, ctx.Err() != nil)
		if err != nil {
			return err
		}
		s.Minibatches = minibatches
		s.Elapsed = before + time.Since(start)
		r.advance(s, alone)
		if s.EpochEnd {
			start, before = time.Now(), 0
		}
		s.State = r.state
		for _, h := range hooks {
			if err := h.run(s); err != nil {
				if errors.Is(err, ErrInterrupted) || errors.As(err, new(*DivergedError)) || Told(err) {
					return err
				}
				return fmt.Errorf("%s: %w", h.name, err)
			}
		}
		if s.EpochEnd {
			r.state.Sums, r.state.Shown = graph.Metrics{}, graph.Metrics{}
			r.spent = split{}
		}
		for _, w := range r.workers { // not before: the hooks look at it
			w.minibatch.Release()
		}
	}
}

// next takes every worker's share of the next minibatch; the first worker's stands for all.
func (r *run) next() (*readers.Minibatch, error) {
	start := time.Now()
	defer func() { r.spent.data += time.Since(start) }()
	for _, w := range r.workers {
		var err error
		if w.minibatch, err = w.loader.Next(context.Background()); err != nil {
			return nil, err
		}
	}
	return r.workers[0].minibatch, nil
}

// step trains on one minibatch, unless its gradient is not finite. stop asks all processes to stop behind it.
func (r *run) step(mb *readers.Minibatch, alone, stop bool) (*Step, error) {
	st, start := &r.state, time.Now()
	r.team.step = st.Step + 1
	at := learners.Position{Epoch: mb.Epoch, Samples: mb.Position - int64(mb.Count) - int64(mb.Epoch)*int64(r.epoch), Step: st.Step - st.RuleSince, Count: mb.Count}
	s := &Step{Minibatch: mb, Update: r.learner.Update(at), EpochEnd: mb.Last, Bits: r.bits(mb)}
	exchanged := r.workers[0].aggregator != nil && !alone
	late := exchanged && r.cfg.Distributed.DoubleBuffering
	if late && st.Pending != nil {
		s.Update = r.learner.Update(st.Pending.At)
	}
	before := r.aggregation()
	finished := r.team.outside()
	err := r.onAll(s, func(w *worker) (graph.Result, error) {
		var x graph.Exchange
		switch {
		case exchanged:
			x = w.aggregator.Step(st.Step+1, s.Bits, stop)
		case w.block != nil:
			at := at
			at.Count = w.minibatch.N // alone, its share is its minibatch
			return w.stepInBlock(r.learner.Update(at))
		}
		return w.exec.Step(&w.minibatch.Batch, s.Update, x)
	})
	err = finished(err)
	if late && err == nil {
		if st.Pending = (&pendingAggregate{At: at}); mb.Last {
			err = r.drain(s)
		}
	}
	spent := r.aggregation().Sub(before)
	switch { // whether all stop, and not this process alone
	case err != nil:
	case exchanged:
		s.Stop = r.workers[0].aggregator.Stop()
	case r.workers[0].block != nil:
		begin := time.Now()
		s.Stop, err = r.syncBlock(s, mb, stop)
		spent.Exposed += time.Since(begin)
	default:
		s.Stop, err = r.team.any(stop)
	}
	r.spent.add(time.Since(start), spent)
	return s, err
}

// onAll runs a step on every worker of this process. All come to the same result.
func (r *run) onAll(s *Step, step func(*worker) (graph.Result, error)) error {
	results := make([]graph.Result, len(r.workers))
	err := r.team.each(func(i int, _ group.Member) (err error) {
		results[i], err = step(r.workers[i])
		return err
	})
	s.Metrics.Add(results[0].Metrics)
	s.Norm = results[0].Norm
	if err != nil && !errors.As(err, new(*distributed.NotFiniteError)) {
		return err
	}
	for i, result := range results {
		if err != nil || !result.Finite() {
			return r.divergence(r.workers[i], s, err)
		}
	}
	return nil
}

// drain updates with the last aggregate of an epoch.
func (r *run) drain(s *Step) error {
	u := r.learner.Update(r.state.Pending.At)
	r.state.Pending = nil
	return r.onAll(s, func(w *worker) (graph.Result, error) { return w.exec.Step(&graph.Batch{}, u, w.buffering().Drain()) })
}

// aggregation is where the first worker's time has gone.
func (r *run) aggregation() distributed.Times {
	if a := r.workers[0].aggregator; a != nil {
		return a.Times()
	}
	return distributed.Times{}
}

// bits is the number of bits that a minibatch's gradients are sent with.
func (r *run) bits(mb *readers.Minibatch) int {
	d := r.cfg.Distributed
	switch {
	case mb.Position-int64(mb.Count) < d.WarmStart.Samples:
		return 32
	case d.Bits.Auto:
		return r.Record.Chosen.Bits
	}
	return d.Bits.At(mb.Epoch)
}

// advance moves the state behind a step.
func (r *run) advance(s *Step, alone bool) {
	st := &r.state
	st.Step++
	st.Batch++
	st.Samples = s.Minibatch.Position
	st.Sums.Add(s.Metrics)
	st.Seconds = s.Elapsed.Seconds()
	for w := range st.Trained {
		if alone {
			st.Trained[w] += int64(s.Minibatch.Count)
		} else {
			st.Trained[w] += int64(share(s.Minibatch.Count, w, len(st.Trained)))
		}
	}
	if s.EpochEnd {
		st.Epoch, st.Batch, st.Seconds = st.Epoch+1, 0, 0
	}
}
