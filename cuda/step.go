package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// Step runs a training step. With an exchange of an Aggregator of this package it waits until all workers of the fleet have come
// to the step.
func (e *Executor) Step(b *graph.Batch, u graph.Update, x graph.Exchange) (graph.Result, error) {
	switch x := x.(type) {
	case nil:
		return e.stepAlone(b, u)
	case *exchange:
		return e.fleet.meet(&call{e: e, batch: b, update: u, exchange: x})
	}
	return e.stepThroughHost(b, u, x)
}

// wrong adds to an error where it happened.
func (e *Executor) wrong(doing string, err error) error {
	return fmt.Errorf("%s of worker %d on device %d: %w", doing, e.index, e.device.number, err)
}

// begin records what a step or an evaluation starts with: the copy of the slot, beside which weights are packed, and the images. A
// share of no samples is done then: it has zeros for gradients and metrics.
func (p *program) begin(r *recorder) {
	e := p.e
	r.join(e.copy, e.compute)
	r.copy(e.copy, "inputs", e.inputs.at, e.slot.Pointer, p.slot.bytes)
	r.launch(e.compute, "pack weights", p.pack...)
	r.join(e.compute, e.copy)
	r.launch(e.compute, "images", p.images...)
	if p.plan == nil {
		r.fill(e.compute, "no gradients", e.arenas[graph.Gradients], 0, e.size(graph.Gradients))
		r.fill(e.compute, "no metrics", e.results.at+shareResult, 0, kernels.ResultBytes/4)
	}
}

// operations records a range of the plan's operations.
func (p *program) operations(r *recorder, from, to int) {
	e := p.e
	if p.plan == nil {
		return
	}
	for i, o := range p.plan.Ops[from:to] {
		if c := p.lent[from+i]; c != nil {
			r.node(e.compute, title(o)+", by "+e.fleet.options.Provider.String(), func() error { return c.run(e.compute.Stream) })
		}
		r.launch(e.compute, title(o), p.launches[from+i]...)
	}
}

// title says what an operation does, with what is fused into it.
func title(o *graph.Op) string {
	if o.Fused != nil {
		return o.Name + ": " + strings.Join(o.Fused, ", ")
	}
	return o.Name + ": " + o.Kind.String()
}

// backward is the number of operations of the forward and the backward pass.
func (p *program) backward() int {
	if p.plan == nil {
		return 0
	}
	return p.plan.Backward
}

func (p *program) samples() int {
	if p.plan == nil {
		return 0
	}
	return p.plan.Batch
}

// stepAlone is the step of one worker.
func (e *Executor) stepAlone(b *graph.Batch, u graph.Update) (res graph.Result, err error) {
	p, err := e.program(b.N, false)
	if err != nil {
		return res, err
	}
	if err := e.write(p, b, u); err != nil {
		return res, err
	}
	if p.alone == nil {
		p.alone, err = capture(e.compute, e.fleet.options.Eager, p.whole)
		if err != nil {
			return res, e.wrong("preparing the step", err)
		}
	}
	if err := p.alone.run(); err != nil {
		return res, e.wrong("the step", err)
	}
	return e.result(shareResult), nil
}

// whole records the step of one worker.
func (p *program) whole(r *recorder) {
	p.begin(r)
	p.operations(r, 0, p.backward())
	p.e.norm(r, shareResult)
	p.e.update(r, shareResult)
	p.e.download(r, p.e.compute)
}

// stepThroughHost is the step of a worker whose gradients somebody else aggregates in host memory, while the backward pass goes
// on.
func (e *Executor) stepThroughHost(b *graph.Batch, u graph.Update, x graph.Exchange) (res graph.Result, err error) {
	if slices.ContainsFunc(e.fleet.plan.Ops, synced) {
		return res, errSynced
	}
	p, err := e.program(b.N, false)
	if err != nil {
		return res, err
	}
	if err := e.write(p, b, u); err != nil {
		return res, err
	}
	if err := e.gradients(p, b, x); err != nil {
		return res, err
	}
	if res.Metrics, err = x.Wait(); errors.Is(err, graph.ErrNoAggregate) {
		return graph.Result{}, nil
	} else if err != nil {
		return res, err
	}
	r := newRecorder()
	e.copyGradients(r)
	e.norm(r, shareResult)
	e.download(r, e.compute)
	if err := e.finish(r); err != nil {
		return res, e.wrong("the norm", err)
	}
	if res.Norm = e.result(shareResult).Norm; !res.Finite() {
		return res, nil
	}
	r = newRecorder()
	e.update(r, shareResult)
	if err := e.finish(r); err != nil {
		return res, e.wrong("the update", err)
	}
	return res, nil
}

