package cuda

import (
	"errors"
	"fmt"
	"slices"

	"gotrain/cuda/driver"
	"gotrain/distributed"
	"gotrain/distributed/quantizer"
	"gotrain/graph"
)

// Aggregator is one worker's part in aggregating gradients on devices. It is distributed.Aggregator for a fleet that has all workers, or
// one of them and a Link to the others, without double buffering: the same columns, owners, formats and residuals, and so the same bits.
type Aggregator struct {
	e        *Executor
	link     Link // nil: the fleet has all workers
	rank     int  // of the worker
	workers  int  // that there are
	settings distributed.Settings
	buckets  []*distributed.Bucket
	messages map[int]*messages // by bits
	flags    block             // see flags.go
	found    hostBlock         // the flags, on the host
	asked    hostBlock         // whether this worker asks all to stop

	worker residuals // of this worker's gradients
	owner  residuals // of the sums that this worker makes
	owed   bool      // residuals are not zero: the next dense step adds them
	stop   bool
	times  distributed.Times
}

// residuals are two versions of an arena: a step reads the one that counts and writes the other, which counts when the whole step
// does.
type residuals struct {
	versions [2]driver.Pointer
	now      int
}

func (r *residuals) current() driver.Pointer { return r.versions[r.now] }
func (r *residuals) next() driver.Pointer    { return r.versions[1-r.now] }
func (r *residuals) commit()                 { r.now = 1 - r.now }

// NewAggregator returns the aggregator of a worker, in the place of the one before, whose memory it frees. All workers of the fleet need
// one, with the same settings.
func (e *Executor) NewAggregator(s distributed.Settings) (*Aggregator, error) {
	return e.newAggregator(s, nil, e.index, len(e.fleet.workers))
}

func (e *Executor) newAggregator(s distributed.Settings, l Link, rank, workers int) (*Aggregator, error) {
	f := e.fleet
	if s.DoubleBuffering {
		return nil, errors.New("devices do not aggregate with double buffering: take package distributed's aggregator")
	}
	a := &Aggregator{e: e, link: l, rank: rank, workers: workers, settings: s, messages: map[int]*messages{},
		buckets: distributed.Buckets(&f.plan.Parameters, f.plan.Buckets, s, workers)}
	a.flags.what, a.found.what, a.asked.what = e.named("flags"), e.named("flags"), e.named("wish to stop")
	if e.aggregator != nil {
		f.forget() // its steps
		if err := e.aggregator.free(); err != nil {
			return nil, e.wrong("freeing an aggregator", err)
		}
	}
	e.aggregator = a
	return a, nil
}

// free frees all that the aggregator has on its device.
func (a *Aggregator) free() error {
	var errs []error
	all := []driver.Pointer{a.flags.at, a.worker.versions[0], a.worker.versions[1], a.owner.versions[0], a.owner.versions[1]}
	for _, m := range a.messages {
		all = append(all, m.sent.at, m.came.at, m.sums.at, m.results, m.tables)
		if len(m.host.Bytes) > 0 {
			errs = append(errs, a.e.device.FreeHost(m.host.Host))
		}
	}
	for _, p := range all {
		if p != 0 {
			errs = append(errs, a.e.device.Free(p))
		}
	}
	for _, h := range []hostBlock{a.found, a.asked} {
		if len(h.Bytes) > 0 {
			errs = append(errs, a.e.device.FreeHost(h.Host))
		}
	}
	return errors.Join(errs...)
}

// exchange is the aggregation of one step. It is done within the executor's Step, so that its methods are not to be called.
type exchange struct {
	a    *Aggregator
	step int64
	bits int
	stop bool
}

// errOnDevice is what an exchange says to another executor.
var errOnDevice = errors.New("this exchange runs on devices, within the step of its own executor")

func (x *exchange) Ready(graph.Bucket, graph.Metrics)           {}
func (x *exchange) Wait() (graph.Metrics, error)                { return graph.Metrics{}, errOnDevice }
func (x *exchange) Gather([]float64) (_ [][]float64, err error) { return nil, errOnDevice }

// Step is the exchange of one step, for the executor's Step. stop asks all workers to stop behind it; see Stop.
func (a *Aggregator) Step(step int64, bits int, stop bool) graph.Exchange {
	return &exchange{a: a, step: step, bits: bits, stop: stop}
}

// Stop says whether any worker has asked to stop, in the newest step.
func (a *Aggregator) Stop() bool { return a.stop }

// Times is the sum over all steps so far. Encoding and decoding run on the devices, within the step's graph: nobody knows of how long.
func (a *Aggregator) Times() distributed.Times { return a.times }

// Bytes is what a worker sends in a step, to all others together.
func (a *Aggregator) Bytes(bits int) int {
	f, n, rank := a.format(bits), a.workers, a.rank
	sum := 0
	for _, b := range a.buckets {
		for owner, p := range b.Pieces {
			bytes := f.Bytes(p.Table(f))
			if owner != rank {
				sum += bytes
			} else {
				sum += (n - 1) * bytes
			}
		}
	}
	return sum
}

