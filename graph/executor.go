package graph

// Executor runs plans of one network for one worker. Its methods are called from one goroutine at a time.
type Executor interface {
	// Layouts returns the order of the parameters (and of all that is laid out as they are) and of the statistics.
	Layouts() (parameters, statistics *Layout)

	// Arena gives the values of an arena as a view. A device executor gives a mirror in host memory: Pull fills it, Push
	// carries what the host changed back.
	Arena(a Arena) []float32
	Pull(a Arena) error
	Push(a Arena) error

	// Gradients runs the forward and the backward pass and leaves the gradients in their arena. Where ready is not nil, it
	// is called with each bucket, in order, as soon as the bucket is final and before the backward pass goes on; it must
	// not wait for the exchange. A batch with N = 0 leaves zero gradients, and calls ready just the same.
	Gradients(b *Batch, ready func(Bucket)) (Metrics, error)

	// SumSquares is the squared norm of the whole gradient arena; not finite where a gradient is not.
	SumSquares() (float64, error)

	// Update applies the learner's rule to the parameters.
	Update(u Update) error

	// Evaluate runs the forward pass with the running statistics. logits, where not nil, receives [N][classes] values.
	Evaluate(b *Batch, logits []float32) (Metrics, error)

	Close() error
}

// Source compiles the plan for a number of samples; executors call it once for each number that they meet.
type Source func(samples int, inference bool) (*Plan, error)
