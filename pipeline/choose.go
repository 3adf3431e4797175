package pipeline

import (
	"fmt"
	"math"
	"slices"

	"gotrain/distributed"
)

// choice is what was chosen by measuring, once, at the run's first start.
type choice struct {
	Bits        int    `json:"bits,omitempty"`   // for bits: auto
	BucketBytes int    `json:"bucketBytes"`      // of gradients exchanged at a time
	AtOnce      bool   `json:"atOnce,omitempty"` // of long messages, see distributed.Settings
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
	if b.r.onDevices() {
		return b.chooseOnDevices(bits)
	}
	m, err := b.machine(bits...)
	if err != nil {
		return c, err
	}
	options, err := b.options(m, bits, 1.5)
	if err != nil {
		return c, err
	}
	o := best(options)
	c = choice{BucketBytes: o.settings.BucketBytes, AtOnce: o.settings.AtOnce}
	link := fmt.Sprintf("workers send %s with a latency of %s", rate(m.Link.Bandwidth), duration(m.Link.Latency))
	if !d.Bits.Auto {
		c.Why = fmt.Sprintf("Chosen: buckets of %s (%s)", bytesText(int64(c.BucketBytes)), link)
		return c, nil
	}
	dense := options[0]
	at32 := "predicted and not tried " + duration(dense.Total)
	if dense.measured > 0 {
		at32 = duration(dense.measured)
	}
	c.Bits = o.Bits
	c.Why = fmt.Sprintf("Chosen: %s, buckets of %s: %s a minibatch, at 32 bits %s (%s)", bitsText(o.Bits), bytesText(int64(c.BucketBytes)), duration(o.measured), at32, link)
	return c, nil
}

// option is a number of bits and a size of buckets as it was predicted and, where it could be the best, measured.
type option struct {
	distributed.Cost
	settings distributed.Settings
	measured float64 // seconds of a step; 0: not tried
}

// options predicts what each number of bits takes, and tries those whose prediction is at most so many times the least. All
// workers take part, and find the same.
func (b *bench) options(m distributed.Machine, bits []int, within float64) ([]option, error) {
	least := math.Inf(1)
	var all []option
	for _, n := range bits {
		for _, s := range b.settings(m, n) {
			o := option{Cost: m.Predict(n, s), settings: s}
			all, least = append(all, o), min(least, o.Total)
		}
	}
	if len(all) == 1 && !b.r.cfg.Distributed.Bits.Auto {
		return all, nil // there is nothing to compare it with
	}
	// In turns, and the least time of each counts: what else a machine does lasts for a while, and only makes times longer.
	for turn := range turns {
		fastest := fastest(all)
		for i := range all {
			o := &all[i]
			if o.Total > within*least || turn > 0 && plain(o.measured, fastest) {
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
	return fasterSizes(all), nil
}

// plain says whether once is enough to see that a step is slower than the fastest: a long one is disturbed less.
func plain(measured, fastest float64) bool {
	return measured > 3*fastest || measured > 0.25 && measured > 1.1*fastest
}

// fastest is the least time of those that were tried.
func fastest(all []option) float64 {
	least := math.Inf(1)
	for _, o := range all {
		if o.measured > 0 {
			least = min(least, o.measured)
		}
	}
	return least
}

// best is the option that was the fastest when tried; of several that take about as long, the one with the most bits.
func best(all []option) option {
	least := fastest(all)
	i := slices.IndexFunc(all, func(o option) bool { return o.measured > 0 && o.measured <= (1+margin)*least })
	return all[max(i, 0)] // one that had nothing beside it was not tried
}

// settings are those of a number of bits: with the configured size of buckets, or with the one that is predicted to be the best
// and with the whole gradient at one time. The prediction knows least of what messages beside the passes take from these;
// where links are so slow that most of the time is theirs, it is right.
func (b *bench) settings(m distributed.Machine, bits int) []distributed.Settings {
	s := settings(b.r.cfg, b.r.cfg.Distributed.BucketSize)
	s.AtOnce = m.Link.AtOnce
	if s.BucketBytes > 0 {
		return []distributed.Settings{s}
	}
	whole := s
	s.BucketBytes, whole.BucketBytes = m.BucketBytes(bits, s), 4*m.Layout.Size
	if c := m.Predict(bits, s); s.BucketBytes == whole.BucketBytes || c.Exposed > c.Compute {
		return []distributed.Settings{s}
	}
	return []distributed.Settings{s, whole}
}

// leastBits is the fewest bits of the run's schedule: its exchange is the shortest for the longest time.
func leastBits(r *run) int {
	least := 32
	for _, s := range r.cfg.Distributed.Bits.Schedule {
		least = min(least, int(s.Value))
	}
	return least
}

// settings are how gradients are aggregated, with what was chosen.
func (r *run) settings() distributed.Settings {
	s := settings(r.cfg, r.cfg.Distributed.BucketSize)
	if c := r.Record.Chosen; c != nil {
		s.AtOnce = c.AtOnce
		if s.BucketBytes == 0 {
			s.BucketBytes = c.BucketBytes
		}
	}
	return s
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
