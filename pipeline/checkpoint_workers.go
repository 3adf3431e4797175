package pipeline

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"gorgonia.org/tensor"

	"gotrain/distributed/group"
	"gotrain/graph"
	"gotrain/internal/safetensors"
	"gotrain/learners"
)

// Beside the model, a checkpoint holds what the workers do not have in common:
//
//	worker-000.safetensors   statistics/NAME and, once gradients have been quantized, residual/NAME, one file a worker
//	sums.safetensors         residual/NAME: of the sums, each column from its owner
//	pending.safetensors      NAME: with double buffering, the aggregate that waits for its update
//	block.safetensors        model/NAME and change/NAME: block momentum
//	moments-000.safetensors  as optimizer.safetensors, one file a worker: block momentum that leaves moments to the workers
//
// The leading process writes and reads all of them, so that the others need not see its disk.
const (
	sumsPart    = "sums.safetensors"
	pendingPart = "pending.safetensors"
	blockPart   = "block.safetensors"
)

func workerPart(rank int) string  { return fmt.Sprintf("worker-%03d.safetensors", rank) }
func momentsPart(rank int) string { return fmt.Sprintf("moments-%03d.safetensors", rank) }

var workerPartName = regexp.MustCompile(`^worker-[0-9]{3,}\.safetensors$`)

// workers is the number of workers that the checkpoint has parts of.
func (c *Checkpoint) workers() (n int) {
	for _, name := range c.Parts {
		if workerPartName.MatchString(name) {
			n++
		}
	}
	return n
}

func (c *Checkpoint) has(part string) bool { return slices.Contains(c.Parts, part) }

// pendingAggregate is what State says of an aggregate whose update is still to come.
type pendingAggregate struct {
	At      learners.Position `json:"at"` // of its minibatch
	Metrics graph.Metrics     `json:"metrics"`
}

// checkpoint saves where training stands. All processes take part, the leading one writes.
func (r *run) checkpoint() error {
	for _, w := range r.workers {
		if err := pull(w.exec); err != nil {
			return err
		}
	}
	if err := r.sameParameters(); err != nil {
		return r.team.followed(err)
	}
	all, err := r.collect()
	if err != nil {
		return err
	}
	return r.team.agree(new(struct{}), func() error { return r.store.Save(r.state.Step, all) })
}

// collect brings the parts of a checkpoint together; nil where this process does not lead.
func (r *run) collect() ([]Part, error) {
	exec := r.workers[0].exec
	parameters, statistics := exec.Layouts()
	pending, err := r.pendingPart(parameters) // first: the exchange that it waits for writes residuals
	if err != nil {
		return nil, err
	}
	running, err := r.gather(func(w *worker) []float32 { return w.exec.Arena(graph.Statistics) })
	if err != nil {
		return nil, err
	}
	own, err := r.ownMoments()
	if err != nil {
		return nil, err
	}
	var residuals, owned [][]float32
	owed := false
	if r.workers[0].aggregator != nil {
		own, sums := map[*worker][]float32{}, map[*worker][]float32{}
		for _, w := range r.workers {
			if own[w], sums[w], owed, err = w.aggregator.Residuals(); err != nil {
				return nil, err
			}
		}
		if owed {
			if residuals, err = r.gather(func(w *worker) []float32 { return own[w] }); err != nil {
				return nil, err
			}
			if owned, err = r.gather(func(w *worker) []float32 { return sums[w] }); err != nil {
				return nil, err
			}
		}
	}
	if !r.team.leads() {
		return nil, nil
	}
	all := append(parts(exec, weighted(running, r.state.Trained), r.learner.Rule(), r.state), pending...)
	for rank := range running {
		if r.team.workers == 1 && !owed {
			break // the model has all there is
		}
		t := map[string]*tensor.Dense{}
		tensors(t, "statistics/", statistics, running[rank])
		if owed {
			tensors(t, "residual/", parameters, residuals[rank])
		}
		all = append(all, tensorsPart(workerPart(rank), t))
	}
	if owed {
		sums := owned[0]
		for _, values := range owned[1:] { // a column is zero but at its owner
			for i, v := range values {
				sums[i] += v
			}
		}
		t := map[string]*tensor.Dense{}
		tensors(t, "residual/", parameters, sums)
		all = append(all, tensorsPart(sumsPart, t))
	}
	if b := r.workers[0].block; b != nil {
		all = append(all, tensorsPart(blockPart, blockTensors(parameters, b.Model, b.Change)))
	}
	for rank := range r.team.workers {
		if own != nil {
			all = append(all, tensorsPart(momentsPart(rank), momentTensorsOf(parameters, r.learner.Rule(), func(a graph.Arena) []float32 { return own[a][rank] })))
		}
	}
	return all, nil
}

