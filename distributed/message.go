package distributed

import (
	"encoding/binary"
	"math"

	"gotrain/distributed/group"
)

// header goes before each part of a gradient, so that workers without samples, or that want to stop, need no message more.
type header struct {
	loss, errors, count float64 // of the worker's share, see graph.Metrics
	stop                bool
	bad                 int32 // offset of the first value that is not finite; -1: none
}

const (
	headerBytes = 32
	flagBytes   = 4 // before an aggregate: offset of its first value that is not finite; -1: none
)

func (h *header) put(b []byte) {
	for i, v := range []float64{h.loss, h.errors, h.count} {
		binary.LittleEndian.PutUint64(b[8*i:], math.Float64bits(v))
	}
	stop := uint32(0)
	if h.stop {
		stop = 1
	}
	binary.LittleEndian.PutUint32(b[24:], stop)
	putFlag(b[28:], h.bad)
}

func (h *header) get(b []byte) {
	for i, v := range []*float64{&h.loss, &h.errors, &h.count} {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	h.stop = binary.LittleEndian.Uint32(b[24:]) != 0
	h.bad = flag(b[28:])
}

func putFlag(b []byte, bad int32) { binary.LittleEndian.PutUint32(b, uint32(bad)) }
func flag(b []byte) int32         { return int32(binary.LittleEndian.Uint32(b)) }

// set is the messages of one step, kept for later ones of the same number of bits.
type set struct {
	bits    int
	buckets []messages
	sums    []float32 // an arena: sums of the columns that are owned here, and in the end the aggregate of all
}

// messages are those of one bucket, by worker.
type messages struct {
	parts    [][]byte // to each owner, what it owns of this worker's gradient
	received [][]byte // from each worker, what is owned here of its gradient
	toAll    [][]byte // the aggregate of what is owned here, once for each worker
	sums     [][]byte // from each owner
}

// newSet makes room for messages. The sums go straight to the gradient arena, which nothing needs any more when a bucket has
// been encoded, but with double buffering: then the next step's gradients are in it before this step's sums are there.
func (a *Aggregator) newSet(bits int) *set {
	s := &set{bits: bits, sums: a.gradients}
	if a.settings.DoubleBuffering {
		s.sums = make([]float32, len(a.gradients))
	}
	f, rank, workers := a.format(bits), a.member.Rank(), a.member.Size()
	for _, b := range a.buckets {
		m := messages{make([][]byte, workers), make([][]byte, workers), make([][]byte, workers), make([][]byte, workers)}
		own := f.Bytes(b.Pieces[rank].Table(f))
		for w, p := range b.Pieces {
			m.parts[w] = make([]byte, headerBytes+f.Bytes(p.Table(f)))
			m.received[w] = make([]byte, headerBytes+own)
			if len(p.Columns) > 0 {
				m.sums[w] = make([]byte, flagBytes+f.Bytes(p.Table(f)))
			}
		}
		m.received[rank] = m.parts[rank]
		for w := range m.toAll {
			m.toAll[w] = m.sums[rank]
		}
		s.buckets = append(s.buckets, m)
	}
	return s
}

// chunk is how many bytes of a long message are under way at a time. The queues of slow links hold as many, and MPI sends as
// many without asking the receiver first.
const chunk = 32 << 10

// inRounds is Exchange for messages that may be long. Where one is longer than a chunk, they go in rounds, in each of which
// every worker sends a chunk to one other and receives one. With more at a time there are several streams on each link, and
// more than the queue of a slow one holds, which then drops packets that have to be sent again. Each worker sends the longest
// message or receives it, so that all come to the same rounds.
func inRounds(m group.Member, tag group.Tag, send, receive [][]byte) error {
	longest := 0
	for w := range send {
		longest = max(longest, len(send[w]), len(receive[w]))
	}
	if longest <= chunk {
		return m.Exchange(tag, send, receive)
	}
	cut := func(b []byte, at int) []byte { return b[min(at, len(b)):min(at+chunk, len(b))] }
	n, rank := m.Size(), m.Rank()
	copy(receive[rank], send[rank])
	for k := 1; k < n; k++ {
		to, from := (rank+k)%n, (rank-k+n)%n
		s, r := make([][]byte, n), make([][]byte, n)
		for at := 0; at < longest; at += chunk {
			s[to], r[from] = cut(send[to], at), cut(receive[from], at)
			if err := m.Exchange(tag, s, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// gather collects every worker's values.
func gather(m group.Member, tag group.Tag, send []float64) ([][]float64, error) {
	bytes := make([]byte, 8*len(send))
	for i, v := range send {
		binary.LittleEndian.PutUint64(bytes[8*i:], math.Float64bits(v))
	}
	received := make([][]byte, m.Size())
	for i := range received {
		received[i] = make([]byte, len(bytes))
	}
	if err := group.AllGather(m, tag, bytes, received); err != nil {
		return nil, err
	}
	all := make([][]float64, m.Size())
	for i, b := range received {
		all[i] = make([]float64, len(send))
		for j := range all[i] {
			all[i][j] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*j:]))
		}
	}
	return all, nil
}
