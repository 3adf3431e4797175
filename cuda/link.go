package cuda

import (
	"errors"
	"fmt"
	"slices"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/cuda/nccl"
	"gotrain/distributed"
)

// Link is a worker's way to those of other processes, which have one each; *nccl.Member is one. What a stream is given runs when all
// have come to it. All calls are made in the same order everywhere.
type Link interface {
	Rank() int // of this worker, from 0
	Size() int // workers

	// AllReduce replaces float32 values by their sums over all workers.
	AllReduce(at driver.Pointer, count int, s driver.Stream) error

	// Exchange sends and receives several messages at once, each of which the other side has too.
	Exchange(send, receive []nccl.Message, s driver.Stream) error

	// Wait waits for an event behind exchanges, but not for ever.
	Wait(driver.Event) error
}

// NewLinkedAggregator is NewAggregator where the workers are in processes of their own. It sends the same messages by a link, and comes
// to the same bits, but where nothing is quantized: there the link makes the sums, in an order of its own.
//
// Exchanges stay out of captured graphs: workers do not all meet a size of their share for the first time in the same step, and all would
// have to capture at one time. So the passes are captured in pieces, between which buckets are exchanged.
func (e *Executor) NewLinkedAggregator(s distributed.Settings, l Link) (*Aggregator, error) {
	f := e.fleet
	if n := len(f.workers); n > 1 {
		return nil, fmt.Errorf("a link is one worker's, and this process has %d", n)
	}
	if slices.ContainsFunc(f.plan.Ops, synced) {
		return nil, errSynced
	}
	for _, s := range []*lane{e.compute, e.copy, e.exchange} { // in messages
		s.worker = l.Rank()
	}
	return e.newAggregator(s, l, l.Rank(), l.Size())
}

// Device is what the worker computes on.
func (e *Executor) Device() driver.Device { return e.device.Device }

var errSynced = errors.New("network.batchNorm.sync: GPUs synchronize batch norms in one process only, and without double buffering: set it to false")

// linked carries messages of the one worker that a process has.
type linked struct{ *Aggregator }

func (a linked) scatter(r *recorder, bucket, bits int) {
	m := a.messages[bits]
	x := &m.buckets[bucket]
	var send, receive []nccl.Message
	a.others(func(w int) {
		send = append(send, nccl.Message{Peer: w, At: m.sent.at + driver.Pointer(x.sent[w]), Bytes: x.bytes[w]})
		receive = append(receive, nccl.Message{Peer: w, At: m.came.at + driver.Pointer(x.came[w]), Bytes: x.bytes[a.rank]})
	})
	a.exchange(r, ofBucket(bucket, "gradients"), bucket, m, send, receive)
}

// exchange gives the exchange stream messages, with which the results go to all others in the first bucket.
func (a linked) exchange(r *recorder, what string, bucket int, m *messages, send, receive []nccl.Message) {
	l := a.e.exchange
	if bucket == 0 {
		at := func(w int) driver.Pointer { return m.results + driver.Pointer(kernels.ResultBytes*w) }
		r.copy(l, "result of this worker", at(a.rank), a.e.results.at+shareResult, kernels.ResultBytes)
		a.others(func(w int) {
			send = append(send, nccl.Message{Peer: w, At: at(a.rank), Bytes: kernels.ResultBytes})
			receive = append(receive, nccl.Message{Peer: w, At: at(w), Bytes: kernels.ResultBytes})
		})
	}
	r.node(l, what, func() error { return a.link.Exchange(send, receive, l.Stream) })
}

func (a linked) gather(r *recorder, bucket, bits int) {
	m := a.messages[bits]
	x := &m.buckets[bucket]
	var send, receive []nccl.Message
	a.others(func(w int) {
		send = append(send, nccl.Message{Peer: w, At: m.sums.at + driver.Pointer(x.sums[a.rank]), Bytes: x.bytes[a.rank]})
		receive = append(receive, nccl.Message{Peer: w, At: m.sums.at + driver.Pointer(x.sums[w]), Bytes: x.bytes[w]})
	})
	a.finish(r, ofBucket(bucket, "sums"), bucket, send, receive)
}

// finish gives the exchange stream messages, with which the flags go to all others in the last bucket: no flag is set after that.
func (a linked) finish(r *recorder, what string, bucket int, send, receive []nccl.Message) {
	l := a.e.exchange
	if bucket == len(a.buckets)-1 {
		a.others(func(w int) {
			send = append(send, nccl.Message{Peer: w, At: a.flagsOf(a.rank), Bytes: 4 * a.flagWords()})
			receive = append(receive, nccl.Message{Peer: w, At: a.flagsOf(w), Bytes: 4 * a.flagWords()})
		})
	}
	if len(send)+len(receive) > 0 {
		r.node(l, what, func() error { return a.link.Exchange(send, receive, l.Stream) })
	}
}

// reduce has the link sum encoded gradients, which are float32 values at the sums' places.
func (a linked) reduce(r *recorder, bucket, bits int) {
	m, l := a.messages[bits], a.e.exchange
	x := &m.buckets[bucket]
	if bucket == 0 {
		a.exchange(r, "results", bucket, m, nil, nil)
	}
	last := a.workers - 1
	r.node(l, ofBucket(bucket, "sum"), func() error {
		return a.link.AllReduce(m.sums.at+driver.Pointer(x.sums[0]), (x.sums[last]+align(x.bytes[last])-x.sums[0])/4, l.Stream)
	})
	a.finish(r, "flags", bucket, nil, nil)
}

// reduces says whether the link makes the sums of a step: all residuals are zero then.
func (a *Aggregator) reduces(bits int) bool { return a.link != nil && bits == 32 && !a.owed }

// others visits the ranks of all workers but this.
func (a linked) others(visit func(w int)) {
	for w := range a.workers {
		if w != a.rank {
			visit(w)
		}
	}
}

// pieces captures the passes of a linked worker's step, cut behind the operations that the exchange of a bucket waits for; nil where there
// are none in between.
func (f *Fleet) pieces(p *program) (all []*work, err error) {
	from := 0
	for i, to := range f.cuts([]*program{p}) {
		begin := from
		var w *work
		if i == 0 || to > begin {
			if w, err = capture(p.e.compute, f.options.Eager, func(r *recorder) {
				if i == 0 {
					p.begin(r)
				}
				p.operations(r, begin, to)
			}); err != nil {
				freeAll(all)
				return nil, err
			}
		}
		all, from = append(all, w), to
	}
	return all, nil
}

func freeAll(all []*work) {
	for _, w := range all {
		if w != nil {
			w.free()
		}
	}
}

// run runs the step of all workers.
func (f *Fleet) run(w *work) error {
	link := f.workers[0].aggregator.link
	if link == nil {
		return w.run()
	}
	if err := w.start(); err != nil {
		return err
	}
	end, err := w.origin.device.NewEvent()
	if err != nil {
		return err
	}
	defer end.Free()
	if err := w.origin.Record(end); err != nil {
		return err
	}
	return link.Wait(end)
}