// keepsOwnMoments says whether each worker has moments of its own: where blocks end and leave them alone.
func (r *run) keepsOwnMoments() bool {
	b := r.cfg.Distributed.BlockMomentum
	return b.BlockSize > 0 && !b.ResetMomentum && r.team.workers > 1
}

// ownMoments gathers the moments of all workers, by arena, where they differ.
func (r *run) ownMoments() (map[graph.Arena][][]float32, error) {
	if !r.keepsOwnMoments() {
		return nil, nil
	}
	own := map[graph.Arena][][]float32{}
	for _, a := range []graph.Arena{graph.FirstMoment, graph.SecondMoment} { // the same order on all
		all, err := r.gather(func(w *worker) []float32 { return w.exec.Arena(a) })
		if err != nil {
			return nil, err
		}
		own[a] = all
	}
	return own, nil
}

// momentTensorsOf are views of the moments that a rule keeps.
func momentTensorsOf(l *graph.Layout, rule graph.Rule, of func(graph.Arena) []float32) map[string]*tensor.Dense {
	t := map[string]*tensor.Dense{}
	for prefix, arena := range moments(rule) {
		tensors(t, prefix, l, of(arena))
	}
	return t
}

func blockTensors(l *graph.Layout, model, change []float32) map[string]*tensor.Dense {
	t := map[string]*tensor.Dense{}
	tensors(t, "model/", l, model)
	tensors(t, "change/", l, change)
	return t
}

// pendingPart waits for the aggregate whose update is still to come, and notes it in the state.
func (r *run) pendingPart(l *graph.Layout) ([]Part, error) {
	if r.state.Pending == nil || !r.buffered() {
		return nil, nil
	}
	var part []Part
	for i, w := range r.workers {
		values, m, err := w.buffering().Pending()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			r.state.Pending.Metrics = m
			t := map[string]*tensor.Dense{}
			tensors(t, "", l, values)
			part = []Part{tensorsPart(pendingPart, t)}
		}
	}
	return part, nil
}

// restoreWorkers gives each worker its own part of a checkpoint, which only the leading process has. Where the number of
// workers was another, they start from the model's statistics, and share what was owed in equal parts.
func (r *run) restoreWorkers(c *Checkpoint, workers int, owed bool) error {
	exec := r.workers[0].exec
	parameters, statistics := exec.Layouts()
	n := r.team.workers
	var running, residuals [][]float32
	sums, pending := make([]float32, parameters.Size), make([]float32, parameters.Size)
	model, change := make([]float32, parameters.Size), make([]float32, parameters.Size)
	if err := r.team.agree(new(struct{}), func() error {
		for rank := range workers {
			stats, residual := make([]float32, statistics.Size), make([]float32, parameters.Size)
			t := map[string]*tensor.Dense{}
			tensors(t, "statistics/", statistics, stats)
			if owed {
				tensors(t, "residual/", parameters, residual)
			}
			if err := c.Tensors(workerPart(rank), func(f *safetensors.File) error { return readTensors(f, t) }); err != nil {
				return err
			}
			running, residuals = append(running, stats), append(residuals, residual)
		}
		read := func(part string, t map[string]*tensor.Dense) error {
			if !c.has(part) {
				return nil
			}
			return c.Tensors(part, func(f *safetensors.File) error { return readTensors(f, t) })
		}
		t, p := map[string]*tensor.Dense{}, map[string]*tensor.Dense{}
		tensors(t, "residual/", parameters, sums)
		tensors(p, "", parameters, pending)
		return errors.Join(read(sumsPart, t), read(pendingPart, p), read(blockPart, blockTensors(parameters, model, change)))
	}); err != nil {
		return err
	}
	if workers != n {
		if r.team.leads() && workers > 0 {
			residuals = dealt(residuals, n)
		}
		r.state.Trained = evenly(r.state.Trained, r.state.Samples, n)
	}
	if workers == n && n > 1 {
		own, err := r.scatter(running, statistics.Size)
		if err != nil {
			return err
		}
		for i, w := range r.workers {
			copy(w.exec.Arena(graph.Statistics), own[i])
		}
	}
	if err := r.restoreMoments(c, workers); err != nil {
		return err
	}
	if p := r.state.Pending; p != nil && !r.buffered() {
		r.say.printf("warning: the gradient of one minibatch is left out: it waited for its update, and without distributed.doubleBuffering nothing waits")
		r.state.Pending = nil
	}
	if owed && r.workers[0].aggregator == nil {
		r.say.printf("warning: what quantization owed is left out: with block momentum no gradients are sent that it could be added to")
	}
	if owed {
		own, err := r.scatter(residuals, parameters.Size)
		if err != nil {
			return err
		}
		if err := r.tell(sums); err != nil {
			return err
		}
		for i, w := range r.workers {
			if w.aggregator != nil {
				if err := w.aggregator.SetResiduals(own[i], sums); err != nil {
					return err
				}
			}
		}
	}
	if p := r.state.Pending; p != nil {
		if err := r.tell(pending); err != nil {
			return err
		}
		for _, w := range r.workers {
			if w.aggregator != nil {
				w.buffering().SetPending(pending, p.Metrics)
			}
		}
	}
	if r.workers[0].block != nil {
		var there bool
		if err := r.team.agree(&there, func() error { there = c.has(blockPart); return nil }); err != nil {
			return err
		}
		if there {
			if err := errors.Join(r.tell(model), r.tell(change)); err != nil {
				return err
			}
			for _, w := range r.workers {
				w.block.Model, w.block.Change = slices.Clone(model), slices.Clone(change)
			}
		}
	}
	for _, w := range r.workers {
		if err := push(w.exec); err != nil {
			return err
		}
	}
	return nil
}

