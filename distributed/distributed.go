// Package distributed aggregates the gradients of the workers of a training, and decides how.
//
// An Aggregator stands for one worker. While the backward pass runs, it takes finished buckets of the gradient arena, and
// for each of them goes through two phases (Seide et al., 2014, section 3.3): the worker quantizes its gradient, adding what
// earlier quantizations have lost, and sends each column to the worker that owns it; the owner sums what has come in the
// order of the workers, quantizes the sum with a residual of its own, and sends it to all. Everybody decodes the same bits,
// so that all go on with the same parameters. With 32 bits the two phases are a reduce-scatter and an all-gather, which move
// as few bytes as any all-reduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// 2009), and whose sums do not depend on timing.
//
// How bytes travel is the business of package group, and what becomes of a column that of package quantizer. Nothing here
// knows of learners, checkpoints or configurations.
package distributed

import (
	"fmt"

	"gotrain/graph"
)

// Settings say how gradients are aggregated. All workers have the same.
type Settings struct {
	Columns         int  // values of a column; 0: one output channel
	ZeroThreshold   bool // 1 bit: tell values by their sign; false: by their column's mean
	BucketBytes     int  // of float32 gradients exchanged at a time, at least; 0: all at once
	AtOnce          bool // send long messages at once, over fast links; false: a chunk at a time
	Overlap         bool // exchange while the backward pass goes on; false: when it has ended
	DoubleBuffering bool // Wait gives the aggregate of the step before
}

// NotFiniteError says that a worker's gradient, or a sum, has a value that is not finite. All workers get it at the same step,
// and no residual has been touched.
type NotFiniteError struct {
	Worker int    // whose gradient it is, the first of several; of a sum, its owner
	Sum    bool   // all gradients were finite, and their sum is not
	Tensor string // the parameter
}

func (e *NotFiniteError) Error() string { return e.What() + " is not finite" }

// What is not finite.
func (e *NotFiniteError) What() string {
	if e.Sum {
		return "the sum of all workers' gradients of " + e.Tensor
	}
	return fmt.Sprintf("the gradient of %s on worker %d", e.Tensor, e.Worker)
}

// Bytes is what a worker sends in a step, to all others together.
func (a *Aggregator) Bytes(bits int) int {
	n := 0
	for _, b := range a.buckets {
		n += b.scattered(a.format(bits), a.member.Rank()) + b.gathered(a.format(bits), a.member.Rank())
	}
	return n
}

var _ graph.Exchange = (*exchange)(nil)
