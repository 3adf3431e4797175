package pipeline

import (
	"math/rand/v2"
	"slices"
	"time"

	"gotrain/distributed"
	"gotrain/distributed/group"
	"gotrain/graph"
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
	b := &bench{r: r, update: r.learner.Update(positionZero(size))}
	b.update.Rate = 0
	for _, w := range r.workers {
		n := share(size, w.member.Rank(), r.team.workers)
		batch := graph.Batch{N: n, Labels: make([]int32, n), Weights: make([]float32, n), Divisor: float32(size)}
		c, h, width := r.data.Shape()
		batch.Images = make([]float32, n*c*h*width)
		draw := rand.New(rand.NewPCG(1, uint64(w.member.Rank())))
		for i := range batch.Images {
			batch.Images[i] = float32(draw.NormFloat64())
		}
		for i := range n {
			batch.Labels[i], batch.Weights[i] = int32(draw.IntN(len(r.data.Classes()))), 1
		}
		b.batches = append(b.batches, batch)
		var arenas [][]float32
		for _, a := range saved {
			arenas = append(arenas, slices.Clone(w.exec.Arena(a)))
		}
		b.kept = append(b.kept, arenas)
	}
	return b
}

func (b *bench) restore() error {
	for i, w := range b.r.workers {
		for j, a := range saved {
			copy(w.exec.Arena(a), b.kept[i][j])
		}
		if err := push(w.exec); err != nil {
			return err
		}
	}
	return nil
}

// probes is how often a step is measured, beside once for nothing.
const probes = 5

// machine measures what the cost model needs, on every worker, and gives all the means.
func (b *bench) machine(s distributed.Settings, bits ...int) (distributed.Machine, error) {
	r := b.r
	layout, _ := r.workers[0].exec.Layouts()
	all := make([]distributed.Machine, len(r.workers))
	err := r.team.each(func(i int, m group.Member) error {
		w, own := r.workers[i], &all[i]
		*own = distributed.Machine{Workers: m.Size(), Layout: layout, Plan: r.plan.Buckets, Encode: map[int]float64{}, Decode: map[int]float64{},
			Ready: make([]float64, len(r.plan.Buckets))}
		var steps []*distributed.Probe
		var updates []float64
		for n := range probes + 1 {
			if err := group.Barrier(m, r.team.control()); err != nil {
				return err
			}
			p := &distributed.Probe{Member: m, Start: time.Now()}
			if _, err := w.exec.Step(&b.batches[i], b.update, p); err != nil {
				return err
			}
			if n > 0 {
				steps, updates = append(steps, p), append(updates, time.Since(p.Start).Seconds()-p.Backward)
			}
		}
		middle := func(of func(*distributed.Probe) float64) float64 {
			var values []float64
			for _, p := range steps {
				values = append(values, of(p))
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		own.Backward = middle(func(p *distributed.Probe) float64 { return p.Backward })
		for j := range own.Ready {
			own.Ready[j] = middle(func(p *distributed.Probe) float64 { return p.Finished[j] })
		}
		slices.Sort(updates)
		own.Update = updates[len(updates)/2]
		if err := group.Barrier(m, r.team.control()); err != nil {
			return err
		}
		for _, n := range bits {
			own.Encode[n], own.Decode[n] = distributed.QuantizerSeconds(m, layout, w.exec.Arena(graph.Gradients), n, s)
		}
		if err := group.Barrier(m, r.team.control()); err != nil {
			return err
		}
		var err error
		own.Latency, own.Bandwidth, err = distributed.LinkSpeed(m, 4*layout.Size)
		return err
	})
	if err != nil {
		return distributed.Machine{}, err
	}
	for i := range all { // the maps' values have no addresses: sum them in slices
		all[i].Workers = r.team.workers
	}
	encode, decode := make([][]float64, len(all)), make([][]float64, len(all))
	for i := range all {
		for _, n := range bits {
			encode[i], decode[i] = append(encode[i], all[i].Encode[n]), append(decode[i], all[i].Decode[n])
		}
	}
	values := func(i int) (v []*float64) {
		m := &all[i]
		v = []*float64{&m.Backward, &m.Update, &m.Latency, &m.Bandwidth}
		for j := range m.Ready {
			v = append(v, &m.Ready[j])
		}
		for j := range bits {
			v = append(v, &encode[i][j], &decode[i][j])
		}
		return v
	}
	if err := r.team.sum(values); err != nil {
		return distributed.Machine{}, err
	}
	for _, v := range values(0) {
		*v /= float64(r.team.workers)
	}
	for j, n := range bits {
		all[0].Encode[n], all[0].Decode[n] = encode[0][j], decode[0][j]
	}
	return all[0], nil
}

// step measures whole steps at a number of bits: the mean of some, as all workers see it.
func (b *bench) step(s distributed.Settings, bits, steps int) (seconds float64, err error) {
	r := b.r
	layout, _ := r.workers[0].exec.Layouts()
	spent := make([]float64, len(r.workers))
	err = r.team.each(func(i int, m group.Member) error {
		w := r.workers[i]
		a := distributed.New(m, layout, r.plan.Buckets, w.exec.Arena(graph.Gradients), s)
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
		if s.DoubleBuffering {
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