// buffered says whether the aggregate of a step waits for the next one.
func (r *run) buffered() bool {
	return r.cfg.Distributed.DoubleBuffering && r.workers[0].aggregator != nil
}

// restoreMoments gives each worker its own moments, where a checkpoint of as many workers has them. Those of another rule have
// been warned of.
func (r *run) restoreMoments(c *Checkpoint, workers int) error {
	l, _ := r.workers[0].exec.Layouts()
	var there bool
	if err := r.team.agree(&there, func() error {
		there = r.keepsOwnMoments() && workers == r.team.workers && c.has(momentsPart(0)) && r.state.RuleSince != r.state.Step
		return nil
	}); err != nil || !there {
		return err
	}
	all := map[graph.Arena][][]float32{}
	if err := r.team.agree(new(struct{}), func() error {
		for rank := range workers {
			for _, a := range []graph.Arena{graph.FirstMoment, graph.SecondMoment} {
				all[a] = append(all[a], make([]float32, l.Size))
			}
			t := momentTensorsOf(l, r.learner.Rule(), func(a graph.Arena) []float32 { return all[a][rank] })
			if err := c.Tensors(momentsPart(rank), func(f *safetensors.File) error { return readTensors(f, t) }); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, a := range []graph.Arena{graph.FirstMoment, graph.SecondMoment} {
		own, err := r.scatter(all[a], l.Size)
		if err != nil {
			return err
		}
		for i, w := range r.workers {
			copy(w.exec.Arena(a), own[i])
		}
	}
	return nil
}

// tell gives all processes the values of the leading one.
func (r *run) tell(values []float32) error {
	if r.team.workers == 1 {
		return nil
	}
	return r.team.each(func(i int, m group.Member) error {
		if i == 0 {
			return r.team.broadcast(m, values)
		}
		return r.team.broadcast(m, make([]float32, len(values)))
	})
}

// dealt are residuals for another number of workers: each gets the same share of what all owed together.
func dealt(old [][]float32, workers int) [][]float32 {
	share := make([]float32, len(old[0]))
	for _, values := range old {
		for i, v := range values {
			share[i] += v
		}
	}
	for i := range share {
		share[i] /= float32(workers)
	}
	return slices.Repeat([][]float32{share}, workers)
}

// evenly deals the samples trained so far out to the workers, where they are not counted for as many.
func evenly(trained []int64, samples int64, workers int) []int64 {
	if len(trained) == workers {
		return trained
	}
	out := make([]int64, workers)
	for w := range out {
		out[w] = int64(share(int(samples), w, workers))
	}
	return out
}
