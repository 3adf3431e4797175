package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gotrain/distributed"
	"gotrain/graph"
)

// DivergedError ends a run whose loss or gradient is not finite. The parameters have not been updated with it.
type DivergedError struct {
	Epoch, Minibatch int // from 1
	Loss             float64
	Rate             float32
	Norm             float64 // of the gradient
	Tensor           string  // the first that is not finite
	Checkpoint       string  // what the run would continue from
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("diverged in epoch %d, minibatch %d: loss %v, learning rate %v, gradient norm %v, first value that is not finite in %s; lower the rate or set learner.gradientClippingNorm; the last good checkpoint is kept: %s",
		e.Epoch, e.Minibatch, e.Loss, e.Rate, e.Norm, e.Tensor, e.Checkpoint)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// divergence says where the first value that is not finite stands: in the batch, in the parameters, or in the gradients,
// in the order in which the backward pass computed them.
func (r *run) divergence(w *worker, s *Step, found error) error {
	mb := w.minibatch
	e := &DivergedError{Epoch: mb.Epoch + 1, Minibatch: mb.Index + 1, Loss: s.Metrics.Loss / max(s.Metrics.Count, 1), Rate: s.Update.Rate,
		Norm: s.Norm, Tensor: "the loss", Checkpoint: "none yet"}
	if err := pull(w.exec); err != nil {
		return err
	}
	if err := w.exec.Pull(graph.Gradients); err != nil {
		return err
	}
	var not *distributed.NotFiniteError
	switch name := firstBad(w.exec, graph.Parameters); {
	case errors.As(found, &not):
		e.Tensor, e.Norm = not.What(), math.NaN()
	case bad(mb.Images):
		e.Tensor = "the images of the minibatch"
	case name != "":
		e.Tensor = name
	default:
		if name := firstBad(w.exec, graph.Gradients); name != "" {
			e.Tensor = "the gradient of " + name
		}
	}
	if r.store != nil {
		if c, _, err := r.store.Load(); err == nil && c != nil {
			e.Checkpoint = strings.TrimSuffix(c.Dir, "/")
		}
	}
	if w.block != nil {
		if r.team.workers > 1 {
			e.Tensor += fmt.Sprintf(" on worker %d", w.member.Rank())
		}
		return e // the others do not know
	}
	return r.team.followed(e)
}

func bad(values []float32) bool {
	return slices.ContainsFunc(values, func(v float32) bool { return !finite(float64(v)) })
}

func firstBad(e graph.Executor, a graph.Arena) string {
	l, _ := e.Layouts()
	for _, s := range l.Slots {
		if bad(e.Arena(a)[s.Offset:s.End()]) {
			return s.Name
		}
	}
	return ""
}
