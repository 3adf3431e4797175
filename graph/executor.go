package graph

import (
	"errors"
	"math"
)

// Executor runs plans of one network for one worker. Its methods are called from one goroutine at a time.
type Executor interface {
	// Layouts returns the order of the parameters (and of all that is laid out as they are) and of the statistics.
	Layouts() (parameters, statistics *Layout)

	// Arena gives the values of an arena as a view. A device executor gives a mirror in host memory: Pull fills it, Push
	// carries what the host changed back.
	Arena(a Arena) []float32
	Pull(a Arena) error
	Push(a Arena) error

	// Step runs one training step: the forward and the backward pass, the exchange of gradients, and the update. Where the
	// loss or the gradient's norm is not finite, nothing is updated. After it, the gradient arena holds the gradient that was
	// used. A batch with N = 0 adds nothing to the gradient, and takes part in the exchange just the same. Where the exchange
	// has no aggregate yet, the result is zero and nothing is updated.
	Step(b *Batch, u Update, x Exchange) (Result, error)

	// Evaluate runs the forward pass with the running statistics. logits, where not nil, receives [N][classes] values.
	Evaluate(b *Batch, logits []float32) (Metrics, error)

	Close() error
}

// Exchange aggregates the gradients of several workers while the backward pass runs; nil stands for one worker alone. Its
// methods are called one at a time, while Step runs.
type Exchange interface {
	// Ready hands a bucket over whose gradients are final, in the order of the buckets, with the metrics of the worker's
	// share, which travel with it. It must not wait for other workers: the backward pass goes on when it returns.
	Ready(b Bucket, m Metrics)

	// Wait returns when the gradient arena holds the aggregate, with the metrics of all workers together. An error that is
	// ErrNoAggregate says that there is none yet.
	Wait() (Metrics, error)

	// Gather collects what every worker has for one operation: send is this worker's share, all[r] that of worker r, this
	// one included, as long as send. It waits for the others. All workers call it for the same operations in the same order,
	// those with a batch of no samples too, between two calls of Ready or before the first. send is the caller's again when
	// Gather returns; all is the caller's until the next Gather.
	Gather(send []float64) (all [][]float64, err error)
}

// ErrNoAggregate is what Exchange.Wait returns where there is nothing to update with yet: with double buffering, an
// epoch's first step has only sent its gradients off when it ends.
var ErrNoAggregate = errors.New("there is no aggregate yet")

// Result is what a step found.
type Result struct {
	Metrics         // of all workers
	Norm    float64 // of the aggregated gradient, before clipping and L2
}

// Finite says whether the step was one to take.
func (r Result) Finite() bool {
	sum := r.Norm + r.Loss
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

// Parts are the pieces of a step, of an executor whose arenas lie in host memory.
type Parts interface {
	// Gradients runs the forward and the backward pass and leaves the gradients in their arena. Where x is not nil, it calls
	// Ready and Gather, and leaves Wait to the caller.
	Gradients(b *Batch, x Exchange) (Metrics, error)

	// SumSquares is the squared norm of the whole gradient arena; not finite where a gradient is not.
	SumSquares() (float64, error)

	// Update applies the learner's rule to the parameters.
	Update(u Update) error
}

// StepInParts is Executor.Step made of its parts.
func StepInParts(p Parts, b *Batch, u Update, x Exchange) (r Result, err error) {
	if r.Metrics, err = p.Gradients(b, x); err != nil {
		return r, err
	}
	if x != nil {
		if r.Metrics, err = x.Wait(); errors.Is(err, ErrNoAggregate) {
			return Result{}, nil
		} else if err != nil {
			return r, err
		}
	}
	squares, err := p.SumSquares()
	if err != nil {
		return r, err
	}
	if r.Norm = math.Sqrt(squares); !r.Finite() {
		return r, nil
	}
	return r, p.Update(u)
}

// Source compiles the plan for a number of samples; executors call it once for each number that they meet.
type Source func(samples int, inference bool) (*Plan, error)