// Pending is nothing ever: there is no double buffering.
func (a *Aggregator) Pending() (values []float32, m graph.Metrics, err error) {
	return nil, m, graph.ErrNoAggregate
}

func (a *Aggregator) format(bits int) quantizer.Format {
	return quantizer.Format{Bits: bits, ZeroThreshold: a.settings.ZeroThreshold}
}

// Residuals are what quantization owes: of this worker's gradients, and of the sums that it owns; the other workers' columns are
// zero in the second. owed is false where both are zero.
func (a *Aggregator) Residuals() (worker, owner []float32, owed bool, err error) {
	if !a.owed {
		return nil, nil, false, nil
	}
	if worker, err = a.read(a.worker.current()); err != nil {
		return nil, nil, false, err
	}
	if owner, err = a.read(a.owner.current()); err != nil {
		return nil, nil, false, err
	}
	return worker, owner, true, nil
}

// SetResiduals goes on from residuals that were saved; owner may have values of columns that this worker does not own.
func (a *Aggregator) SetResiduals(worker, owner []float32) error {
	if err := a.clearResiduals(); err != nil {
		return err
	}
	own := make([]float32, len(owner))
	for _, b := range a.buckets {
		for _, c := range b.Pieces[a.rank].Columns {
			copy(own[c.Offset:c.Offset+c.Rows], owner[c.Offset:])
		}
	}
	a.owed = true
	if err := a.write(a.worker.current(), worker); err != nil {
		return err
	}
	return a.write(a.owner.current(), own)
}

// clearResiduals makes both versions zero, and makes room for them where there is none.
func (a *Aggregator) clearResiduals() error {
	n := a.e.size(graph.Gradients)
	for r, what := range map[*residuals]string{&a.worker: "residuals", &a.owner: "residuals of sums"} {
		for i := range r.versions {
			b := block{what: a.e.named(what)}
			if r.versions[i] == 0 {
				if _, err := a.e.device.reserve(&b, 4*n); err != nil {
					return err
				}
				r.versions[i] = b.at
			}
			if err := a.e.compute.Fill(r.versions[i], 0, n); err != nil {
				return a.e.wrong("clearing residuals", err)
			}
		}
	}
	if err := a.e.compute.Synchronize(); err != nil {
		return a.e.wrong("clearing residuals", err)
	}
	return nil
}

// read copies an arena to the host, by way of the mirror of the gradients, which is as long and holds nothing that lasts.
func (a *Aggregator) read(from driver.Pointer) ([]float32, error) {
	e := a.e
	if err := e.move("reading residuals into", graph.Gradients, e.mirrors[graph.Gradients].Pointer, from); err != nil {
		return nil, err
	}
	return slices.Clone(e.Arena(graph.Gradients)), nil
}

func (a *Aggregator) write(to driver.Pointer, values []float32) error {
	e := a.e
	if n := e.size(graph.Gradients); len(values) != n {
		return fmt.Errorf("residuals have %d values, and the parameters %d", len(values), n)
	}
	copy(e.Arena(graph.Gradients), values)
	return e.move("writing residuals from", graph.Gradients, to, e.mirrors[graph.Gradients].Pointer)
}

// prepare makes room for a step's flags, messages and residuals.
func (a *Aggregator) prepare(bits int) error {
	if err := a.reserveFlags(); err != nil {
		return err
	}
	if a.messages[bits] == nil {
		m, err := a.newMessages(a.format(bits))
		if err != nil {
			return err
		}
		a.messages[bits] = m
	}
	if bits != 32 && a.worker.versions[0] == 0 {
		return a.clearResiduals()
	}
	return nil
}

// settle looks at the flags of a step, and makes its residuals count where all was finite.
func (f *Fleet) settle(bits int) error {
	for b := range f.workers[0].aggregator.buckets {
		for sum := range 2 {
			for w := range f.workers[0].aggregator.workers {
				if at := f.found(w, 2*b+sum); at >= 0 {
					return &distributed.NotFiniteError{Worker: w, Sum: sum == 1, Tensor: f.tensor(at)}
				}
			}
		}
	}
	for _, e := range f.workers {
		a := e.aggregator
		a.times.Bytes += int64(a.Bytes(bits))
		if bits != 32 || a.owed {
			a.worker.commit()
			a.owner.commit()
			a.owed = bits != 32
		}
	}
	return nil
}

// tensor names the parameter that a value of the arena belongs to.
func (f *Fleet) tensor(offset int32) string {
	for _, s := range f.plan.Parameters.Slots {
		if int(offset) < s.End() {
			return s.Name
		}
	}
	return ""
}

var _ graph.Exchange = (*exchange)(nil)
