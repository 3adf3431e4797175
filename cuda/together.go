package cuda

import (
	"fmt"
	"strings"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// fleetKey is what steps of all workers together differ by.
type fleetKey struct {
	shares string // the samples of each
	bits   int
	owed   bool // 32 bits add residuals
	now    int  // which version of the residuals counts
}

// forget frees the steps of all workers together: some memory that they were made for is not there any more.
func (f *Fleet) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, w := range f.steps {
		w.free()
		delete(f.steps, k)
	}
}

// together runs a step that all workers have come to, and gives every call its result.
func (f *Fleet) together(calls []*call) {
	result, err := f.step(calls)
	for _, c := range calls {
		c.result, c.err = result, err
	}
}

func (f *Fleet) step(calls []*call) (res graph.Result, err error) {
	first := calls[0].exchange
	programs := make([]*program, len(calls))
	stop := false
	for i, c := range calls {
		e := c.e
		if c.exchange.a != e.aggregator {
			return res, fmt.Errorf("worker %d steps with an aggregator that is not its own", i)
		}
		if c.exchange.bits != first.bits || c.exchange.step != first.step {
			return res, fmt.Errorf("worker 0 is at step %d with %d bits, and worker %d at step %d with %d", first.step, first.bits, i, c.exchange.step, c.exchange.bits)
		}
		stop = stop || c.exchange.stop
		if err := e.aggregator.prepare(first.bits); err != nil {
			return res, err
		}
		if programs[i], err = e.program(c.batch.N, false); err != nil {
			return res, err
		}
	}
	for i, c := range calls { // not before: a program may move the slot
		if err := c.e.write(programs[i], c.batch, c.update); err != nil {
			return res, fmt.Errorf("worker %d: %w", i, err)
		}
	}
	w, err := f.prepare(programs, first.bits)
	if err != nil {
		return res, err
	}
	if err := w.run(); err != nil {
		return res, fmt.Errorf("the step: %w", err)
	}
	res = f.workers[0].result(fleetResult)
	if err := f.settle(first.bits); err != nil {
		return graph.Result{Metrics: res.Metrics}, err
	}
	for _, e := range f.workers {
		e.aggregator.stop = e.aggregator.stop || stop
	}
	return res, nil
}

// prepare returns the work of a step.
func (f *Fleet) prepare(programs []*program, bits int) (*work, error) {
	a := f.workers[0].aggregator
	k := fleetKey{bits: bits, owed: a.owed && bits == 32, now: a.worker.now}
	if bits == 32 && !a.owed {
		k.now = 0
	}
	var shares []string
	for _, p := range programs {
		shares = append(shares, fmt.Sprint(p.samples()))
	}
	k.shares = strings.Join(shares, " ")
	f.mu.Lock()
	w := f.steps[k]
	f.mu.Unlock()
	if w != nil {
		return w, nil
	}
	if err := f.makeShares(); err != nil {
		return nil, err
	}
	w, err := capture(f.workers[0].compute, f.options.Eager, func(r *recorder) { f.record(r, programs, bits) })
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.steps[k] = w
	f.mu.Unlock()
	return w, nil
}

// record records the step of all workers: it forks from the first worker's compute stream, and joins there.
func (f *Fleet) record(r *recorder, programs []*program, bits int) {
	origin := f.workers[0].compute
	start := r.mark(origin)
	for i, e := range f.workers {
		if e.compute != origin {
			r.wait(e.compute, start)
		}
		r.wait(e.exchange, start)
		r.fill(e.exchange, "flags", e.aggregator.flags.at, ^uint32(0), 2*len(e.aggregator.buckets))
		programs[i].begin(r)
	}
	done, plan := 0, anyPlan(programs) // operations that are recorded
	for i, b := range f.workers[0].aggregator.buckets {
		if plan != nil {
			ready := readyAt(plan, b.End, f.workers[0].aggregator.settings.Overlap)
			f.operations(r, programs, done, ready)
			done = ready
		}
		f.aggregate(r, i, bits)
	}
	if plan != nil {
		f.operations(r, programs, done, plan.Backward)
	}
	for _, e := range f.workers {
		r.join(e.compute, e.exchange)
		e.norm(r, fleetResult)
		e.update(r, fleetResult)
		e.download(r, e.compute)
		r.copy(e.compute, "flags", e.aggregator.found.Pointer, e.aggregator.flags.at, 8*len(e.aggregator.buckets))
	}
	for _, e := range f.workers[1:] {
		r.join(origin, e.compute)
	}
}

