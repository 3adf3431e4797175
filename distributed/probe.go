package distributed

import (
	"slices"
	"time"

	"gotrain/distributed/group"
	"gotrain/distributed/quantizer"
	"gotrain/graph"
)

// Probe is a graph.Exchange that sends no gradients, and notes when they are there. Times are in seconds since Start.
type Probe struct {
	Member   group.Member
	Start    time.Time
	Finished []float64 // when each bucket of the plan was there
	Backward float64   // when the backward pass had ended on all workers: who is done first waits for the others

	own graph.Metrics
}

// Ready notes a bucket.
func (p *Probe) Ready(_ graph.Bucket, m graph.Metrics) {
	p.Finished = append(p.Finished, time.Since(p.Start).Seconds())
	p.own = m
}

// Wait waits for the other workers, gives the worker's own metrics, and leaves its gradients as they are.
func (p *Probe) Wait() (graph.Metrics, error) {
	err := group.Barrier(p.Member, group.Tag{Phase: group.Control})
	p.Backward = time.Since(p.Start).Seconds()
	return p.own, err
}

// Gather collects for synchronized batch norm, which computation is not without.
func (p *Probe) Gather(send []float64) ([][]float64, error) {
	return gather(p.Member, group.Tag{Phase: group.Statistic}, send)
}

// QuantizerSeconds measures encoding and decoding at a number of bits, as a step does it but without sending: encode the whole
// arena; sum what is owned from all workers, encode the sums, and decode everything. values is an arena of gradients, which
// are overwritten.
func QuantizerSeconds(m group.Member, l *graph.Layout, values []float32, bits int, s Settings) (encode, decode float64) {
	f := quantizer.Format{Bits: bits, ZeroThreshold: s.ZeroThreshold}
	pieces := share(columns(l, s.Columns), m.Size())
	var residual, next []float32
	if bits != 32 {
		residual, next = make([]float32, l.Size), make([]float32, l.Size)
	}
	wires := make([][]byte, m.Size())
	for w, p := range pieces {
		wires[w] = make([]byte, f.Bytes(p.table(f)))
	}
	own := pieces[m.Rank()].table(f)
	encode = median(9, func() {
		for w, p := range pieces {
			f.Encode(p.table(f), values, residual, next, wires[w])
		}
	})
	decode = median(9, func() {
		for range m.Size() {
			f.Add(own, wires[m.Rank()], values)
		}
		f.Encode(own, values, residual, next, wires[m.Rank()])
		for w, p := range pieces {
			f.Decode(p.table(f), wires[w], values)
		}
	})
	return encode, decode
}

// median is the median time of n calls.
func median(n int, f func()) float64 {
	times := make([]float64, n)
	for i := range times {
		start := time.Now()
		f()
		times[i] = time.Since(start).Seconds()
	}
	slices.Sort(times)
	return times[n/2]
}

// LinkSpeed measures exchanges of all workers with all: the latency of short messages, and the bandwidth of a worker that sends
// so many bytes to the others together, time and again, because links let the first bytes pass faster than the rest.
func LinkSpeed(m group.Member, bytes int) (latency, bandwidth float64, err error) {
	if m.Size() == 1 {
		return 0, 0, nil
	}
	exchange := func(each int) (seconds float64, err error) {
		send, receive := make([][]byte, m.Size()), make([][]byte, m.Size())
		for w := range send {
			if w != m.Rank() {
				send[w], receive[w] = make([]byte, each), make([]byte, each)
			}
		}
		start := time.Now()
		err = m.Exchange(group.Tag{Phase: group.Control}, send, receive)
		return time.Since(start).Seconds(), err
	}
	var times []float64
	for range 21 {
		t, err := exchange(64)
		if err != nil {
			return 0, 0, err
		}
		times = append(times, t)
	}
	slices.Sort(times)
	latency = times[len(times)/2]
	each := max(bytes/(m.Size()-1), 1)
	const rounds = 4 // all workers make as many
	times = times[:0]
	for range rounds {
		t, err := exchange(each)
		if err != nil {
			return 0, 0, err
		}
		times = append(times, t)
	}
	times = times[1:] // what a link lets through at once is gone
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	return latency, float64(each*(m.Size()-1)) / max(sum/float64(len(times))-latency, 1e-9), nil
}
