package pipeline

import (
	"errors"
	"fmt"
	"time"

	"gotrain/distributed"
	"gotrain/graph"
)

// hooks are what happens after each step: the log's lines, the progress bar, checkpoints, and the end where one is asked
// for. A checkpoint comes after the lines of its step, so that a run that goes on from it repeats none.
func (r *run) hooks() []hook {
	lines := []hook{{"showing progress", r.showProgress}, {"writing the log", r.logEpoch}, {"recording", r.recordStep}}
	if !r.team.leads() {
		lines = nil
	}
	return append(lines, hook{"saving a checkpoint", r.saveCheckpoint}, hook{"stopping", r.stopIfAsked})
}

func (r *run) showProgress(s *Step) error {
	every, batch := r.cfg.Learner.NumMBsToShowResult, s.Minibatch.Index+1
	r.sinceShown += s.Metrics.Count
	r.say.at(s.Samples, fmt.Sprintf("epoch %d/%d", s.Minibatch.Epoch+1, r.cfg.Learner.MaxEpochs), fmt.Sprintf("%d/%d", batch, s.Minibatches),
		fmt.Sprintf("loss %.3f", s.Sums.Loss/max(s.Sums.Count, 1)), fmt.Sprintf("error %.1f%%", 100*s.Sums.Errors/max(s.Sums.Count, 1)))
	if every == 0 || batch%every != 0 {
		return nil
	}
	m := s.Sums
	m.Add(graph.Metrics{Loss: -s.Shown.Loss, Errors: -s.Shown.Errors, Count: -s.Shown.Count})
	if m.Count == 0 { // in the middle of a block of block momentum
		r.unshown += every
		return nil
	}
	r.state.Shown = s.Sums
	now := time.Now()
	r.say.progress(minibatchLine(s.Minibatch.Epoch+1, r.cfg.Learner.MaxEpochs, batch-every-r.unshown+1, batch, s.Minibatches, m, r.sinceShown, now.Sub(r.shown)))
	r.shown, r.sinceShown, r.unshown = now, 0, 0
	return nil
}

// logEpoch writes the epoch's line and where its time went, and says so where it has waited for data.
func (r *run) logEpoch(s *Step) error {
	if !s.EpochEnd {
		return nil
	}
	if s.Sums.Count == 0 {
		return fmt.Errorf("epoch %d: %w", s.Minibatch.Epoch+1, errSkipped)
	}
	r.say.hide()
	_, err := fmt.Fprintln(r.Out, epochLine(s.Minibatch.Epoch+1, s.Sums, s.Elapsed))
	if r.workers[0].aggregator != nil || r.workers[0].block != nil {
		r.say.printf("%s", r.spent)
		if warning := r.spent.slower(r.team, s.Sums.Count); warning != "" && s.Epoch == 1 {
			r.say.printf("warning: %s", warning)
		}
	}
	if wait := r.spent.data; wait > s.Elapsed/10 {
		r.say.printf("warning: %.1f of %.1f seconds were spent waiting for data: raise reader.workers or reader.prefetch", wait.Seconds(), s.Elapsed.Seconds())
	}
	return err
}

func (r *run) saveCheckpoint(s *Step) error {
	c := r.cfg.Checkpoint
	due := s.EpochEnd && c.EveryEpochs > 0 && s.Epoch%c.EveryEpochs == 0 || c.EveryMinibatches > 0 && s.Step%int64(c.EveryMinibatches) == 0
	if s.EpochEnd && s.Epoch == r.cfg.Learner.MaxEpochs {
		due = true // or a run that is stopped while it is tested would train its last epoch again
	}
	if r.due = r.due || due; !r.due || s.Unsynced {
		return nil
	}
	return r.save(s)
}

// save writes a checkpoint behind a step. Behind the last one of an epoch the next one's sums begin.
func (r *run) save(s *Step) error {
	if s.EpochEnd {
		r.state.Sums, r.state.Shown = graph.Metrics{}, graph.Metrics{}
	}
	r.saved, r.due = s.Step, false
	err := r.checkpoint()
	if errors.As(err, new(*distributed.NotFiniteError)) { // of the aggregate that it has waited for
		return r.divergence(r.workers[0], s, err)
	}
	if err != nil {
		return err
	}
	return r.recordCheckpoint(s.Step)
}

func (r *run) stopIfAsked(s *Step) error {
	if !s.Stop || s.Unsynced {
		return nil
	}
	if r.saved != s.Step {
		if err := r.save(s); err != nil {
			return err
		}
	}
	r.say.printf("Stopped behind epoch %d, minibatch %d: the same command continues from there", s.Minibatch.Epoch+1, s.Minibatch.Index+1)
	return r.team.followed(ErrInterrupted)
}