// readyAt is the number of operations behind which the gradients up to an offset are final.
func readyAt(p *graph.Plan, end int, overlap bool) int {
	for _, b := range p.Buckets {
		if b.End >= end && overlap {
			return b.Ready
		}
	}
	return p.Backward
}

// aggregate records the exchange of a bucket: every worker encodes its gradients, owners take what is theirs, add and encode the sums,
// and all take those and decode them. See package distributed. Workers take what they need by copies from the others' devices, or from pinned
// memory where some of them do not reach each other.
func (f *Fleet) aggregate(r *recorder, bucket, bits int) {
	n := len(f.workers)
	encoded, summed := make([]mark, n), make([]mark, n)
	what := func(s string) string { return fmt.Sprintf("bucket %d: %s", bucket, s) }
	for w, e := range f.workers {
		a, m := e.aggregator, e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		residual, next := a.versions(&a.worker, bits)
		r.join(e.exchange, e.compute)
		r.launch(e.exchange, what("encode"), e.device.set.Encode(m.format, &x.encode.columns, x.encode.at, e.arenas[graph.Gradients], residual, next, m.sent.at, a.flags.at+offset(2*bucket)))
		if f.staged {
			if bucket == 0 {
				r.copy(e.exchange, "result to the host", m.resultFrom(e), e.results.at+shareResult, kernels.ResultBytes)
			}
			f.others(w, func(o *Executor) {
				r.copy(e.exchange, what(fmt.Sprintf("to the host, for worker %d", o.index)), m.sentFrom(e, bucket, o.index), m.sent.at+driver.Pointer(x.sent[o.index]), x.bytes[o.index])
			})
		}
		encoded[w] = r.mark(e.exchange)
	}
	for w, e := range f.workers {
		a, m := e.aggregator, e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		f.others(w, func(o *Executor) { r.wait(e.exchange, encoded[o.index]) })
		if bucket == 0 {
			f.addResults(r, e, m, bits)
		}
		if x.bytes[w] > 0 {
			f.others(w, func(o *Executor) {
				from := o.aggregator.messages[bits].sentFrom(o, bucket, w)
				r.copy(e.exchange, what(fmt.Sprintf("gradients of worker %d", o.index)), m.came.at+driver.Pointer(x.came[o.index]), from, x.bytes[w])
			})
			residual, next := a.versions(&a.owner, bits)
			g := e.arenas[graph.Gradients]
			r.launch(e.exchange, what("add and encode sums"),
				e.device.set.Decode(m.format, &x.add.columns, x.add.at, x.add.messages, n, g),
				e.device.set.Encode(m.format, &x.encodeSum.columns, x.encodeSum.at, g, residual, next, m.sums.at, a.flags.at+offset(2*bucket+1)))
		}
		if f.staged && len(f.workers) > 1 {
			r.copy(e.exchange, what("sums to the host"), m.sumsFrom(e, bucket), m.sums.at+driver.Pointer(x.sums[w]), x.bytes[w])
		}
		summed[w] = r.mark(e.exchange)
	}
	for w, e := range f.workers {
		m := e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		f.others(w, func(o *Executor) {
			from := o.aggregator.messages[bits].sumsFrom(o, bucket)
			r.wait(e.exchange, summed[o.index])
			r.copy(e.exchange, what(fmt.Sprintf("sums of worker %d", o.index)), m.sums.at+driver.Pointer(x.sums[o.index]), from, x.bytes[o.index])
		})
		r.launch(e.exchange, what("decode"), e.device.set.Decode(m.format, &x.decode.columns, x.decode.at, x.decode.messages, 1, e.arenas[graph.Gradients]))
	}
}

// others visits all workers but one.
func (f *Fleet) others(but int, visit func(*Executor)) {
	for i, e := range f.workers {
		if i != but {
			visit(e)
		}
	}
}

// addResults records the sum of all workers' metrics.
func (f *Fleet) addResults(r *recorder, e *Executor, m *messages, bits int) {
	for w, o := range f.workers {
		from := e.results.at + shareResult
		if o != e {
			from = o.aggregator.messages[bits].resultFrom(o)
		}
		r.copy(e.exchange, fmt.Sprintf("result of worker %d", w), m.results+driver.Pointer(kernels.ResultBytes*w), from, kernels.ResultBytes)
	}
	r.launch(e.exchange, "add results", e.device.set.AddResults(m.table, len(f.workers), e.results.at+fleetResult))
}

// versions are the residuals that a step reads and writes: none with 32 bits, but for the step that adds what is owed.
func (a *Aggregator) versions(r *residuals, bits int) (current, next driver.Pointer) {
	if bits == 32 && !a.owed {
		return 0, 0
	}
	return r.current(), r.next()
}
