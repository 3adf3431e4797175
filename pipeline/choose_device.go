package pipeline

import (
	"fmt"
	"io"

	"gotrain/cuda"
	"gotrain/graph"
)

// onDevices says whether GPUs aggregate by themselves.
func (r *run) onDevices() bool {
	_, ok := r.workers[0].exec.(*cuda.Executor)
	return ok && (r.team.job == nil || r.team.link != nil) && r.team.workers > 1 && !r.cfg.Distributed.DoubleBuffering
}

// deviceOptions tries numbers of bits on GPUs that aggregate by themselves. The quantizers of the CPU and the link of the model
// behind options say nothing of them, so that each is tried: in buckets of the configured size, or of an eighth of the gradients
// and in a single one.
func (b *bench) deviceOptions(bits []int) ([]option, error) {
	var all []option
	layout, _ := b.r.workers[0].exec.Layouts()
	s := settings(b.r.cfg, b.r.cfg.Distributed.BucketSize)
	sizes := []int{s.BucketBytes}
	if s.BucketBytes == 0 {
		sizes = []int{eighth(layout), 4 * layout.Size}
	}
	for _, n := range bits {
		for _, bytes := range sizes {
			o := option{settings: s}
			o.Bits, o.settings.BucketBytes = n, bytes
			a, err := b.r.newAggregator(b.r.workers[0], o.settings)
			if err != nil {
				return nil, err
			}
			o.Bytes = a.Bytes(n)
			all = append(all, o)
		}
	}
	steps := 20
	if b.r.device.gpus.Emulated() {
		steps = 1
	}
	for turn := range turns {
		for i := range all {
			o := &all[i]
			if turn > 0 && (steps == 1 || o.measured > 3*fastest(all)) {
				continue
			}
			seconds, err := b.step(o.settings, o.Bits, steps)
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

// eighth is the bytes of an eighth of the gradients.
func eighth(l *graph.Layout) int { return 4 * l.Size / 8 }

// chooseOnDevices settles what the configuration leaves to measurements.
func (b *bench) chooseOnDevices(bits []int) (c choice, err error) {
	options, err := b.deviceOptions(bits)
	if err != nil {
		return c, err
	}
	o := best(options)
	c.BucketBytes = o.settings.BucketBytes
	c.Why = fmt.Sprintf("Chosen: buckets of %s", bytesText(int64(c.BucketBytes)))
	if b.r.cfg.Distributed.Bits.Auto {
		c.Bits = o.Bits
		c.Why = fmt.Sprintf("Chosen: %s, buckets of %s: %s a minibatch, at 32 bits %s", bitsText(o.Bits), bytesText(int64(c.BucketBytes)), duration(o.measured), duration(options[0].measured))
	}
	return c, nil
}

// profileOnDevices writes what was found of GPUs that aggregate by themselves: the step is one graph, of which nobody sees the parts.
func (b *bench) profileOnDevices(w io.Writer) error {
	options, err := b.deviceOptions(allBits)
	if err != nil {
		return err
	}
	chosen := best(options)
	const row = "%5s %12s %12s %10s%s\n"
	fmt.Fprintf(w, "\n"+row, "bits", "sent", "buckets of", "measured", "")
	for _, o := range options {
		mark := ""
		if o.Bits == chosen.Bits {
			mark = "  <- chosen"
		}
		fmt.Fprintf(w, row, fmt.Sprint(o.Bits), bytesText(int64(o.Bytes)), bytesText(int64(o.settings.BucketBytes)), duration(o.measured), mark)
	}
	dense, one := options[0].measured, options[len(options)-1].measured
	answer := "No"
	if one < (1-margin)*dense {
		answer = "Yes"
	}
	fmt.Fprintf(w, "\nWould 1 bit pay here? %s: a minibatch takes %s at 1 bit and %s at 32 bits.\n", answer, duration(one), duration(dense))
	if b.r.device.gpus.Emulated() {
		fmt.Fprintln(w, "These are times of the emulator: they say nothing of GPUs.")
	}
	return nil
}

// fasterSizes are the options with the faster size of buckets, of each number of bits.
func fasterSizes(all []option) (out []option) {
	for _, o := range all {
		if n := len(out); n == 0 || out[n-1].Bits != o.Bits {
			out = append(out, o)
		} else if o.measured > 0 && (out[n-1].measured == 0 || o.measured < out[n-1].measured) {
			out[n-1] = o
		}
	}
	return out
}
