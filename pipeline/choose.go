package pipeline

import (
	"fmt"
	"math"
	"slices"

	"gotrain/distributed"
)

// choice is what was chosen by measuring, once, at the run's first start.
type choice struct {
	Bits        int    `json:"bits,omitempty"` // for bits: auto
	BucketBytes int    `json:"bucketBytes"`    // of gradients exchanged at a time
	Why         string `json:"why"`
}

// allBits are the numbers of bits that there are, from most to fewest.
var allBits = []int{32, 16, 8, 4, 2, 1}

// turns is how often each number of bits is tried.
const turns = 3

// margin is the share of a step's time below which a difference does not count: more bits are then the better choice.
const margin = 0.03

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
	r.Record.Chosen = &c // times are those of all workers: they have all chosen the same
	return b.restore()
}

func (b *bench) choose() (c choice, err error) {
	d := b.r.cfg.Distributed
	bits := allBits
	if !d.Bits.Auto {
		bits = []int{leastBits(b.r)}
	}
	m, err := b.machine(bits...)
	if err != nil {
		return c, err
	}
	link := fmt.Sprintf("workers send %s with a latency of %s", rate(m.Link.Bandwidth), duration(m.Link.Latency))
	if !d.Bits.Auto {
		c.BucketBytes = b.settings(m, bits[0]).BucketBytes
		c.Why = fmt.Sprintf("Chosen: buckets of %s (%s)", bytesText(int64(c.BucketBytes)), link)
		return c, nil
	}
	options, err := b.options(m, 1.5)
	if err != nil {
		return c, err
	}
	o, dense := best(options), options[0]
	at32 := "predicted and not tried " + duration(dense.Total)
	if dense.measured > 0 {
		at32 = duration(dense.measured)
	}
	c = choice{Bits: o.Bits, BucketBytes: o.settings.BucketBytes}
	c.Why = fmt.Sprintf("Chosen: %s, buckets of %s: %s a minibatch, at 32 bits %s (%s)", bitsText(o.Bits), bytesText(int64(c.BucketBytes)), duration(o.measured), at32, link)
	return c, nil
}

// option is a number of bits as it was predicted and, where it could be the best, measured.
type option struct {
	distributed.Cost
	settings distributed.Settings
	measured float64 // seconds of a step; 0: not tried
}

// options predicts what each number of bits takes, and tries those whose prediction is at most so many times the least. All
// workers take part, and find the same.
func (b *bench) options(m distributed.Machine, within float64) (all []option, err error) {
	least := math.Inf(1)
	for _, n := range allBits {
		s := b.settings(m, n)
		o := option{Cost: m.Predict(n, s), settings: s}
		all, least = append(all, o), min(least, o.Total)
	}
	// In turns, and the least time of each counts: what else a machine does lasts for a while, and only makes times longer.
	for turn := range turns {
		for i := range all {
			o := &all[i]
			if o.Total > within*least || turn > 0 && o.Total > 3*least { // where a difference is that plain, once is enough
				continue
			}
			seconds, err := b.step(o.settings, o.Bits, min(max(2, int(0.25/max(o.Total, 1e-3))), 25))
			if err != nil {
				return nil, err
			}
			if turn == 0 || seconds < o.measured {
				o.measured = seconds
			}
		}
	}
	return all, nil
}

// best is the option that was the fastest when tried; of several that take about as long, the one with the most bits.
func best(all []option) option {
	fastest := math.Inf(1)
	for _, o := range all {
		if o.measured > 0 {
			fastest = min(fastest, o.measured)
		}
	}
	i := slices.IndexFunc(all, func(o option) bool { return o.measured > 0 && o.measured <= (1+margin)*fastest })
	return all[i]
}

// settings are those of a number of bits, with the configured size of buckets or the one that is predicted to be the best.
func (b *bench) settings(m distributed.Machine, bits int) distributed.Settings {
	s := settings(b.r.cfg, b.r.cfg.Distributed.BucketSize)
	if s.BucketBytes == 0 {
		s.BucketBytes = m.BucketBytes(bits, s)
	}
	return s
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
