package pipeline

import (
	"math/rand/v2"
	"slices"
	"time"

	"gotrain/distributed"
	"gotrain/distributed/group"
	"gotrain/graph"
	"gotrain/internal/cores"
	"gotrain/learners"
)

// bench measures steps of all workers at the same time, as they run in training, on made-up pictures. What a step changes is
// put back by restore.
type bench struct {
	r       *run
	batches []graph.Batch
	update  graph.Update
	kept    [][][]float32 // by worker and saved arena
}

func newBench(r *run) *bench {
	size := minibatchSize(r.cfg, r.epoch)
	b := &bench{r: r, update: r.learner.Update(learners.Position{Count: size})}
	b.update.Rate = 0
	for _, w := range r.workers {
		b.batches = append(b.batches, r.madeUp(share(size, w.member.Rank(), r.team.workers), size))
		var arenas [][]float32
		for _, a := range keptArenas {
			arenas = append(arenas, slices.Clone(w.exec.Arena(a)))
		}
		b.kept = append(b.kept, arenas)
	}
	return b
}

// madeUp is a batch of n samples of a minibatch of so many.
func (r *run) madeUp(n, size int) graph.Batch {
	c, h, w := r.data.Shape()
	batch := graph.Batch{N: n, Images: make([]float32, n*c*h*w), Labels: make([]int32, n), Weights: make([]float32, n), Divisor: float32(size)}
	draw := rand.New(rand.NewPCG(1, 1))
	for i := range batch.Images {
		batch.Images[i] = float32(draw.NormFloat64())
	}
	for i := range n {
		batch.Labels[i], batch.Weights[i] = int32(draw.IntN(len(r.data.Classes()))), 1
		batch.Plan = append(batch.Plan, graph.Sample{Index: int32(i % r.data.Len())})
	}
	return batch
}

func (b *bench) restore() error {
	for i, w := range b.r.workers {
		for j, a := range keptArenas {
			copy(w.exec.Arena(a), b.kept[i][j])
		}
		if err := push(w.exec); err != nil {
			return err
		}
	}
	return nil
}

// probes is how often a step is measured, beside once for nothing.
const probes = 7

// machine measures what the cost model needs on all workers. A step's times are those of the slowest worker, for whom the
// others wait.
func (b *bench) machine(bits ...int) (m distributed.Machine, err error) {
	r, s := b.r, settings(b.r.cfg, 0)
	layout, _ := r.workers[0].exec.Layouts()
	m = distributed.Machine{Workers: r.team.workers, Layout: layout, Plan: r.plan.Buckets, Encode: map[int]float64{}, Decode: map[int]float64{}}
	if err := b.computation(&m); err != nil {
		return m, err
	}
	// Every worker measures for itself, and all at the same time: quantizers by bits, and then latency and bandwidth.
	found, atOnce := make([][]float64, len(r.workers)), make([]bool, len(r.workers))
	if err := r.team.each(func(i int, w group.Member) error {
		for _, n := range bits {
			encode, decode := distributed.QuantizerSeconds(w, layout, r.workers[i].exec.Arena(graph.Gradients), n, s)
			found[i] = append(found[i], encode, decode)
		}
		if err := group.Barrier(w, r.team.control()); err != nil {
			return err
		}
		idle := time.Duration(min(m.Backward, 0.5) * float64(time.Second))
		link, err := distributed.MeasureLink(w, layout.Size/4, 4*layout.Size, idle) // what about 1 bit takes, and what 32 take
		found[i] = append(found[i], link.Latency, link.Bandwidth, link.Burst, link.Message, link.Byte)
		atOnce[i] = link.AtOnce
		return err
	}); err != nil {
		return m, err
	}
	if err := r.team.sum(func(i int) []*float64 { return pointers(found[i]) }); err != nil {
		return m, err
	}
	mean := func(j int) float64 { return found[0][j] / float64(r.team.workers) }
	for j, n := range bits {
		m.Encode[n], m.Decode[n] = mean(2*j), mean(2*j+1)
	}
	last := 2 * len(bits)
	m.Link = distributed.Link{Latency: mean(last), Bandwidth: mean(last + 1), Burst: mean(last + 2), AtOnce: atOnce[0]}
	here := float64(len(r.workers)) // whose work the process cannot tell apart
	m.Link.Message, m.Link.Byte = mean(last+3)/here, mean(last+4)/here
	return m, nil
}

