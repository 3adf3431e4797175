package distributed

import (
	"slices"
	"syscall"
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
		wires[w] = make([]byte, f.Bytes(p.Table(f)))
	}
	own := pieces[m.Rank()].Table(f)
	encode = median(9, func() {
		for w, p := range pieces {
			f.Encode(p.Table(f), values, residual, next, wires[w])
		}
	})
	decode = median(9, func() {
		for range m.Size() {
			f.Add(own, wires[m.Rank()], values)
		}
		f.Encode(own, values, residual, next, wires[m.Rank()])
		for w, p := range pieces {
			f.Decode(p.Table(f), wires[w], values)
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

// Link is the way from a worker to all others together. It is a token bucket: so many bytes pass at once when it has been idle,
// as switches, clouds and the kernel's buffers let them, and the rest at its bandwidth.
type Link struct {
	Latency   float64 // of an exchange of short messages, in seconds
	Bandwidth float64 // bytes a second; 0: there are no others
	Burst     float64 // bytes
	Message   float64 // seconds of a processor that an exchange of short messages takes in this process
	Byte      float64 // and each byte
	AtOnce    bool    // long messages are faster at once than in chunks, and that is what Bandwidth and Byte are of
}

// MeasureLink measures exchanges of all workers with all, of short messages and of ones that make up so many bytes from each
// worker: few at a time, after the link has been idle, and many in a row.
func MeasureLink(m group.Member, few, many int, idle time.Duration) (l Link, err error) {
	if m.Size() == 1 {
		return l, nil
	}
	tag := group.Tag{Phase: group.Control}
	exchange := func(bytes int, atOnce bool) error {
		each := max(bytes/(m.Size()-1), 1)
		send, receive := make([][]byte, m.Size()), make([][]byte, m.Size())
		for w := range send {
			if w != m.Rank() {
				send[w], receive[w] = make([]byte, each), make([]byte, each)
			}
		}
		if atOnce {
			return m.Exchange(tag, send, receive)
		}
		return inRounds(m, tag, send, receive)
	}
	// middle is the median time, and work the mean time of processors; the first exchange does not count.
	middle := func(rounds, bytes int, atOnce bool, idle time.Duration) (seconds, work float64, err error) {
		var times []float64
		var before float64
		for n := range rounds + 1 {
			time.Sleep(idle)
			if n == 1 {
				before = ProcessorSeconds()
			}
			start := time.Now()
			if err := exchange(bytes, atOnce); err != nil {
				return 0, 0, err
			}
			if n > 0 {
				times = append(times, time.Since(start).Seconds())
			}
		}
		work = (ProcessorSeconds() - before) / float64(rounds)
		slices.Sort(times)
		return times[len(times)/2], work, nil
	}
	if l.Latency, l.Message, err = middle(21, 64, true, 0); err != nil {
		return l, err
	}
	short, _, err := middle(5, few, false, idle)
	if err != nil {
		return l, err
	}
	long, work, err := middle(3, many, false, 0)
	if err != nil {
		return l, err
	}
	if long, err = mean(m, tag, long); err != nil { // all workers are to come to the same
		return l, err
	}
	if long < slow {
		whole, wholeWork, err := middle(3, many, true, 0)
		if err != nil {
			return l, err
		}
		if whole, err = mean(m, tag, whole); err != nil {
			return l, err
		}
		if l.AtOnce = whole < long/2; l.AtOnce {
			long, work = whole, wholeWork
		}
	}
	l.Bandwidth = float64(many) / max(long-l.Latency, long/4) // a latency that was disturbed leaves something
	l.Burst = max(0, float64(few)-l.Bandwidth*max(0, short-l.Latency))
	l.Byte = max(0, work-l.Message) / float64(many)
	return l, nil
}

// slow is how many seconds of MeasureLink's long exchange a fast link never takes.
const slow = 0.5

// mean is the mean over the workers.
func mean(m group.Member, tag group.Tag, value float64) (float64, error) {
	all, err := gather(m, tag, []float64{value})
	sum := 0.0
	for _, v := range all {
		sum += v[0]
	}
	return sum / float64(m.Size()), err
}

// ProcessorSeconds is what the process has had of processors so far.
func ProcessorSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
