package distributed

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"gotrain/distributed/group"
	"gotrain/distributed/quantizer"
	"gotrain/graph"
)

// exchange is the aggregation of one step. Each bucket goes its way in a goroutine of its own, in the order that its messages
// come in; none waits for another but for the same bucket of the step before.
type exchange struct {
	a      *Aggregator
	before *exchange // of the step before
	step   int64
	format quantizer.Format
	stop   bool
	set    *set

	feedback               bool // residuals take part
	residual, nextResidual []float32
	owed, nextOwed         []float32 // of the owner

	filled  int // buckets that are encoded
	ready   int // buckets whose gradients are there
	own     graph.Metrics
	done    []chan struct{} // closed when a bucket's aggregate is there, or cannot come
	settled bool            // finish has been called
	failed  error

	encoding time.Duration
	all      graph.Metrics // of all workers

	mu       sync.Mutex
	err      error    // the first of any bucket; of values that are not finite, that of the first bucket
	bad      int      // the bucket of err
	headers  []header // of all workers, from the last bucket that came
	decoding time.Duration
}

// Ready encodes what is final and sends it on its way. Encoding runs on the executor's thread, where the gradients are still
// in its caches.
func (x *exchange) Ready(b graph.Bucket, m graph.Metrics) {
	x.own = m
	for x.ready < len(x.a.buckets) && x.a.buckets[x.ready].End <= b.End {
		x.ready++
	}
	if x.a.settings.Overlap {
		x.send()
	}
}

// send encodes the buckets that are ready.
func (x *exchange) send() {
	for ; x.filled < x.ready; x.filled++ {
		b := x.a.buckets[x.filled]
		start := time.Now()
		x.encode(b)
		x.encoding += time.Since(start)
		go x.run(b)
	}
}

func (x *exchange) spent(since time.Time) {
	x.mu.Lock()
	x.decoding += time.Since(since)
	x.mu.Unlock()
}

// encode fills the messages to the owners.
func (x *exchange) encode(b *Bucket) {
	m := &x.set.buckets[b.Index]
	h := header{loss: x.own.Loss, errors: x.own.Errors, count: x.own.Count, stop: x.stop, bad: -1}
	for owner, p := range b.Pieces {
		table := p.Table(x.format)
		if bad := x.format.Encode(table, x.a.gradients, x.residual, x.nextResidual, m.parts[owner][headerBytes:]); bad >= 0 && h.bad < 0 {
			h.bad = firstBad(x.a.gradients, table[bad])
		}
	}
	for owner := range b.Pieces {
		h.put(m.parts[owner])
	}
}

// firstBad is the offset of a column's first value that is not finite, or of the column where only its sum is not.
func firstBad(values []float32, c quantizer.Column) int32 {
	for i := c.Offset; i < c.Offset+c.Rows; i++ {
		if v := values[i]; v-v != 0 {
			return i
		}
	}
	return c.Offset
}

// run takes a bucket through both phases.
func (x *exchange) run(b *Bucket) {
	defer close(x.done[b.Index])
	if x.before != nil && len(x.before.done) > 0 {
		<-x.before.done[b.Index] // the owner's residual comes from there, and messages of one tag keep their order
	}
	if err := x.aggregate(b); err != nil {
		x.mu.Lock()
		if x.err == nil || notFinite(x.err) && notFinite(err) && b.Index < x.bad {
			x.err, x.bad = err, b.Index
		}
		x.mu.Unlock()
	}
}

func (x *exchange) aggregate(b *Bucket) error {
	a, m, rank := x.a, &x.set.buckets[b.Index], x.a.member.Rank()
	if err := x.exchange(group.Scatter, b, m.parts, m.received); err != nil {
		return err
	}
	headers := make([]header, len(m.received))
	for i, r := range m.received {
		headers[i].get(r)
	}
	x.mu.Lock()
	x.headers = headers
	x.mu.Unlock()
	for i, h := range headers {
		if h.bad >= 0 {
			return &NotFiniteError{Worker: i, Tensor: a.tensor(h.bad)} // everybody sees it, and sends nothing more
		}
	}
	start := time.Now()
	own := b.Pieces[rank].Table(x.format)
	bad := int32(-1)
	if len(own) > 0 {
		x.format.Decode(own, m.received[0][headerBytes:], x.set.sums)
		for _, r := range m.received[1:] {
			x.format.Add(own, r[headerBytes:], x.set.sums)
		}
		if i := x.format.Encode(own, x.set.sums, x.owed, x.nextOwed, m.sums[rank][flagBytes:]); i >= 0 {
			bad = firstBad(x.set.sums, own[i])
		}
		putFlag(m.sums[rank], bad)
	}
	x.spent(start)
	if err := x.exchange(group.Gather, b, m.toAll, m.sums); err != nil {
		return err
	}
	start = time.Now()
	for owner, p := range b.Pieces {
		if len(p.Columns) == 0 {
			continue
		}
		if bad := flag(m.sums[owner]); bad >= 0 {
			return &NotFiniteError{Worker: owner, Sum: true, Tensor: a.tensor(bad)}
		}
		x.format.Decode(p.Table(x.format), m.sums[owner][flagBytes:], x.set.sums)
	}
	x.spent(start)
	return nil
}

// exchange sends one phase of a bucket.
func (x *exchange) exchange(phase group.Phase, b *Bucket, send, receive [][]byte) error {
	tag := group.Tag{Phase: phase, Step: x.step, Bucket: b.Index}
	if x.a.settings.AtOnce {
		return x.a.member.Exchange(tag, send, receive)
	}
	return inRounds(x.a.member, tag, send, receive)
}

func notFinite(err error) bool { return errors.As(err, new(*NotFiniteError)) }

// finish waits until all buckets have come, and makes the step's residuals count.
func (x *exchange) finish() (graph.Metrics, error) {
	if x.settled {
		return x.all, x.failed
	}
	for _, done := range x.done {
		<-done
	}
	x.settled, x.failed = true, x.err
	for _, h := range x.headers {
		x.all.Add(graph.Metrics{Loss: h.loss, Errors: h.errors, Count: h.count})
	}
	if x.err != nil {
		return x.all, x.err
	}
	x.before = nil
	for _, h := range x.headers {
		x.a.stop = x.a.stop || h.stop
	}
	x.a.times.Encode += x.encoding
	x.a.times.Decode += x.decoding
	x.a.times.Bytes += int64(x.a.Bytes(x.format.Bits))
	return x.all, nil
}

// commit makes the residuals that the step has written count.
func (x *exchange) commit() {
	if !x.feedback {
		return
	}
	x.a.worker.commit()
	x.a.owner.commit()
	x.a.owed = x.format.Bits != 32
}

// Wait returns when the gradient arena holds the aggregate: of this step, or with double buffering of the one before.
func (x *exchange) Wait() (graph.Metrics, error) {
	x.send() // where nothing overlaps
	start := time.Now()
	defer func() { x.a.times.Exposed += time.Since(start) }()
	if x.filled < len(x.a.buckets) {
		return graph.Metrics{}, fmt.Errorf("%d of %d buckets were handed over", x.filled, len(x.a.buckets))
	}
	if x.a.settings.DoubleBuffering {
		return x.waitForLast()
	}
	m, err := x.finish()
	if err == nil {
		x.commit()
	}
	return m, err
}

// Gather collects every worker's values in the middle of a pass, which waits for them.
func (x *exchange) Gather(send []float64) ([][]float64, error) {
	start := time.Now()
	defer func() { x.a.times.Exposed += time.Since(start) }()
	return gather(x.a.member, group.Tag{Phase: group.Statistic, Step: x.step}, send)
}
