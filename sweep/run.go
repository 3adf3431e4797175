package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	states map[job]state
	first  error // of a run, with FailFast, or of the journal
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
	case pipeline.Finished, pipeline.Diverged, Invalid:
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
	if r.limits, err = p.limits(); err != nil {
		return nil, err
	}
	if err := r.prepare(); err != nil {
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
func (r *runner) prepare() error {
	before := fold(r.folder.events)
	for _, t := range r.Trials {
		if t.Fault != nil {
			all := job{t.Number, 0}
			if s := before[all]; s.error != t.Fault.Error() {
				if err := r.folder.note(Event{Trial: t.Number, Status: Invalid, Error: t.Fault.Error()}); err != nil {
					return err
				}
			}
			r.states[all] = state{status: Invalid, error: t.Fault.Error()}
			continue
		}
		c, err := r.limits.bounded(r.Plan, t)
		if err != nil {
			return err
		}
		if err := r.folder.freeze(t.Number, c); err != nil {
			return err
		}
		for n := range r.Repeats {
			j := job{t.Number, n + 1}
			r.states[j] = before[j]
		}
	}
	path := filepath.Join(r.folder.dir, "sweep.yaml")
	if _, err := os.Stat(path); err == nil || r.Source == nil {
		return nil
	}
	return writeFile(path, r.Source)
}

// work starts the jobs, so many at a time, until there is none left.
func (r *runner) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var slots sync.WaitGroup
	for slot := range r.limits.parallel {
		slots.Go(func() {
			for {
				j, ok := r.next(ctx)
				if !ok {
					return
				}
				if err := r.do(ctx, j, slot); err != nil {
					cancel(err)
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

// next takes a job that has not ended, in the order of the trials.
func (r *runner) next(ctx context.Context) (job, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return job{}, false
	}
	for _, j := range r.jobs() {
		if s := r.states[j]; !s.busy && !s.over(r.Retries) {
			s.busy = true
			r.states[j] = s
			return j, true
		}
	}
	return job{}, false
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
	return nil
}
