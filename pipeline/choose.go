package pipeline

import (
	"fmt"
	"math"

	"gotrain/distributed"
	"gotrain/learners"
)

// choice is what was chosen by measuring, once, at the run's first start.
type choice struct {
	Bits        int    `json:"bits,omitempty"` // for bits: auto
	BucketBytes int    `json:"bucketBytes"`    // of gradients exchanged at a time
	Why         string `json:"why"`
}

// allBits are the numbers of bits that there are, from most to fewest.
var allBits = []int{32, 16, 8, 4, 2, 1}

// margin is the share of a step's time below which a difference does not count: more bits are then the better choice.
const margin = 0.03

func positionZero(count int) learners.Position { return learners.Position{Count: count} }

// choose settles what the configuration leaves to measurements, where the run's record has not settled it already.
func (r *run) choose() error {
	d := r.cfg.Distributed
	if !aggregates(r.cfg) || r.Record.Chosen != nil || r.team.workers == 1 && !d.Bits.Auto || !d.Bits.Auto && d.BucketSize > 0 {
		return nil
	}
	if r.team.workers == 1 {
		r.Record.Chosen = &choice{Bits: 32, Why: "Chosen: 32 bits: one worker sends nothing"}
		return nil
	}
	b := newBench(r)
	c, err := b.choose()
	if err != nil {
		return fmt.Errorf("measuring to choose how gradients are exchanged: %w", err)
	}
	if err := r.team.agree(&c, func() error { return nil }); err != nil {
		return err
	}
	r.Record.Chosen = &c
	return b.restore()
}

// choose predicts what each number of bits would take, tries those that may be the fastest, and takes the one that was; of
// several that take about as long, the one with the most bits.
func (b *bench) choose() (c choice, err error) {
	r, d := b.r, b.r.cfg.Distributed
	s := settings(r.cfg, d.BucketSize)
	bits := []int{leastBits(r)}
	if d.Bits.Auto {
		bits = allBits
	}
	m, err := b.machine(s, append([]int{32}, bits...)...)
	if err != nil {
		return c, err
	}
	sized := func(bits int) distributed.Settings {
		s := s
		if d.BucketSize == 0 {
			s.BucketBytes = m.BucketBytes(bits, s)
		}
		return s
	}
	link := fmt.Sprintf("workers send %s with a latency of %s", rate(m.Link.Bandwidth), duration(m.Link.Latency))
	if !d.Bits.Auto {
		c.BucketBytes = sized(bits[0]).BucketBytes
		c.Why = fmt.Sprintf("Chosen: buckets of %s (%s)", bytesText(int64(c.BucketBytes)), link)
		return c, nil
	}
	least := math.Inf(1)
	for _, n := range bits {
		least = min(least, m.Predict(n, sized(n)).Total)
	}
	times := map[int]float64{}
	fastest := math.Inf(1)
	for _, n := range bits {
		s := sized(n)
		if p := m.Predict(n, s).Total; p > 1.5*least {
			continue
		}
		if times[n], err = b.step(s, n, 4); err != nil {
			return c, err
		}
		fastest = min(fastest, times[n])
	}
	for _, n := range bits {
		if t, tried := times[n]; tried && t <= (1+margin)*fastest {
			c = choice{Bits: n, BucketBytes: sized(n).BucketBytes}
			dense := "not tried, " + duration(m.Predict(32, sized(32)).Total) + " predicted"
			if t, tried := times[32]; tried {
				dense = duration(t)
			}
			c.Why = fmt.Sprintf("Chosen: %s, buckets of %s: %s a minibatch, at 32 bits %s (%s)", bitsText(n), bytesText(int64(c.BucketBytes)), duration(t), dense, link)
			return c, nil
		}
	}
	return c, fmt.Errorf("no time is the least of %v", times)
}

// leastBits is the fewest bits of the run's schedule: its exchange is the shortest for the longest time.
func leastBits(r *run) int {
	least := 32
	for _, s := range r.cfg.Distributed.Bits.Schedule {
		least = min(least, int(s.Value))
	}
	return least
}

// bucketBytes is the size of the buckets in which gradients are exchanged.
func (r *run) bucketBytes() int {
	if n := r.cfg.Distributed.BucketSize; n > 0 {
		return n
	}
	if c := r.Record.Chosen; c != nil {
		return c.BucketBytes
	}
	return 0
}

func bitsText(n int) string {
	if n == 1 {
		return "1 bit"
	}
	return fmt.Sprintf("%d bits", n)
}

// rate writes a bandwidth for a person, in bits as links are sold.
func rate(bytes float64) string {
	switch bits := 8 * bytes; {
	case bits >= 0.995e9:
		return fmt.Sprintf("%.1f Gbit/s", bits/1e9)
	case bits >= 0.995e6:
		return fmt.Sprintf("%.0f Mbit/s", bits/1e6)
	default:
		return fmt.Sprintf("%.0f kbit/s", bits/1e3)
	}
}

// duration writes seconds for a person.
func duration(s float64) string {
	switch {
	case s >= 9.995:
		return fmt.Sprintf("%.1f s", s)
	case s >= 0.9995:
		return fmt.Sprintf("%.2f s", s)
	case s >= 0.01:
		return fmt.Sprintf("%.0f ms", 1e3*s)
	case s >= 0.001:
		return fmt.Sprintf("%.1f ms", 1e3*s)
	}
	return fmt.Sprintf("%.0f µs", 1e6*s)
}
