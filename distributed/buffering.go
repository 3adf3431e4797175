package distributed

import (
	"slices"

	"gotrain/graph"
)

// pending is an aggregate that waits for its update: that of the step whose exchange still runs, or one from a checkpoint.
type pending struct {
	exchange *exchange
	values   []float32
	metrics  graph.Metrics
}

// take waits for the aggregate and forgets it.
func (p *pending) take() (values []float32, m graph.Metrics, err error) {
	values, m, err = p.peek()
	*p = pending{}
	return values, m, err
}

func (p *pending) peek() (values []float32, m graph.Metrics, err error) {
	switch {
	case p.exchange != nil:
		m, err = p.exchange.finish()
		return p.exchange.set.sums, m, err
	case p.values != nil:
		return p.values, p.metrics, nil
	}
	return nil, m, graph.ErrNoAggregate
}

// waitForLast is Wait with double buffering. The residuals that this step's encoding has written count at once, since the
// next step's encoding comes before this step's sums.
func (x *exchange) waitForLast() (graph.Metrics, error) {
	a := x.a
	values, m, err := a.pending.take()
	if err == nil {
		copy(a.gradients, values)
	}
	if notFinite(err) {
		_, _ = x.finish() // all workers stop here, and none with an exchange under way
		return m, err
	}
	x.commit()
	a.pending.exchange = x
	return m, err
}

// Pending is the aggregate that the next step, or Drain, updates with, for a checkpoint: it waits for it. The error is
// graph.ErrNoAggregate where there is none.
func (a *Aggregator) Pending() (values []float32, m graph.Metrics, err error) {
	return a.pending.peek()
}

// SetPending goes on from an aggregate that was saved.
func (a *Aggregator) SetPending(values []float32, m graph.Metrics) {
	a.pending = pending{values: slices.Clone(values), metrics: m}
}

// Drain is an exchange that sends nothing, and gives the pending aggregate: for a step with an empty batch at the end of an
// epoch.
func (a *Aggregator) Drain() graph.Exchange { return drain{a} }

type drain struct{ a *Aggregator }

func (drain) Ready(graph.Bucket, graph.Metrics) {}

func (d drain) Wait() (graph.Metrics, error) {
	values, m, err := d.a.pending.take()
	if err == nil {
		copy(d.a.gradients, values)
	}
	return m, err
}

// Gather gives this worker's values for those of all: nobody has samples.
func (d drain) Gather(send []float64) ([][]float64, error) {
	all := make([][]float64, d.a.member.Size())
	for i := range all {
		all[i] = send
	}
	return all, nil
}
