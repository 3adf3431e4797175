package reference

import (
	"fmt"
	"math"

	"gotrain/graph"
)

// Executor implements graph.Executor.
type Executor struct {
	source     graph.Source
	parameters graph.Layout
	statistics graph.Layout
	arenas     [graph.Arenas][]float32
	plans      map[planKey]*prepared
	place      func(*graph.Plan) storage
	logits     []float32
}

type planKey struct {
	samples   int
	inference bool
}

// prepared is a plan with memory for its tensors.
type prepared struct {
	*graph.Plan
	values map[*graph.Tensor][]float64
	freed  func(op int) // poisons what is not read after an operation; nil outside of tests
}

// storage gives tensors memory for their values.
type storage struct {
	values func(*graph.Tensor) []float64
	freed  func(op int)
}

// separate gives every tensor memory of its own.
func separate(*graph.Plan) storage {
	return storage{values: func(t *graph.Tensor) []float64 { return make([]float64, t.Shape.Values()) }}
}

// New returns an executor whose arenas are zero.
func New(source graph.Source) (*Executor, error) { return newExecutor(source, separate) }

func newExecutor(source graph.Source, place func(*graph.Plan) storage) (*Executor, error) {
	e := &Executor{source: source, plans: map[planKey]*prepared{}, place: place}
	p, err := e.plan(1, false)
	if err != nil {
		return nil, err
	}
	e.parameters, e.statistics = p.Parameters, p.Statistics
	for a := range graph.Arenas {
		e.arenas[a] = make([]float32, e.layout(a).Size)
	}
	return e, nil
}

func (e *Executor) layout(a graph.Arena) *graph.Layout {
	if a == graph.Statistics {
		return &e.statistics
	}
	return &e.parameters
}

// plan compiles what has not been compiled before.
func (e *Executor) plan(samples int, inference bool) (*prepared, error) {
	key := planKey{samples, inference}
	if p := e.plans[key]; p != nil {
		return p, nil
	}
	plan, err := e.source(samples, inference)
	if err != nil {
		return nil, fmt.Errorf("compile a plan for %d samples: %w", samples, err)
	}
	place := e.place(plan)
	p := &prepared{Plan: plan, values: map[*graph.Tensor][]float64{}, freed: place.freed}
	for _, t := range plan.Tensors {
		p.values[t] = place.values(t)
	}
	e.plans[key] = p
	return p, nil
}

// Layouts returns the order of the parameters and of the statistics.
func (e *Executor) Layouts() (parameters, statistics *graph.Layout) {
	return &e.parameters, &e.statistics
}

// Arena returns the values of an arena; there is no mirror.
func (e *Executor) Arena(a graph.Arena) []float32 { return e.arenas[a] }

// Pull does nothing.
func (e *Executor) Pull(graph.Arena) error { return nil }

// Push does nothing.
func (e *Executor) Push(graph.Arena) error { return nil }

// Step runs a training step.
func (e *Executor) Step(b *graph.Batch, u graph.Update, x graph.Exchange) (graph.Result, error) {
	return graph.StepInParts(e, b, u, x)
}

// Gradients runs the forward and the backward pass.
func (e *Executor) Gradients(b *graph.Batch, x graph.Exchange) (graph.Metrics, error) {
	p, err := e.plan(max(b.N, 1), false)
	if err != nil {
		return graph.Metrics{}, err
	}
	if b.N == 0 {
		clear(e.arenas[graph.Gradients])
		return graph.Metrics{}, p.RunEmpty(e.arenas[graph.Statistics], x)
	}
	buckets := p.Buckets
	return e.run(p, b, p.Backward, x, func(ops int) {
		for len(buckets) > 0 && buckets[0].Ready <= ops {
			if x != nil {
				x.Ready(buckets[0], metrics(p, b))
			}
			buckets = buckets[1:]
		}
	})
}

