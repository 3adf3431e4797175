package sweep

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"

	"gotrain/archive"
	"gotrain/pipeline"
)

// Halving stops bad trials early: behind minEpochs, minEpochs times factor and so on a trial goes on only if it is among the best
// 1/factor of those that have come so far, itself among them. Nobody waits for others: asynchronous successive halving, ASHA (Li et
// al., "A system for massively parallel hyperparameter tuning", MLSys 2020), in its form that stops trials rather than pausing them.
// Trials are compared by the metric's counterpart in training, for tests are made in the end. Where trials are repeated, their first
// runs are compared, and the others are made of those trials only that were not stopped.
type Halving struct {
	MinEpochs, Factor int
}

func (d *decoder) halving(n *yaml.Node) *Halving {
	const key = "sweep.halving"
	h := &Halving{1, 3}
	d.mapping(n, key, func(name, value *yaml.Node) {
		switch name.Value {
		case "minEpochs":
			h.MinEpochs = d.integer(value, key+".minEpochs", 1, 1<<31-1)
		case "factor":
			h.Factor = d.integer(value, key+".factor", 2, 1000)
		default:
			d.unknown(name, key, []string{"minEpochs", "factor"})
		}
	})
	return h
}

// Stopped is the status of a run that halving has stopped.
const Stopped = "stopped"

// rung says whether trials are compared behind an epoch.
func (h *Halving) rung(epoch int) bool {
	for e := h.MinEpochs; e <= epoch; e *= h.Factor {
		if e == epoch {
			return true
		}
	}
	return false
}

// keep says whether a value is among the best of all that have come to an epoch, less being better.
func (h *Halving) keep(all []float64, v float64) bool {
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	most := max(1, len(all)/h.Factor)
	return v <= sorted[most-1]
}

// judge compares a run with those that have come to its epoch before, and says why it is to be stopped; "": it goes on.
func (r *runner) judge(j job, e pipeline.EpochEvent) string {
	v, h := curveOf(r.Metric, e), r.Halving
	if h == nil || j.repeat > 1 || math.IsNaN(v) || !h.rung(e.Epoch) || e.Epoch >= r.Trials[j.trial-1].Config.Learner.MaxEpochs {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rungs[e.Epoch] == nil {
		r.rungs[e.Epoch] = map[int]float64{}
	}
	loss := r.loss(v)
	r.rungs[e.Epoch][j.trial] = loss
	all := slices.Collect(maps.Values(r.rungs[e.Epoch]))
	if h.keep(all, loss) {
		return ""
	}
	return fmt.Sprintf("behind epoch %d its %s, %s, was not among the best 1/%d of %d trials", e.Epoch, curveName(r.Metric), metricNamed(r.Metric).show(v), h.Factor, len(all))
}

// loss is a value of the metric, less being better.
func (f *File) loss(v float64) float64 {
	if f.Maximize {
		return -v
	}
	return v
}

// remember takes over what the runs that have ended had come to, when a sweep goes on.
func (r *runner) remember() error {
	r.rungs = map[int]map[int]float64{}
	for _, j := range r.jobs() {
		s := r.states[j]
		if r.Halving == nil || j.repeat != 1 || s.status != pipeline.Finished && s.status != Stopped {
			continue
		}
		h, err := archive.ReadHistory(filepath.Join(r.folder.dir, runsFolder, s.run))
		if err != nil {
			return err
		}
		for _, e := range h.Epochs {
			r.judge(j, e)
		}
	}
	return nil
}

// skipped says that a job is not made, for its trial has been stopped, or has failed, in its first run.
func (r *runner) skipped(j job) bool {
	first := r.states[job{j.trial, 1}]
	return r.Halving != nil && j.repeat > 1 && first.over(r.Retries) && first.status != pipeline.Finished
}

// stoppedError is the cause of the end of a run that was judged.
type stoppedError struct{ why string }

func (e stoppedError) Error() string { return e.why }