// finish waits for what was recorded, of which the compute stream is the last.
func (e *Executor) finish(r *recorder) error {
	if r.err == nil {
		r.err = e.compute.Synchronize()
	}
	r.free()
	return r.err
}

func (e *Executor) copyGradients(r *recorder) {
	r.copy(e.compute, "aggregate", e.arenas[graph.Gradients], e.mirrors[graph.Gradients].Pointer, 4*e.size(graph.Gradients))
}

// part is a piece of a step, behind which buckets of gradients go to the host.
type part struct {
	work       *work
	buckets    []graph.Bucket
	begin, end int // values of the arena
}

// cut makes the parts of the forward and the backward pass, with an eighth of the gradients each at least.
func (p *program) cut() error {
	if p.parts != nil {
		return nil
	}
	e := p.e
	least := e.size(graph.Gradients) / 8
	from := 0
	next := &part{}
	buckets := e.fleet.plan.Buckets
	if p.plan != nil {
		buckets = p.plan.Buckets
	}
	var parts []*part
	for i, b := range buckets {
		next.buckets, next.end = append(next.buckets, b), b.End
		last := i == len(buckets)-1
		if !last && (p.plan == nil || next.end-next.begin < least) {
			continue
		}
		begin, to := from, p.backward()
		if p.plan != nil && !last {
			to = b.Ready
		}
		var err error
		next.work, err = capture(e.compute, e.fleet.options.Eager, func(r *recorder) {
			if begin == 0 {
				p.begin(r)
			}
			p.operations(r, begin, to)
		})
		if err != nil {
			for _, x := range parts {
				x.work.free()
			}
			return e.wrong("preparing the step", err)
		}
		parts = append(parts, next)
		from, next = to, &part{begin: b.End, end: b.End}
	}
	p.parts = parts
	return nil
}

// gradients runs the forward and the backward pass, and hands gradients over as they come.
func (e *Executor) gradients(p *program, b *graph.Batch, x graph.Exchange) error {
	if err := p.cut(); err != nil {
		return err
	}
	r := newRecorder()
	defer r.free()
	var come []mark
	for i, t := range p.parts {
		r.do(e.compute, "the backward pass", t.work.start)
		r.join(e.exchange, e.compute)
		r.copy(e.exchange, "gradients", e.mirrors[graph.Gradients].Pointer+offset(t.begin), e.arenas[graph.Gradients]+offset(t.begin), 4*(t.end-t.begin))
		if i == 0 {
			e.download(r, e.exchange)
		}
		come = append(come, r.mark(e.exchange))
	}
	for i, t := range p.parts {
		r.do(e.exchange, "waiting for gradients", func() error { return come[i].event.Synchronize() })
		if r.err != nil {
			return e.wrong("the step", r.err)
		}
		m := e.result(shareResult).Metrics
		for _, bucket := range t.buckets {
			x.Ready(bucket, m)
		}
	}
	return nil
}

// Evaluate runs the forward pass with the running statistics.
func (e *Executor) Evaluate(b *graph.Batch, logits []float32) (m graph.Metrics, err error) {
	if b.N == 0 {
		return m, nil
	}
	p, err := e.program(b.N, true)
	if err != nil {
		return m, err
	}
	if err := e.write(p, b, graph.Update{}); err != nil {
		return m, err
	}
	if p.alone == nil {
		t := p.plan.Logits
		p.alone, err = capture(e.compute, e.fleet.options.Eager, func(r *recorder) {
			p.begin(r)
			p.operations(r, 0, p.plan.Forward)
			r.copy(e.compute, "logits", e.logits.Pointer, p.address(t), t.Bytes())
			e.download(r, e.compute)
		})
		if err != nil {
			return m, e.wrong("preparing the evaluation", err)
		}
	}
	if err := p.alone.run(); err != nil {
		return m, e.wrong("the evaluation", err)
	}
	copy(logits, floats(e.logits.Bytes))
	return e.result(shareResult).Metrics, nil
}