// Evaluate runs the forward pass with the running statistics.
func (e *Executor) Evaluate(b *graph.Batch, logits []float32) (graph.Metrics, error) {
	if b.N == 0 {
		return graph.Metrics{}, nil
	}
	p, err := e.plan(b.N, true)
	if err != nil {
		return graph.Metrics{}, err
	}
	m, err := e.run(p, b, p.Forward, nil, func(int) {})
	copy(logits, e.logits)
	return m, err
}

// Logits returns those of the last batch, [N][classes], before any update.
func (e *Executor) Logits() []float32 { return e.logits }

// run loads arenas and batch, runs operations, and keeps what outlives them. done is called when so many of them have
// run and what they left in the gradient arena is there.
func (e *Executor) run(p *prepared, b *graph.Batch, ops int, x graph.Exchange, done func(ops int)) (graph.Metrics, error) {
	if err := p.load(b); err != nil {
		return graph.Metrics{}, err
	}
	for _, t := range p.Tensors {
		switch t.Role {
		case graph.Parameter:
			e.get(graph.Parameters, t.Name, p.values[t])
		case graph.Statistic:
			e.get(graph.Statistics, t.Name, p.values[t])
		}
	}
	for i, o := range p.Ops[:ops] {
		if err := runShared(o, p.values, x); err != nil {
			return graph.Metrics{}, err
		}
		for _, t := range o.Out {
			if t.Role == graph.ParameterGradient {
				e.set(graph.Gradients, t.Of.Name, p.values[t])
			}
		}
		if p.freed != nil {
			p.freed(i)
		}
		done(i + 1)
	}
	for _, t := range p.Tensors {
		if t.Role == graph.Statistic {
			e.set(graph.Statistics, t.Name, p.values[t])
		}
	}
	e.logits = make([]float32, p.Logits.Shape.Values())
	for i, v := range p.values[p.Logits] {
		e.logits[i] = float32(v)
	}
	return metrics(p, b), nil
}

// metrics are those that the forward pass left.
func metrics(p *prepared, b *graph.Batch) (m graph.Metrics) {
	m.Loss, m.Errors = p.values[p.Loss][0], p.values[p.Errors][0]
	for _, w := range b.Weights[:b.N] {
		m.Count += float64(w)
	}
	return m
}

func (e *Executor) get(a graph.Arena, name string, values []float64) {
	s, _ := e.layout(a).Find(name)
	widen(values, e.arenas[a][s.Offset:])
}

func (e *Executor) set(a graph.Arena, name string, values []float64) {
	s, _ := e.layout(a).Find(name)
	for i, v := range values {
		e.arenas[a][s.Offset+i] = float32(v)
	}
}

// widen fills values from as many of from.
func widen[T float32 | int32](values []float64, from []T) {
	for i := range values {
		values[i] = float64(from[i])
	}
}

// load fills the inputs from a batch.
func (p *prepared) load(b *graph.Batch) error {
	if err := p.Fits(b); err != nil {
		return err
	}
	in := p.Inputs
	widen(p.values[in.Images], b.Images)
	widen(p.values[in.Labels], b.Labels)
	widen(p.values[in.Weights], b.Weights)
	if in.Divisor != nil {
		p.values[in.Divisor][0] = float64(b.Divisor)
	}
	return nil
}

// SumSquares is the squared norm of the gradient arena.
func (e *Executor) SumSquares() (float64, error) {
	sum := 0.0
	for _, g := range e.arenas[graph.Gradients] {
		sum += float64(g) * float64(g)
	}
	return sum, nil
}

// Update applies the learner's rule to the parameters.
func (e *Executor) Update(u graph.Update) error {
	squares, err := e.SumSquares()
	if err != nil {
		return err
	}
	apply(u, float64(u.Scale(math.Sqrt(squares))), e.arenas[graph.Parameters], e.arenas[graph.Gradients], e.arenas[graph.FirstMoment], e.arenas[graph.SecondMoment])
	return nil
}

// Close does nothing.
func (e *Executor) Close() error { return nil }

var _ graph.Executor = (*Executor)(nil)
