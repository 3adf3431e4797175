package cuda

import (
	"fmt"

	"gotrain/graph"
)

// call is a worker's call of Step, of one step that all workers take together.
type call struct {
	e        *Executor
	batch    *graph.Batch
	update   graph.Update
	exchange *exchange
	result   graph.Result
	err      error
	done     chan struct{}
}

// meet waits until all workers have come to a step. The last one runs it for all.
func (f *Fleet) meet(c *call) (graph.Result, error) {
	c.done = make(chan struct{})
	f.mu.Lock()
	if f.aborted != nil {
		f.mu.Unlock()
		return graph.Result{}, f.aborted
	}
	if f.calls[c.e.index] != nil {
		f.mu.Unlock()
		return graph.Result{}, fmt.Errorf("worker %d comes to a step twice", c.e.index)
	}
	f.calls[c.e.index] = c
	f.here++
	var calls []*call
	if f.here == len(f.calls) {
		calls = f.calls
		f.calls, f.here = make([]*call, len(calls)), 0
	}
	f.mu.Unlock()
	if calls != nil {
		f.together(calls)
		for _, c := range calls {
			close(c.done)
		}
	}
	<-c.done
	return c.result, c.err
}

// Abort ends what workers wait for, and keeps them from taking further steps together.
func (f *Fleet) Abort(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.aborted == nil {
		f.aborted = err
	}
	for i, c := range f.calls {
		if c != nil {
			c.err = f.aborted
			close(c.done)
			f.calls[i] = nil
		}
	}
	f.here = 0
}
