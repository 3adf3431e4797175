package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"gotrain/archive"
	"gotrain/pipeline"
)

// Settings say how a sweep is run.
type Settings struct {
	Program  string // the gotrain that trains
	Log      io.Writer
	Terminal bool // Log is one
	Restart  bool // begin anew where a sweep of the same trials would be continued
	FailFast bool // end with the first run that fails
	Retries  int  // how often a run that failed or crashed is started again
}

// runner runs a sweep.
type runner struct {
	*Plan
	Settings
	folder *folder
	board  *board
	limits limits

	mu     sync.Mutex
	moved  *sync.Cond // a job has ended
	states map[job]state
	rungs  map[int]map[int]float64 // losses at the epochs where trials are compared, by trial
}

// job is a run of a trial; both count from 1.
type job struct{ trial, repeat int }

// state is what has become of a job.
type state struct {
	status, error, run string
	tries              int // that have ended without a result
	busy               bool
}

// over says that a job is not started again.
func (s state) over(retries int) bool {
	switch s.status {
	case pipeline.Finished, pipeline.Diverged, Invalid, Stopped:
		return true
	case pipeline.Failed, archive.Crashed:
		return s.tries > retries
	}
	return false
}

// fold is what events come to.
func fold(events []Event) map[job]state {
	all := map[job]state{}
	for _, e := range events {
		j := job{e.Trial, e.Repeat}
		if e.Status == Proposed {
			continue
		}
		s := all[j]
		s.status, s.error = e.Status, e.Error
		if e.Run != "" {
			s.run = e.Run
		}
		if e.Status == pipeline.Failed || e.Status == archive.Crashed {
			s.tries++
		}
		all[j] = s
	}
	return all
}

// Run runs what of a sweep has not ended yet, writes its results into its folder, and returns them. A run that fails is recorded, and
// is no error unless Settings say so. When the context is cancelled, the runs write checkpoints, and the error is
// pipeline.ErrInterrupted.
func Run(ctx context.Context, p *Plan, s Settings) (*Results, error) {
	f, err := openFolder(p, s.Restart)
	if err != nil {
		return nil, err
	}
	defer f.close()
	r := &runner{Plan: p, Settings: s, folder: f, states: map[job]state{}}
	r.moved = sync.NewCond(&r.mu)
	if r.limits, err = p.limits(); err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.remember(); err != nil {
		return nil, err
	}
	r.board = newBoard(r)
	ended, _, all := r.counts()
	r.board.say("Sweep %s: %d trials, %d runs, %d of them ended, %s; folder %s", p.Name, len(p.Trials), all, ended, r.limits, f.dir)
	for _, t := range p.Trials {
		if t.Fault != nil {
			r.board.say("trial %d is left out: %v", t.Number, t.Fault)
		}
	}
	err = r.work(ctx)
	r.board.close()
	if err != nil {
		return nil, err
	}
	results, err := r.results()
	if err != nil {
		return nil, err
	}
	return results, results.write()
}

// prepare writes the files that a sweep begins with, and notes the trials that cannot be trained.
func (r *runner) prepare(ctx context.Context) error {
	before := fold(r.folder.events)
	for _, e := range r.folder.events { // what was proposed stays
		if e.Status == Proposed && e.Trial <= len(r.Trials) && len(e.Values) == len(r.Parameters) {
			var values []Value
			for i, text := range e.Values {
				values = append(values, Value{text, r.Parameters[i].Pos})
			}
			r.Trials[e.Trial-1] = r.trial(ctx, e.Trial, values)
		}
	}
	for _, t := range r.Trials {
		for n := range r.Repeats {
			j := job{t.Number, n + 1}
			r.states[j] = before[j]
		}
		if err := r.admit(t, before[job{t.Number, 0}].error); err != nil {
			return err
		}
	}
	path := filepath.Join(r.folder.dir, "sweep.yaml")
	if _, err := os.Stat(path); err == nil || r.Source == nil {
		return nil
	}
	return writeFile(path, r.Source)
}

// admit freezes the configuration of a trial, or notes that it cannot be trained, unless that is known.
func (r *runner) admit(t Trial, known string) error {
	if t.open() {
		return nil
	}
	if t.Fault == nil {
		c, err := r.limits.bounded(r.Plan, t)
		if err != nil {
			return err
		}
		return r.folder.freeze(t.Number, c)
	}
	for n := range r.Repeats {
		r.states[job{t.Number, n + 1}] = state{status: Invalid, error: t.Fault.Error()}
	}
	if known == t.Fault.Error() {
		return nil
	}
	return r.folder.note(Event{Trial: t.Number, Status: Invalid, Error: t.Fault.Error()})
}

