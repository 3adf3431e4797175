package pipeline

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"

	"gotrain/configs"
	"gotrain/distributed"
	"gotrain/distributed/group"
	"gotrain/graph"
	"gotrain/readers"
)

// worker is one worker of this process.
type worker struct {
	member     group.Member
	exec       graph.Executor
	aggregator aggregator         // nil where gradients stay as they are: one worker at 32 bits, or models by block
	block      *distributed.Block // nil: no block momentum
	loader     *readers.Loader
	minibatch  *readers.Minibatch // the one that is trained on

	unsynced graph.Metrics // block momentum: of the steps since models were exchanged
}

// aggregates says whether gradients go through an aggregator: where several workers share each step, or bits are saved.
func aggregates(cfg *configs.Config) bool {
	d := cfg.Distributed
	return d.BlockMomentum.BlockSize == 0 && (d.Workers > 1 || quantizes(cfg))
}

// quantizes says whether a run may send fewer than 32 bits.
func quantizes(cfg *configs.Config) bool {
	b := cfg.Distributed.Bits
	return b.Auto || slices.ContainsFunc(b.Schedule, func(s configs.Span) bool { return s.Value != 32 })
}

// settings are how gradients are aggregated, in buckets of so many bytes.
func settings(cfg *configs.Config, bucketBytes int) distributed.Settings {
	d := cfg.Distributed
	return distributed.Settings{Columns: d.Columns, ZeroThreshold: d.ZeroThreshold, BucketBytes: bucketBytes, Overlap: d.Overlap,
		DoubleBuffering: d.DoubleBuffering}
}

// share is the number of samples that a worker gets of a minibatch of so many.
func share(count, rank, workers int) int { return count*(rank+1)/workers - count*rank/workers }

// largestShare is the most that a worker gets.
func largestShare(count, workers int) int { return (count + workers - 1) / workers }

// sameParameters checks that all workers have the same parameters.
func (r *run) sameParameters() error {
	if r.team.workers == 1 {
		return nil
	}
	err := r.team.same([]string{"parameters"}, func(i int) [][sha256.Size]byte {
		return [][sha256.Size]byte{sha256.Sum256(raw(r.workers[i].exec.Arena(graph.Parameters)))}
	})
	if err != nil {
		return fmt.Errorf("comparing parameters behind step %d: %w: processes that run on machines of different kinds, or a fault of the machine or of gotrain; the checkpoint before still counts", r.state.Step, err)
	}
	return nil
}

// weighted is the mean of values, each weighted by a count, in order. Equal values stay as they are.
func weighted(all [][]float32, counts []int64) []float32 {
	out := make([]float32, len(all[0]))
	for i := range out {
		sum, total := 0.0, 0.0
		for r, values := range all {
			sum += float64(values[i]) * float64(counts[r])
			total += float64(counts[r])
		}
		if out[i] = all[0][i]; total > 0 {
			out[i] = float32(sum / total)
		}
	}
	return out
}

// gather brings values of all workers to the leading process, as copies; nil elsewhere.
func (r *run) gather(of func(*worker) []float32) (all [][]float32, err error) {
	if r.team.leads() {
		all = make([][]float32, r.team.workers)
	}
	err = r.team.each(func(i int, m group.Member) error {
		own := of(r.workers[i])
		for w := range m.Size() {
			var into []float32
			if m.Rank() == 0 {
				into = make([]float32, len(own))
				all[w] = into
			}
			if err := r.team.carry(m, w, 0, own, into); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// spread gives all workers an arena of worker 0.
func (r *run) spread(a graph.Arena) error {
	if r.team.workers == 1 {
		return nil
	}
	return r.team.each(func(i int, m group.Member) error {
		return r.team.broadcast(m, r.workers[i].exec.Arena(a))
	})
}

// scatter gives each worker what the leading process has for it, of so many values.
func (r *run) scatter(all [][]float32, n int) (own [][]float32, err error) {
	own = make([][]float32, len(r.workers))
	err = r.team.each(func(i int, m group.Member) error {
		own[i] = make([]float32, n)
		for w := range m.Size() {
			var values []float32
			if m.Rank() == 0 {
				values = all[w]
			}
			if err := r.team.carry(m, 0, w, values, own[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return own, err
}

// makeAggregators gives the workers what exchanges their gradients or models. Where residuals are owed, even one worker at 32
// bits has an aggregator: it adds them to its first gradient.
func (r *run) makeAggregators(owed bool) error {
	b := r.cfg.Distributed.BlockMomentum
	for _, w := range r.workers {
		if aggregates(r.cfg) || owed && b.BlockSize == 0 {
			var err error
			if w.aggregator, err = r.newAggregator(w, r.settings()); err != nil {
				return err
			}
		}
		if b.BlockSize > 0 {
			w.block = &distributed.Block{Momentum: float32(blockMomentum(b)), Rate: float32(b.LearningRate), Nesterov: b.Nesterov}
		}
	}
	return nil
}

// warnOfColumns says where fewer bits send no fewer bytes.
func (r *run) warnOfColumns() {
	a, bits := r.workers[0].aggregator, leastBits(r)
	if a == nil || bits == 32 || r.team.workers == 1 || a.Bytes(bits) < a.Bytes(32) {
		return
	}
	r.say.printf("warning: distributed.columns: %d: in columns of so few values %s send %s a minibatch, and 32 bits %s: write channel, or a larger number",
		r.cfg.Distributed.Columns, bitsText(bits), bytesText(int64(a.Bytes(bits))), bytesText(int64(a.Bytes(32))))
}

// blockMomentum is that of a block, whichever way it is given.
func blockMomentum(b configs.BlockMomentum) float64 {
	if b.MomentumAsTimeConstant > 0 {
		return math.Exp(-float64(b.BlockSize) / b.MomentumAsTimeConstant)
	}
	return b.Momentum
}

// close frees what the worker holds.
func (w *worker) close() error {
	var errs []error
	if w.loader != nil {
		errs = append(errs, w.loader.Close())
	}
	if w.exec != nil {
		errs = append(errs, w.exec.Close())
	}
	return errors.Join(errs...)
}
