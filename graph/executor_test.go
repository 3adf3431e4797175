package graph_test

import (
	"errors"
	"fmt"
	"testing"

	"gotrain/graph"
)

// counted are parts of a step that note what is called.
type counted struct{ gradients, updates int }

func (c *counted) Gradients(*graph.Batch, graph.Exchange) (graph.Metrics, error) {
	c.gradients++
	return graph.Metrics{Loss: 1, Count: 2}, nil
}
func (c *counted) SumSquares() (float64, error) { return 9, nil }
func (c *counted) Update(graph.Update) error    { c.updates++; return nil }

// waiting is an exchange that ends as it says.
type waiting struct{ err error }

func (waiting) Ready(graph.Bucket, graph.Metrics)          {}
func (waiting) Gather(send []float64) ([][]float64, error) { return [][]float64{send}, nil }
func (w waiting) Wait() (graph.Metrics, error)             { return graph.Metrics{Loss: 5, Count: 6}, w.err }

func TestAStepUpdatesWhereThereIsAnAggregate(t *testing.T) {
	lost := errors.New("worker 2 is lost")
	aggregate := graph.Result{Metrics: graph.Metrics{Loss: 5, Count: 6}, Norm: 3}
	for _, c := range []struct {
		name    string
		x       graph.Exchange
		want    graph.Result
		err     error
		updates int
	}{
		{"one worker", nil, graph.Result{Metrics: graph.Metrics{Loss: 1, Count: 2}, Norm: 3}, nil, 1},
		{"several workers", waiting{}, aggregate, nil, 1},
		{"no aggregate yet", waiting{fmt.Errorf("step 1: %w", graph.ErrNoAggregate)}, graph.Result{}, nil, 0},
		{"a lost worker", waiting{lost}, graph.Result{Metrics: aggregate.Metrics}, lost, 0},
	} {
		var p counted
		got, err := graph.StepInParts(&p, nil, graph.Update{}, c.x)
		if got != c.want || err != c.err || p.gradients != 1 || p.updates != c.updates {
			t.Errorf("%s: %+v (%v) with %d updates, want %+v (%v) with %d", c.name, got, err, p.updates, c.want, c.err, c.updates)
		}
	}
}
