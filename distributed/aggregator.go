package distributed

import (
	"errors"
	"time"

	"gotrain/distributed/group"
	"gotrain/distributed/quantizer"
	"gotrain/graph"
)

// Aggregator is one worker's part in aggregating gradients. Its methods are called from one goroutine at a time.
type Aggregator struct {
	member    group.Member
	settings  Settings
	layout    *graph.Layout
	gradients []float32 // the executor's arena
	buckets   []*Bucket

	worker residuals // of this worker's gradients
	owner  residuals // of the sums that this worker makes
	owed   bool      // residuals are not zero: the next dense step adds them

	sets    [2]*set // of messages; double buffering takes them in turn
	turn    int
	last    *exchange // the newest step's
	pending pending   // double buffering: what the next step's Wait gives
	stop    bool      // somebody has asked for it
	times   Times
}

// residuals are two versions of an arena: a step reads the one that counts and writes the other, which counts when the whole
// step does.
type residuals struct {
	versions [2][]float32
	now      int
}

func newResiduals(n int) residuals {
	return residuals{versions: [2][]float32{make([]float32, n), make([]float32, n)}}
}

func (r *residuals) current() []float32 { return r.versions[r.now] }
func (r *residuals) next() []float32    { return r.versions[1-r.now] }
func (r *residuals) commit()            { r.now = 1 - r.now }

// Times says where an aggregator's time went and what it sent.
type Times struct {
	Encode  time.Duration // quantizing gradients, on the executor's thread
	Decode  time.Duration // summing, quantizing sums and decoding, beside the backward pass but for what Exposed has of it
	Exposed time.Duration // waiting for the aggregate when the backward pass has ended, and in it for statistics of batch norm
	Bytes   int64         // sent by this worker
}

// Sub is what came after an earlier reading.
func (t Times) Sub(before Times) Times {
	return Times{t.Encode - before.Encode, t.Decode - before.Decode, t.Exposed - before.Exposed, t.Bytes - before.Bytes}
}

// New returns the aggregator of a worker whose executor has these parameters, gradients and buckets; Ready is to be called
// for all of them.
func New(m group.Member, l *graph.Layout, plan []graph.Bucket, gradients []float32, s Settings) *Aggregator {
	return &Aggregator{member: m, settings: s, layout: l, gradients: gradients,
		buckets: Buckets(l, plan, s, m.Size())}
}

// Times is the sum over all steps so far.
func (a *Aggregator) Times() Times { return a.times }

func (a *Aggregator) format(bits int) quantizer.Format {
	return quantizer.Format{Bits: bits, ZeroThreshold: a.settings.ZeroThreshold}
}

// Step is the exchange of one step, for the executor's Step. stop asks all workers to stop behind it; see Stop.
func (a *Aggregator) Step(step int64, bits int, stop bool) graph.Exchange {
	x := &exchange{a: a, step: step, format: a.format(bits), stop: stop, before: a.last}
	if a.sets[a.turn] == nil || a.sets[a.turn].bits != bits {
		a.sets[a.turn] = a.newSet(bits)
	}
	x.set = a.sets[a.turn]
	if a.settings.DoubleBuffering {
		a.turn = 1 - a.turn
	}
	if bits != 32 && a.worker.versions[0] == nil {
		a.worker, a.owner = newResiduals(a.layout.Size), newResiduals(a.layout.Size)
	}
	if x.feedback = bits != 32 || a.owed; x.feedback {
		x.residual, x.nextResidual = a.worker.current(), a.worker.next()
		x.owed, x.nextOwed = a.owner.current(), a.owner.next()
	}
	x.done = make([]chan struct{}, len(a.buckets))
	for i := range x.done {
		x.done[i] = make(chan struct{})
	}
	a.last = x
	return x
}

// Stop says whether any worker has asked to stop, in the newest step that Wait has given metrics of.
func (a *Aggregator) Stop() bool { return a.stop }

// Residuals are what quantization owes: of this worker's gradients, and of the sums that it owns; the other workers' columns
// are zero in the second. owed is false where both are zero. With double buffering it waits for the pending aggregate, whose
// exchange writes the second; the error is that of the exchange.
func (a *Aggregator) Residuals() (worker, owner []float32, owed bool, err error) {
	if _, _, err := a.pending.peek(); err != nil && !errors.Is(err, graph.ErrNoAggregate) {
		return nil, nil, false, err
	}
	if !a.owed {
		return nil, nil, false, nil
	}
	return a.worker.current(), a.owner.current(), true, nil
}

// SetResiduals goes on from residuals that were saved; owner may have values of columns that this worker does not own.
func (a *Aggregator) SetResiduals(worker, owner []float32) error {
	a.worker, a.owner, a.owed = newResiduals(a.layout.Size), newResiduals(a.layout.Size), true
	copy(a.worker.current(), worker)
	for _, b := range a.buckets {
		for _, c := range b.Pieces[a.member.Rank()].Columns {
			copy(a.owner.current()[c.Offset:c.Offset+c.Rows], owner[c.Offset:])
		}
	}
	return nil
}

// tensor names the parameter that a value of the arena belongs to.
func (a *Aggregator) tensor(offset int32) string {
	for _, s := range a.layout.Slots {
		if int(offset) < s.End() {
			return s.Name
		}
	}
	return ""
}
