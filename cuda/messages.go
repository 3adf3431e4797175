package cuda

import (
	"encoding/binary"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/distributed/quantizer"
)

// messages are a worker's, of one format: where each bucket's lie in the memory of its device, and the tables that the kernels read.
type messages struct {
	format  quantizer.Format
	sent    block // this worker's gradients, to each owner
	came    block // what is owned here, of each other worker's gradients
	sums    block // the sums, from each owner; those that are owned here are made here
	buckets []bucketMessages
	host    hostBlock // where the fleet is staged: what this worker sends; first its result, then as in sent, then as in sums
	sumsAt  int

	results driver.Pointer // kernels.ResultBytes of each worker, one after the other
	table   driver.Pointer // pointers to them

	tables driver.Pointer // all tables, in one piece
}

// bucketMessages are those of one bucket, by worker: offsets in the blocks, and lengths.
type bucketMessages struct {
	bytes []int // of each owner's piece
	sent  []int
	came  []int
	sums  []int

	encode, add, encodeSum, decode tables
}

// tables are what one launch reads.
type tables struct {
	columns  kernels.Table
	at       driver.Pointer // the columns, on the device
	messages driver.Pointer // pointers to the messages
}

// newMessages makes room for messages.
func (a *Aggregator) newMessages(f quantizer.Format) (*messages, error) {
	e, workers := a.e, a.workers
	m := &messages{format: f, sent: block{what: e.named("messages to owners")}, came: block{what: e.named("messages from workers")},
		sums: block{what: e.named("messages of sums")}}
	var sent, came, sums int
	take := func(total *int, bytes int) int {
		at := *total
		*total += align(bytes)
		return at
	}
	for _, b := range a.buckets {
		x := bucketMessages{}
		for w, p := range b.Pieces {
			x.bytes = append(x.bytes, f.Bytes(p.Table(f)))
			x.sent = append(x.sent, take(&sent, x.bytes[w]))
			x.sums = append(x.sums, take(&sums, x.bytes[w]))
		}
		for range b.Pieces {
			x.came = append(x.came, take(&came, x.bytes[a.rank]))
		}
		m.buckets = append(m.buckets, x)
	}
	for b, n := range map[*block]int{&m.sent: sent, &m.came: came, &m.sums: sums} {
		if _, err := e.device.reserve(b, max(n, 4)); err != nil {
			return nil, err
		}
	}
	if a.link != nil { // it sums what lies between columns too
		if err := e.compute.Fill(m.sums.at, 0, m.sums.bytes/4); err != nil {
			return nil, e.wrong("clearing messages", err)
		}
	}
	m.host.what, m.sumsAt = e.named("messages on the host"), stagedSent+sent
	if e.fleet.staged {
		if _, err := e.device.reserveHost(&m.host, m.sumsAt+sums); err != nil {
			return nil, err
		}
	}
	var err error
	if m.results, err = e.device.Allocate(kernels.ResultBytes*workers, e.named("results of all workers")); err != nil {
		return nil, err
	}
	return m, a.tabulate(m)
}

// tabulate makes the tables and copies them to the device, all in one piece.
func (a *Aggregator) tabulate(m *messages) (err error) {
	e, rank := a.e, a.rank
	var all []byte
	var places []*driver.Pointer
	var at []int
	put := func(to *driver.Pointer, b []byte) {
		for len(all)%16 != 0 {
			all = append(all, 0)
		}
		places, at = append(places, to), append(at, len(all))
		all = append(all, b...)
	}
	pointers := func(of func(w int) driver.Pointer) (b []byte) {
		for w := range a.workers {
			b = binary.LittleEndian.AppendUint64(b, uint64(of(w)))
		}
		return b
	}
	put(&m.table, pointers(func(w int) driver.Pointer { return m.results + driver.Pointer(kernels.ResultBytes*w) }))
	for i, b := range a.buckets {
		x := &m.buckets[i]
		for w, p := range b.Pieces {
			x.encode.columns.Add(m.format, p.Table(m.format), x.sent[w], 0)
			x.decode.columns.Add(m.format, p.Table(m.format), 0, w)
		}
		own := b.Pieces[rank].Table(m.format)
		x.add.columns.Add(m.format, own, 0, 0)
		x.encodeSum.columns.Add(m.format, own, x.sums[rank], 0)
		for _, t := range []*tables{&x.encode, &x.add, &x.encodeSum, &x.decode} {
			put(&t.at, t.columns.Bytes())
		}
		put(&x.add.messages, pointers(func(w int) driver.Pointer { return m.own(x, w, rank) }))
		put(&x.decode.messages, pointers(func(w int) driver.Pointer { return m.sums.at + driver.Pointer(x.sums[w]) }))
	}
	if m.tables, err = e.device.upload(all, e.named("tables of columns")); err != nil {
		return err
	}
	for i, p := range places {
		*p = m.tables + driver.Pointer(at[i])
	}
	return nil
}

// own is where the owner has a worker's message: its own stays where it was made.
func (m *messages) own(x *bucketMessages, worker, rank int) driver.Pointer {
	if worker == rank {
		return m.sent.at + driver.Pointer(x.sent[rank])
	}
	return m.came.at + driver.Pointer(x.came[worker])
}

const stagedSent = 64 // behind the result

// What others read of this worker: its result, its gradients for an owner, and its sums.
func (m *messages) resultFrom(e *Executor) driver.Pointer {
	if e.fleet.staged {
		return m.host.Pointer
	}
	return e.results.at + shareResult
}

func (m *messages) sentFrom(e *Executor, bucket, owner int) driver.Pointer {
	at := driver.Pointer(m.buckets[bucket].sent[owner])
	if e.fleet.staged {
		return m.host.Pointer + stagedSent + at
	}
	return m.sent.at + at
}

func (m *messages) sumsFrom(e *Executor, bucket int) driver.Pointer {
	at := driver.Pointer(m.buckets[bucket].sums[e.index])
	if e.fleet.staged {
		return m.host.Pointer + driver.Pointer(m.sumsAt) + at
	}
	return m.sums.at + at
}
