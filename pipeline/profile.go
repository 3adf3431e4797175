package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"gotrain/distributed"
	"gotrain/internal/cores"
)

// Profile measures one step of a configuration, and says for each number of bits what it would take, what it takes, and whether
// fewer bits pay. It trains nothing, and takes part in a job of mpiexec as training does.
func Profile(_ context.Context, s Settings) error {
	r, err := assemble(s)
	if err != nil {
		return err
	}
	return r.close(r.profile())
}

func (r *run) profile() error {
	if r.cfg.Distributed.BlockMomentum.BlockSize > 0 {
		return r.team.followed(usage("%s: distributed.blockMomentum.blockSize: whole models are exchanged, and no gradients whose bits could be profiled: set it to 0",
			r.cfg.Origin("distributed.blockMomentum.blockSize")))
	}
	if err := r.workersAlone(); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "ResNet-%d, minibatch %d, %s, %d threads each, %s, %d parameters\n", r.cfg.Network.Depth, minibatchSize(r.cfg, r.epoch),
		r.team, r.Record.Threads, r.cfg.Precision, parameterCount(&r.plan.Parameters))
	r.sayConvolutions()
	b := newBench(r)
	if r.onDevices() {
		return errors.Join(b.profileOnDevices(r.Out), b.restore())
	}
	m, err := b.machine(allBits...)
	if err != nil {
		return err
	}
	options, err := b.options(m, allBits, math.Inf(1))
	if err != nil {
		return err
	}
	if err := b.restore(); err != nil {
		return err
	}
	table(r.Out, m, options)
	alone, err := r.alone(b)
	if err != nil {
		return err
	}
	compareAlone(r.Out, r.team.workers, best(options).measured, alone)
	return nil
}

// workersAlone makes the workers of a run that has no folder, with their first parameters.
func (r *run) workersAlone() (err error) {
	if r.Record.Threads, err = r.team.threads(r.cfg); err != nil {
		return err
	}
	if err := r.chooseConvolutions(); err != nil {
		return err
	}
	if err := r.team.together(r.makeWorkers); err != nil {
		return err
	}
	if err := r.joinNCCL(); err != nil {
		return err
	}
	r.initialize()
	for _, w := range r.workers {
		if err := push(w.exec); err != nil {
			return err
		}
	}
	return nil
}

// alone measures one worker that trains on whole minibatches with all threads of the workers of its host; 0 where it cannot.
func (r *run) alone(b *bench) (seconds float64, err error) {
	if r.team.workers == 1 {
		return 0, nil
	}
	err = r.team.together(func() error {
		if !r.team.leads() {
			return nil
		}
		size := minibatchSize(r.cfg, r.epoch)
		network := spec(r.cfg, r.data)
		all, err := r.device.executors(source(network, r.cfg), r.cfg, 1, size, min(r.Record.Threads*r.team.host(), cores.Usable()), nil)
		if err != nil {
			return nil // it need not fit where its shares do
		}
		e := all[0]
		defer e.Close()
		for a := range keptArenas {
			copy(e.Arena(keptArenas[a]), b.kept[0][a])
		}
		whole := r.madeUp(size, size)
		var times []float64
		for n := range 4 {
			start := time.Now()
			if _, err := e.Step(&whole, b.update, nil); err != nil {
				return err
			}
			if n > 0 {
				times = append(times, time.Since(start).Seconds())
			}
		}
		seconds = times[0]
		for _, t := range times {
			seconds = min(seconds, t)
		}
		return nil
	})
	return seconds, err
}

// table writes what was found, the choice, and what follows from it.
func table(w io.Writer, m distributed.Machine, options []option) {
	chosen := best(options)
	if m.Workers > 1 {
		fmt.Fprintf(w, "between workers: latency %s, %s from each; buckets of %s\n", duration(m.Link.Latency), rate(m.Link.Bandwidth), bytesText(int64(chosen.settings.BucketBytes)))
	}
	const row = "%5s %12s %10s %10s %10s %10s %10s %11s %10s%s\n"
	fmt.Fprintf(w, "\n"+row, "bits", "sent", "compute", "quantize", "exchange", "hidden", "exposed", "predicted", "measured", "")
	for _, o := range options {
		mark := ""
		if o.Bits == chosen.Bits {
			mark = "  <- chosen"
		}
		fmt.Fprintf(w, row, fmt.Sprint(o.Bits), bytesText(int64(o.Bytes)), duration(o.Compute), duration(o.Quantize), duration(o.Exchange), duration(o.Hidden()),
			duration(o.Exposed), duration(o.Total), duration(o.measured), mark)
	}
	fmt.Fprintf(w, "\n%s\n", sentence(m, options[0].measured, options[len(options)-1]))
}

// compareAlone compares the workers with one; alone is 0 where that could not be measured.
func compareAlone(w io.Writer, workers int, together, alone float64) {
	switch {
	case alone == 0:
	case together > alone:
		fmt.Fprintf(w, "warning: %d workers take %s for a minibatch, and one of them alone, with the threads of all workers of its host, %s: train with fewer workers, larger minibatches or a faster network\n",
			workers, duration(together), duration(alone))
	default:
		fmt.Fprintf(w, "One worker alone, with the threads of all workers of its host, takes %s for a minibatch: %d workers are %.2f times as fast.\n", duration(alone), workers, alone/together)
	}
}

// sentence answers whether 1 bit pays, given the times of a minibatch with it and with 32.
func sentence(m distributed.Machine, dense float64, one option) string {
	if m.Workers == 1 {
		return "One worker sends nothing: 32 bits. Fewer bits pay where several workers wait for a network."
	}
	below := m.BreakEven(1, one.settings, margin)
	size := m.SizeToPay(1, one.settings, margin)
	from := fmt.Sprintf("it pays below %s between workers", rate(below))
	switch {
	case below == 0:
		from = "it pays at no bandwidth"
	case math.IsInf(below, 1):
		from = "it pays at any bandwidth here"
	}
	if one.measured < (1-margin)*dense {
		return fmt.Sprintf("Would 1 bit pay here? Yes: a minibatch takes %s instead of %s at 32 bits; for this network and minibatch %s.", duration(one.measured), duration(dense), from)
	}
	if !math.IsInf(size, 1) && size > 1 {
		from += fmt.Sprintf(", or at this bandwidth for a network with %.3g times the parameters and the same computation", size)
	}
	return fmt.Sprintf("Would 1 bit pay here? No: a minibatch takes %s at 1 bit and %s at 32; for this network and minibatch %s.", duration(one.measured), duration(dense), from)
}
