package pipeline

import (
	"gotrain/distributed/group"
	"gotrain/graph"
	"gotrain/readers"
)

// stepInBlock trains a worker on its own share alone, as if there were no others.
func (w *worker) stepInBlock(u graph.Update) (graph.Result, error) {
	b := &w.minibatch.Batch
	if b.N == 0 {
		return graph.Result{}, nil
	}
	b.Divisor = float32(b.N)
	result, err := w.exec.Step(b, u, nil)
	w.unsynced.Add(result.Metrics)
	return result, err
}

// syncBlock ends a block where one is full, and at the end of each epoch, and collects what the workers have found in it: the
// step's metrics are then those of all workers since the block before.
// stop asks all processes to stop behind it, and stopped says whether one has.
func (r *run) syncBlock(s *Step, mb *readers.Minibatch, stop bool) (stopped bool, err error) {
	st := &r.state
	s.Metrics = graph.Metrics{}
	if st.Block += int64(mb.Count); st.Block < r.cfg.Distributed.BlockMomentum.BlockSize && !mb.Last {
		s.Unsynced = true
		return false, nil
	}
	st.Block = 0
	var asked [][]float64
	for range r.workers {
		asked = append(asked, []float64{0})
	}
	if stop {
		asked[0][0] = 1
	}
	if err := r.team.sum(func(i int) []*float64 {
		m := &r.workers[i].unsynced
		return []*float64{&m.Loss, &m.Errors, &m.Count, &asked[i][0]}
	}); err != nil {
		return false, err
	}
	s.Metrics = r.workers[0].unsynced
	parameters, _ := r.workers[0].exec.Layouts()
	r.spent.Bytes += int64(2 * 4 * parameters.Size * (r.team.workers - 1) / r.team.workers) // both phases of an all-reduce
	return asked[0][0] > 0, r.team.each(func(i int, m group.Member) error {
		w := r.workers[i]
		w.unsynced = graph.Metrics{}
		for _, a := range keptArenas {
			if err := w.exec.Pull(a); err != nil {
				return err
			}
		}
		if err := w.block.End(m, st.Step+1, w.exec.Arena(graph.Parameters)); err != nil {
			return err
		}
		if r.cfg.Distributed.BlockMomentum.ResetMomentum {
			clear(w.exec.Arena(graph.FirstMoment))
			clear(w.exec.Arena(graph.SecondMoment))
		}
		return push(w.exec)
	})
}
