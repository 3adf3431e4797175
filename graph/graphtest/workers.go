// Package graphtest lets several workers that are goroutines take a step together, in the tests of executors. It is the
// plainest graph.Exchange there is: nothing overlaps, and everything is summed in the order of the workers.
package graphtest

import (
	"errors"
	"fmt"
	"sync"

	"gotrain/graph"
)

// Worker is the exchange of one worker.
type Worker struct {
	Gradients []float32 // its arena, which Wait fills with the sum of all; nil: only metrics are summed
	Gathers   int       // calls of Gather that have returned
	ready     int       // the end of the last bucket that is ready
	metrics   graph.Metrics
	rank      int
	meeting   *meeting
}

// Run runs work for each of n workers at once, and returns what went wrong. The fault of one ends what others wait for.
func Run(n int, work func(rank int, w *Worker) error) error {
	m := &meeting{given: make([]any, n)}
	m.turn = sync.NewCond(&m.mu)
	errs := make([]error, n)
	var all sync.WaitGroup
	for r := range n {
		all.Go(func() {
			if errs[r] = work(r, &Worker{rank: r, meeting: m}); errs[r] != nil {
				m.leave()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// meeting is where workers give something each and take what all gave.
type meeting struct {
	mu           sync.Mutex
	turn         *sync.Cond
	given, taken []any
	here, round  int
	left         bool
}

func (m *meeting) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
	m.turn.Broadcast()
}

// meet gives and waits for the others. What was given must not change afterwards.
func (m *meeting) meet(rank int, give any) ([]any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.given[rank] = give
	if m.here++; m.here == len(m.given) {
		m.here, m.taken, m.given = 0, m.given, make([]any, len(m.given))
		m.round++
		m.turn.Broadcast()
		return m.taken, nil
	}
	for round := m.round; m.round == round; m.turn.Wait() {
		if m.left {
			return nil, fmt.Errorf("worker %d waits for one that has left", rank)
		}
	}
	return m.taken, nil
}

// Ready notes that a bucket is.
func (w *Worker) Ready(b graph.Bucket, m graph.Metrics) {
	if b.Begin == w.ready { // Wait complains of others
		w.ready = b.End
	}
	w.metrics = m
}

// Wait sums metrics and gradients.
func (w *Worker) Wait() (sum graph.Metrics, err error) {
	if w.Gradients != nil && w.ready != len(w.Gradients) {
		return sum, fmt.Errorf("worker %d was ready up to %d of %d", w.rank, w.ready, len(w.Gradients))
	}
	type part struct {
		metrics   graph.Metrics
		gradients []float32
	}
	parts, err := w.meeting.meet(w.rank, part{w.metrics, append([]float32(nil), w.Gradients...)})
	if err != nil {
		return sum, err
	}
	clear(w.Gradients)
	for _, p := range parts {
		sum.Add(p.(part).metrics)
		for i, g := range p.(part).gradients {
			w.Gradients[i] += g
		}
	}
	w.ready, w.metrics = 0, graph.Metrics{}
	return sum, nil
}

// Gather collects what all workers send. What another worker sends under the same number has to be as long.
func (w *Worker) Gather(send []float64) ([][]float64, error) {
	type message struct {
		number int
		values []float64
	}
	given, err := w.meeting.meet(w.rank, message{w.Gathers, append([]float64(nil), send...)})
	if err != nil {
		return nil, err
	}
	all := make([][]float64, len(given))
	for r, g := range given {
		m, ok := g.(message)
		if !ok || m.number != w.Gathers || len(m.values) != len(send) {
			return nil, fmt.Errorf("worker %d gathers %d values for the %dth time, and worker %d does something else", w.rank, len(send), w.Gathers+1, r)
		}
		all[r] = append([]float64(nil), m.values...)
	}
	w.Gathers++
	return all, nil
}

var _ graph.Exchange = (*Worker)(nil)
