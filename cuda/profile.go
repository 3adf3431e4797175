package cuda

import (
	"errors"
	"fmt"

	"gotrain/cuda/driver"
	"gotrain/graph"
)

// Profile runs the forward and the backward pass launch by launch, and returns the seconds of each operation of Plan by the device's
// clock. Other operations cannot hide what a launch takes, as in a step's graph: the sum is an upper bound. The batch has Options.Batch
// samples.
func (e *Executor) Profile(b *graph.Batch) ([]float64, error) {
	if b.N != e.fleet.options.Batch {
		return nil, fmt.Errorf("profile takes %d samples, not %d", e.fleet.options.Batch, b.N)
	}
	p, err := e.program(b.N, false)
	if err != nil {
		return nil, err
	}
	if err := e.write(p, b, graph.Update{}); err != nil {
		return nil, err
	}
	r := newRecorder()
	p.begin(r)
	marks := []mark{r.mark(e.compute)}
	for i := range p.backward() {
		p.operations(r, i, i+1)
		marks = append(marks, r.mark(e.compute))
	}
	seconds, err := e.between(r, marks)
	return seconds, errors.Join(err, e.finish(r))
}

// between waits for marks, and returns the seconds between each two.
func (e *Executor) between(r *recorder, marks []mark) ([]float64, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := e.compute.Synchronize(); err != nil {
		return nil, e.wrong("profiling a step", err)
	}
	var seconds []float64
	var last driver.Event
	for i, m := range marks {
		if i > 0 {
			d, err := m.event.Since(last)
			if err != nil {
				return nil, e.wrong("profiling a step", err)
			}
			seconds = append(seconds, d.Seconds())
		}
		last = m.event
	}
	return seconds, nil
}