// computation measures steps without exchange: when the gradients of each bucket are there, when the backward pass has ended,
// how long the update takes, and whether processors are free beside them.
func (b *bench) computation(m *distributed.Machine) error {
	r := b.r
	count := len(r.plan.Buckets)
	found := make([][]float64, len(r.workers)) // of one step: ready, backward, update
	steps := make([][]float64, count+2)        // by value
	var began time.Time
	var before float64
	for n := range probes + 1 {
		if n == 1 {
			began, before = time.Now(), distributed.ProcessorSeconds()
		}
		if err := r.team.each(func(i int, m group.Member) error {
			if err := group.Barrier(m, r.team.control()); err != nil {
				return err
			}
			p := &distributed.Probe{Member: m, Start: time.Now()}
			if _, err := r.workers[i].exec.Step(&b.batches[i], b.update, p); err != nil {
				return err
			}
			found[i] = append(p.Finished, p.Backward, time.Since(p.Start).Seconds()-p.Backward)
			return nil
		}); err != nil {
			return err
		}
		if err := r.team.most(func(i int) []*float64 { return pointers(found[i]) }); err != nil {
			return err
		}
		for j, v := range found[0] {
			if n > 0 {
				steps[j] = append(steps[j], v)
			}
		}
	}
	slow := make([]float64, len(r.workers))
	for i := range slow {
		slow[i] = r.slowdown(distributed.ProcessorSeconds()-before, time.Since(began).Seconds())
	}
	if err := r.team.sum(func(i int) []*float64 { return []*float64{&slow[i]} }); err != nil {
		return err
	}
	m.Slowdown = slow[0] / float64(r.team.workers)
	for _, times := range steps {
		slices.Sort(times)
		m.Ready = append(m.Ready, times[len(times)/4]) // what else a machine does only makes times longer
	}
	// Who is first waits for the last, who began last: its gradients are later than its own clock says.
	m.Backward, m.Update = m.Ready[count], m.Ready[count+1]
	m.Ready = m.Ready[:count]
	late := max(0, m.Backward-m.Ready[count-1])
	for j := range m.Ready {
		m.Ready[j] += late
	}
	return nil
}

// slowdown is how much longer steps become by a second that a worker spends on a processor beside them, where steps in this
// process have had processors for so many seconds of that time: none where the host has processors to spare. What the threads
// of a step lack of the time that it takes, they have waited for a processor; some of it, for each other.
func (r *run) slowdown(processor, elapsed float64) float64 {
	share := min(1, processor/(elapsed*float64(r.Record.Threads*len(r.workers))))
	if full := r.Record.Threads*r.team.host() >= cores.Usable(); share <= 0 || !full && share > 0.75 {
		return 0
	}
	return 1 / share
}

func pointers(values []float64) []*float64 {
	p := make([]*float64, len(values))
	for i := range values {
		p[i] = &values[i]
	}
	return p
}

// step measures whole steps at a number of bits: the mean of some, as all workers see it.
func (b *bench) step(s distributed.Settings, bits, steps int) (seconds float64, err error) {
	r := b.r
	spent := make([]float64, len(r.workers))
	err = r.team.each(func(i int, _ group.Member) (err error) {
		w := r.workers[i]
		a, err := r.newAggregator(w, s)
		if err != nil {
			return err
		}
		finished := r.team.outside()
		defer func() { err = finished(err) }()
		var start time.Time
		for n := range steps + 1 {
			if n == 1 {
				start = time.Now()
			}
			if _, err := w.exec.Step(&b.batches[i], b.update, a.Step(int64(n), bits, false)); err != nil {
				return err
			}
		}
		spent[i] = time.Since(start).Seconds() / float64(steps)
		if a, ok := a.(*distributed.Aggregator); ok && s.DoubleBuffering {
			_, _, err := a.Pending()
			return err
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = r.team.sum(func(i int) []*float64 { return []*float64{&spent[i]} })
	return spent[0] / float64(r.team.workers), err
}
