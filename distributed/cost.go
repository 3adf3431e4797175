package distributed

import (
	"math"

	"gotrain/distributed/quantizer"
	"gotrain/graph"
)

// Machine is what the cost model knows: of one worker's step, and of the way to the others. Times are in seconds.
type Machine struct {
	Workers  int
	Layout   *graph.Layout
	Plan     []graph.Bucket
	Ready    []float64       // from the start of a step until the gradients of each bucket of Plan are there
	Backward float64         // until the end of the backward pass
	Update   float64         // what follows when the aggregate is there
	Encode   map[int]float64 // by bits: quantizing the whole arena
	Decode   map[int]float64 // by bits: summing what is owned, quantizing the sums, decoding the whole arena
	Link     Link
	Slowdown float64 // by how much a worker's second on a processor beside the passes makes these longer; 0: processors are free
}

// Cost is what a step takes at a number of bits. Times are in seconds.
type Cost struct {
	Bits     int
	Bytes    int     // sent by the worker with most to send
	Compute  float64 // forward and backward pass, and update, and what sending beside them takes of their processors
	Quantize float64 // on the worker's thread, which delays the passes
	Exchange float64 // in which messages are under way or sums are made
	Exposed  float64 // what of Exchange comes after the backward pass
	Total    float64
}

// Hidden is what of the exchange the computation covers.
func (c Cost) Hidden() float64 { return max(0, c.Exchange-c.Exposed) }

// message is one phase of a bucket in the model.
type message struct {
	at     float64 // when it can go
	bytes  int
	work   float64 // summing or decoding when it has arrived
	follow *message
}

// Predict says what a step takes. The model is a worker with one processor, which computes and encodes, and one link, on which
// messages follow each other: a message goes when it is there and the link is free, takes its bytes over the bandwidth (but for
// those that pass at once), and arrives a latency later. All workers are alike, so that an owner has all parts when its own are sent.
// Where the workers' threads fill the processors, the share of messages that is hidden takes its work from the passes.
func (m Machine) Predict(bits int, s Settings) Cost {
	f := quantizer.Format{Bits: bits, ZeroThreshold: s.ZeroThreshold}
	c := Cost{Bits: bits, Compute: m.Backward + m.Update, Quantize: m.Encode[bits]}
	var waiting []*message
	encoded, plan := 0.0, 0
	for _, b := range Buckets(m.Layout, m.Plan, s, m.Workers) {
		for m.Plan[plan].End < b.End {
			plan++
		}
		at := m.Backward
		if s.Overlap {
			at = m.Ready[plan]
		}
		share := float64(b.End-b.Begin) / float64(m.Layout.Size)
		encoded += share * m.Encode[bits]
		scatter, gather := b.most(f)
		c.Bytes += scatter + gather
		second := &message{bytes: gather, work: share * m.Decode[bits] / 2}
		waiting = append(waiting, &message{at: at + encoded, bytes: scatter, work: second.work, follow: second})
	}
	backward, end, busy, work := m.Backward+encoded, 0.0, 0.0, 0.0
	free, tokens := 0.0, m.Link.Burst // since when the link is free, and what it then lets pass at once
	for len(waiting) > 0 {
		first := 0
		for i, q := range waiting {
			if q.at < waiting[first].at {
				first = i
			}
		}
		q := waiting[first]
		start := max(free, q.at)
		tokens = min(m.Link.Burst, tokens+(start-free)*m.Link.Bandwidth)
		wire := 0.0
		if over := float64(q.bytes) - tokens; over > 0 && m.Link.Bandwidth > 0 {
			wire = over / m.Link.Bandwidth
		}
		free, tokens = start+wire, max(0, tokens-float64(q.bytes))
		busy += wire
		work += m.Link.Message + float64(q.bytes)*m.Link.Byte
		done := free + m.Link.Latency + q.work
		c.Exchange += wire + m.Link.Latency + q.work
		if waiting[first] = q.follow; q.follow != nil {
			q.follow.at = done
		} else {
			waiting = append(waiting[:first], waiting[first+1:]...)
			end = max(end, done)
		}
	}
	if c.Exposed = max(0, end-backward); s.DoubleBuffering { // the next step covers it too, but for what the link has no time for
		c.Exposed = max(0, c.Exposed-backward-m.Update, busy-backward-m.Update)
	}
	if c.Exchange > 0 {
		c.Compute += m.Slowdown * work * c.Hidden() / c.Exchange
	}
	c.Total = c.Compute + c.Quantize + c.Exposed
	return c
}

// BucketBytes chooses the size of buckets with the least predicted time, and of those that take about as long the largest.
func (m Machine) BucketBytes(bits int, s Settings) int {
	best, least := 0, math.Inf(1)
	for n := 4 * m.Layout.Size; n >= 16<<10; n /= 2 {
		s.BucketBytes = n
		if t := m.Predict(bits, s).Total; t < 0.995*least {
			best, least = n, t
		}
	}
	return max(best, 4)
}

// BreakEven is the bandwidth, in bytes a second, below which so many bits take less time than 32 by a share of it; 0 where they
// never do, and infinite where they always do.
func (m Machine) BreakEven(bits int, s Settings, share float64) float64 {
	m.Link.Burst = 0
	pays := func(bandwidth float64) bool {
		m.Link.Bandwidth = bandwidth
		return m.Predict(bits, s).Total < (1-share)*m.Predict(32, s).Total
	}
	return threshold(1e3, 1e13, pays)
}

// SizeToPay is how many times as many parameters the network needs, with the same computation, for so many bits to take less
// time than 32 by a share of it; infinite where no size does.
func (m Machine) SizeToPay(bits int, s Settings, share float64) float64 {
	encode, decode, link := m.Encode, m.Decode, m.Link
	scaled := func(times map[int]float64, by float64) map[int]float64 {
		out := map[int]float64{}
		for bits, t := range times {
			out[bits] = by * t
		}
		return out
	}
	x := threshold(1e-4, 1e4, func(x float64) bool { // more parameters are as a slower link, and as slower quantizing
		m.Encode, m.Decode = scaled(encode, 1/x), scaled(decode, 1/x)
		m.Link.Bandwidth, m.Link.Burst = link.Bandwidth*x, link.Burst*x
		return m.Predict(bits, s).Total < (1-share)*m.Predict(32, s).Total
	})
	return 1 / x
}

// threshold is where yes, which holds below it, ends: 0 where it never holds and infinite where it always does.
func threshold(low, high float64, yes func(float64) bool) float64 {
	switch {
	case !yes(low):
		return 0
	case yes(high):
		return math.Inf(1)
	}
	for range 60 {
		if middle := math.Sqrt(low * high); yes(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
