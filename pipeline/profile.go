package pipeline

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"gotrain/distributed"
	"gotrain/graph"
)

// Profile measures one step of a configuration, and says for each number of bits what it would take, what it takes, and whether
// fewer bits pay. It trains nothing, and takes part in a job of mpiexec as training does.
func Profile(_ context.Context, s Settings) error {
	r, err := assemble(s)
	if err != nil {
		return err
	}
	err = r.profile()
	r.close(err)
	return err
}

func (r *run) profile() error {
	if r.cfg.Distributed.BlockMomentum.BlockSize > 0 {
		return r.team.followed(usage("%s: distributed.blockMomentum.blockSize: whole models are exchanged, and no gradients whose bits could be profiled: set it to 0",
			r.cfg.Origin("distributed.blockMomentum.blockSize")))
	}
	// The host with the most workers for its cores decides, as in training.
	if err := r.team.agree(&r.Record.Threads, func() error { r.Record.Threads = threadsFor(r.cfg, r.team.host()); return nil }); err != nil {
		return err
	}
	if err := r.team.together(r.makeWorkers()); err != nil {
		return err
	}
	r.initialize()
	for _, w := range r.workers {
		if err := push(w.exec); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.Out, "ResNet-%d, minibatch %d, %s, %d threads each, %s, %d parameters\n", r.cfg.Network.Depth, minibatchSize(r.cfg, r.epoch),
		r.team, r.Record.Threads, r.cfg.Precision, parameterCount(&r.plan.Parameters))
	b := newBench(r)
	p, err := b.profile()
	if err != nil {
		return err
	}
	alone, err := r.alone(b)
	if err != nil {
		return err
	}
	p.print(r.Out, r.team.workers, alone)
	return nil
}

// profiled is what Profile has found.
type profiled struct {
	machine  distributed.Machine
	settings distributed.Settings // with the chosen size of buckets
	costs    []distributed.Cost
	measured []float64 // seconds of a step, by cost
	chosen   int       // index
}

// profile measures and predicts; all workers take part.
func (b *bench) profile() (p profiled, err error) {
	d := b.r.cfg.Distributed
	p.settings = settings(b.r.cfg, d.BucketSize)
	if p.machine, err = b.machine(p.settings, allBits...); err != nil {
		return p, err
	}
	sizes := map[int]int{}
	for _, n := range allBits {
		s := p.settings
		if d.BucketSize == 0 {
			s.BucketBytes = p.machine.BucketBytes(n, s)
		}
		if err := b.r.team.agree(&s.BucketBytes, func() error { return nil }); err != nil {
			return p, err
		}
		sizes[n] = s.BucketBytes
		steps := 4
		cost := p.machine.Predict(n, s)
		if cost.Total < 0.25 {
			steps = int(1 / max(cost.Total, 0.02)) // a second's
		}
		if err := b.r.team.agree(&steps, func() error { return nil }); err != nil {
			return p, err
		}
		t, err := b.step(s, n, steps)
		if err != nil {
			return p, err
		}
		p.costs, p.measured = append(p.costs, cost), append(p.measured, t)
	}
	fastest := math.Inf(1)
	for _, t := range p.measured {
		fastest = min(fastest, t)
	}
	for p.measured[p.chosen] > (1+margin)*fastest {
		p.chosen++
	}
	p.settings.BucketBytes = sizes[allBits[p.chosen]]
	return p, b.restore()
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
		e, err := executor(network, r.cfg, size, r.Record.Threads*r.team.host())
		if err != nil {
			return nil // it need not fit where its shares do
		}
		defer e.Close()
		for a := range saved {
			copy(e.Arena(saved[a]), b.kept[0][a])
		}
		batch := b.batches[0]
		whole := graph.Batch{N: size, Divisor: float32(size)}
		for whole.N > len(whole.Labels) {
			n := min(size-len(whole.Labels), batch.N)
			whole.Labels, whole.Weights = append(whole.Labels, batch.Labels[:n]...), append(whole.Weights, batch.Weights[:n]...)
			whole.Images = append(whole.Images, batch.Images[:n*(len(batch.Images)/batch.N)]...)
		}
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
	}())
	return seconds, err
}

// print writes the table, the choice, and what follows from it.
func (p profiled) print(w io.Writer, workers int, alone float64) {
	m := p.machine
	if workers > 1 {
		fmt.Fprintf(w, "between workers: latency %s, %s from each; buckets of %s\n", duration(m.Link.Latency), rate(m.Link.Bandwidth), bytesText(int64(p.settings.BucketBytes)))
	}
	const row = "%5s %12s %10s %10s %10s %10s %10s %11s %10s\n"
	fmt.Fprintf(w, "\n"+row, "bits", "sent", "compute", "quantize", "exchange", "hidden", "exposed", "predicted", "measured")
	for i, c := range p.costs {
		mark := ""
		if i == p.chosen {
			mark = "  <- chosen"
		}
		line := fmt.Sprintf(row, fmt.Sprint(c.Bits), bytesText(int64(c.Bytes)), duration(c.Compute), duration(c.Quantize), duration(c.Exchange), duration(c.Hidden()),
			duration(c.Exposed), duration(c.Total), duration(p.measured[i]))
		fmt.Fprintf(w, "%s%s\n", line[:len(line)-1], mark)
	}
	fmt.Fprintf(w, "\n%s\n", p.sentence(workers))
	if chosen := p.measured[p.chosen]; alone > 0 && chosen > alone {
		fmt.Fprintf(w, "warning: %d workers take %s for a minibatch, and one of them alone, with the threads of all workers of its host, %s: train with fewer workers, larger minibatches or a faster network\n",
			workers, duration(chosen), duration(alone))
	} else if alone > 0 {
		fmt.Fprintf(w, "One worker alone, with the threads of all workers of its host, takes %s for a minibatch: %d workers are %.2f times as fast.\n", duration(alone), workers, alone/chosen)
	}
}

// sentence answers whether 1 bit pays.
func (p profiled) sentence(workers int) string {
	if workers == 1 {
		return "One worker sends nothing: 32 bits. Fewer bits pay where several workers wait for a network."
	}
	dense, one := p.measured[0], p.measured[len(p.measured)-1]
	below := p.machine.BreakEven(1, p.settings, margin)
	size := p.machine.SizeToPay(1, p.settings, margin)
	from := ""
	switch {
	case below == 0:
		from = "at no bandwidth does it pay for this network and minibatch"
	case math.IsInf(below, 1):
		from = "it pays at any bandwidth here"
	default:
		from = fmt.Sprintf("it pays below %s between workers", rate(below))
	}
	if one < (1-margin)*dense {
		return fmt.Sprintf("Would 1 bit pay here? Yes: a minibatch takes %s instead of %s at 32 bits; for this network and minibatch %s.", duration(one), duration(dense), from)
	}
	if !math.IsInf(size, 1) && size > 1 {
		from += fmt.Sprintf(", or at this bandwidth for a network with %.3g times the parameters and the same computation", size)
	}
	return fmt.Sprintf("Would 1 bit pay here? No: a minibatch takes %s at 1 bit and %s at 32; for this network and minibatch %s.", duration(one), duration(dense), from)
}
