package cuda

import (
	"fmt"
	"strings"

	"gotrain/cuda/driver"
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
	for i, c := range calls {
		e := c.e
		if c.exchange.a != e.aggregator {
			return res, fmt.Errorf("worker %d steps with an aggregator that is not its own", i)
		}
		if c.exchange.bits != first.bits || c.exchange.step != first.step {
			return res, fmt.Errorf("worker 0 is at step %d with %d bits, and worker %d at step %d with %d", first.step, first.bits, i, c.exchange.step, c.exchange.bits)
		}
		if err := e.aggregator.prepare(first.bits); err != nil {
			return res, err
		}
		if programs[i], err = e.program(c.batch.N, false); err != nil {
			return res, err
		}
	}
	for i, c := range calls { // not before: a program may move the slot
		c.e.aggregator.ask(c.exchange.stop)
		if err := c.e.write(programs[i], c.batch, c.update); err != nil {
			return res, fmt.Errorf("worker %d: %w", i, err)
		}
	}
	w, err := f.prepare(programs, first.bits)
	if err != nil {
		return res, err
	}
	if err := f.run(w); err != nil {
		return res, fmt.Errorf("step %d: %w", first.step, err)
	}
	res = f.workers[0].result(fleetResult)
	if err := f.settle(first.bits); err != nil {
		return graph.Result{Metrics: res.Metrics}, err
	}
	stop := f.stops()
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
	var pieces []*work
	if a.link != nil {
		var err error
		if pieces, err = f.pieces(programs[0]); err != nil {
			return nil, err
		}
	}
	w, err := capture(f.workers[0].compute, f.options.Eager || a.link != nil, func(r *recorder) { f.record(r, programs, bits, pieces) })
	if err != nil {
		return nil, err
	}
	w.pieces = pieces
	f.mu.Lock()
	f.steps[k] = w
	f.mu.Unlock()
	return w, nil
}

// record records the step of all workers: it forks from the first worker's compute stream, and joins there. pieces, where not nil, are the
// passes, see Fleet.pieces.
func (f *Fleet) record(r *recorder, programs []*program, bits int, pieces []*work) {
	origin := f.workers[0].compute
	start := r.mark(origin)
	for i, e := range f.workers {
		if e.compute != origin {
			r.wait(e.compute, start)
		}
		r.wait(e.exchange, start)
		e.aggregator.clearFlags(r)
		if pieces == nil {
			programs[i].begin(r)
		}
	}
	done := 0 // operations that are recorded
	for i, to := range f.cuts(programs) {
		if pieces == nil {
			f.operations(r, programs, done, to)
		} else if pieces[i] != nil {
			r.do(origin, "the passes", pieces[i].start)
		}
		done = to
		if i < len(f.workers[0].aggregator.buckets) {
			f.aggregate(r, i, bits)
		}
	}
	for _, e := range f.workers {
		r.join(e.compute, e.exchange)
		e.norm(r, fleetResult)
		e.update(r, fleetResult)
		e.download(r, e.compute)
		r.copy(e.compute, "flags", e.aggregator.found.Pointer, e.aggregator.flags.at, e.aggregator.flagBytes())
	}
	for _, e := range f.workers[1:] {
		r.join(origin, e.compute)
	}
}

// cuts are the numbers of operations behind which the gradients of each bucket are final, and last that of all of them; zeros where no
// worker has samples.
func (f *Fleet) cuts(programs []*program) []int {
	a := f.workers[0].aggregator
	all := make([]int, len(a.buckets)+1)
	if plan := anyPlan(programs); plan != nil {
		for i, b := range a.buckets {
			all[i] = readyAt(plan, b.End, a.settings.Overlap)
		}
		all[len(a.buckets)] = plan.Backward
	}
	return all
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

// aggregate records the exchange of a bucket: every worker encodes its gradients, owners add what has come to them and encode the sums,
// and all decode those. See package distributed.
func (f *Fleet) aggregate(r *recorder, bucket, bits int) {
	for _, e := range f.workers {
		a, m := e.aggregator, e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		to := m.sent.at
		if a.reduces(bits) {
			to = m.sums.at // where columns lie as in sent
		}
		residual, next := a.versions(&a.worker, bits)
		r.join(e.exchange, e.compute)
		r.launch(e.exchange, ofBucket(bucket, "encode"), e.device.set.Encode(m.format, &x.encode.columns, x.encode.at, e.arenas[graph.Gradients], residual, next, to, a.flag(2*bucket)))
	}
	if a := f.workers[0].aggregator; a.reduces(bits) {
		linked{a}.reduce(r, bucket, bits)
		f.addResults(r, bucket, bits)
	} else {
		f.carrier().scatter(r, bucket, bits)
		f.addResults(r, bucket, bits)
		f.addGradients(r, bucket, bits)
		f.carrier().gather(r, bucket, bits)
	}
	for _, e := range f.workers {
		m := e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		r.launch(e.exchange, ofBucket(bucket, "decode"), e.device.set.Decode(m.format, &x.decode.columns, x.decode.at, x.decode.messages, 1, e.arenas[graph.Gradients]))
	}
}

// addResults records the sum of all workers' metrics, which come with the first bucket.
func (f *Fleet) addResults(r *recorder, bucket, bits int) {
	if bucket > 0 {
		return
	}
	for _, e := range f.workers {
		r.launch(e.exchange, "add results", e.device.set.AddResults(e.aggregator.messages[bits].table, e.aggregator.workers, e.results.at+fleetResult))
	}
}

// addGradients records what owners do.
func (f *Fleet) addGradients(r *recorder, bucket, bits int) {
	for _, e := range f.workers {
		a, m := e.aggregator, e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		if x.bytes[a.rank] == 0 {
			continue
		}
		residual, next := a.versions(&a.owner, bits)
		g := e.arenas[graph.Gradients]
		r.launch(e.exchange, ofBucket(bucket, "add and encode sums"),
			e.device.set.Decode(m.format, &x.add.columns, x.add.at, x.add.messages, a.workers, g),
			e.device.set.Encode(m.format, &x.encodeSum.columns, x.encodeSum.at, g, residual, next, m.sums.at, a.flag(2*bucket+1)))
	}
}

// versions are the residuals that a step reads and writes: none with 32 bits, but for the step that adds what is owed.
func (a *Aggregator) versions(r *residuals, bits int) (current, next driver.Pointer) {
	if bits == 32 && !a.owed {
		return 0, 0
	}
	return r.current(), r.next()
}