// work starts the jobs, so many at a time, until there is none left.
func (r *runner) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.moved.Broadcast()
	})()
	var slots sync.WaitGroup
	for slot := range r.limits.parallel {
		slots.Go(func() {
			for {
				j, ok, err := r.next(ctx)
				if err == nil && ok {
					err = r.do(ctx, j, slot)
				}
				if err != nil {
					cancel(err)
				}
				if err != nil || !ok {
					return
				}
			}
		})
	}
	slots.Wait()
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return nil
	case errors.Is(cause, context.Canceled), errors.Is(cause, pipeline.ErrTerminated):
		return fmt.Errorf("%w: the same command goes on where the sweep was", pipeline.ErrInterrupted)
	default:
		return cause
	}
}

// next takes a job that has not ended, in the order of the trials. It waits where those that are left depend on others; there is none
// where all have been given away, or the context has ended.
func (r *runner) next(ctx context.Context) (j job, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ctx.Err() == nil {
		waiting := false
		for _, j := range r.jobs() {
			s := r.states[j]
			if s.busy || s.over(r.Retries) || r.skipped(j) {
				continue
			}
			if r.Trials[j.trial-1].open() {
				if ready, err := r.proposeNow(ctx, j.trial); err != nil {
					return j, false, err
				} else if !ready {
					waiting = true
					break // those behind it wait too
				}
				if s = r.states[j]; s.over(r.Retries) { // it cannot be trained
					continue
				}
			}
			if first := r.states[job{j.trial, 1}]; r.Halving != nil && j.repeat > 1 && !first.over(r.Retries) {
				waiting = true
				continue
			}
			s.busy = true
			r.states[j] = s
			return j, true, nil
		}
		if !waiting {
			return job{}, false, nil
		}
		r.moved.Wait()
	}
	return job{}, false, nil
}

// proposeNow proposes a trial if those have ended that it depends on: all but the ones just before it that run at the same time. So
// what is proposed does not depend on which of these is faster.
func (r *runner) proposeNow(ctx context.Context, trial int) (ready bool, err error) {
	var seen []observation
	for n := 1; n <= trial-r.limits.parallel; n++ {
		var values []float64
		for k := range r.Repeats {
			j := job{n, k + 1}
			s := r.states[j]
			if s.busy || !s.over(r.Retries) && !r.skipped(j) {
				return false, nil
			}
			if s.status == pipeline.Finished {
				h, err := archive.ReadHistory(filepath.Join(r.folder.dir, runsFolder, s.run))
				if err != nil {
					return false, err
				}
				values = append(values, metricNamed(r.Metric).of(h))
			}
		}
		o := observation{loss: math.Inf(1)}
		for _, v := range r.Trials[n-1].Values {
			o.values = append(o.values, v.Text)
		}
		if mean, _ := moments(values); mean != nil && !math.IsNaN(*mean) {
			o.loss = r.loss(*mean)
		}
		seen = append(seen, o)
	}
	t := r.trial(ctx, trial, r.propose(trial-1, seen))
	e := Event{Trial: trial, Status: Proposed}
	for _, v := range t.Values {
		e.Values = append(e.Values, v.Text)
	}
	if err := r.folder.note(e); err != nil {
		return false, err
	}
	r.Trials[trial-1] = t
	return true, r.admit(t, "")
}

// jobs lists the jobs of a sweep in order.
func (r *runner) jobs() (all []job) {
	for j := range r.states {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b job) int { return (a.trial-b.trial)*2*maxRuns + a.repeat - b.repeat })
	return all
}

// do brings a job to an end, or, where it is interrupted, to a checkpoint. An error ends the sweep.
func (r *runner) do(ctx context.Context, j job, slot int) error {
	e, err := r.attempt(ctx, j, slot)
	if err == nil {
		err = r.note(e, false)
	}
	if err != nil {
		return err
	}
	r.board.ended(j, slot, e)
	if r.FailFast && (e.Status == pipeline.Failed || e.Status == archive.Crashed || e.Status == pipeline.Diverged) {
		return fmt.Errorf("%s: %s (-fail-fast)", title(j), why(e.Status, e.Error))
	}
	return nil
}

// note writes an event, and what it means for its job.
func (r *runner) note(e Event, busy bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.folder.note(e); err != nil {
		return err
	}
	j := job{e.Trial, e.Repeat}
	s := fold(r.folder.events)[j]
	s.busy = busy
	r.states[j] = s
	r.moved.Broadcast()
	return nil
}
