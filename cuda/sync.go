package cuda

import (
	"fmt"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// Synchronized batch norms normalize over the images of all workers, see graph.Share: in both directions a worker's first launch leaves
// its share, which all others copy, and every worker merges all of them by itself, in their order, before its second launch.

// synced says whether an operation is one.
func synced(o *graph.Op) bool {
	return o.Attr.Sync && (o.Kind == graph.BatchNorm || o.Kind == graph.BatchNormBackward)
}

// shares are where those of each synchronized operation lie in memory of every worker, one worker's behind the other's, and how many
// bytes all take.
func (f *Fleet) shares(p *graph.Plan) (at map[*graph.Op]int, bytes int) {
	at = map[*graph.Op]int{}
	for _, o := range p.Ops {
		if synced(o) {
			at[o] = bytes
			bytes += align(len(f.workers) * kernels.NormShare(o.In[0].Shape))
		}
	}
	return at, bytes
}

// makeShares makes room for shares on every worker.
func (f *Fleet) makeShares() error {
	_, bytes := f.shares(f.plan)
	for _, e := range f.workers {
		e.shares.what, e.sentShares.what = e.named("shares of batch norms"), e.named("shares of batch norms")
		if _, err := e.device.reserve(&e.shares, bytes); err != nil {
			return err
		}
		if !f.staged {
			continue
		}
		if _, err := e.device.reserveHost(&e.sentShares, bytes); err != nil {
			return err
		}
	}
	return nil
}

// anyPlan is the plan of a worker with samples, nil where there is none: all have the same operations.
func anyPlan(programs []*program) *graph.Plan {
	for _, p := range programs {
		if p.plan != nil {
			return p.plan
		}
	}
	return nil
}

// operations records a range of operations for all workers.
func (f *Fleet) operations(r *recorder, programs []*program, from, to int) {
	plan := anyPlan(programs)
	each := func(to int) {
		for _, p := range programs {
			p.operations(r, from, to)
		}
	}
	for i := from; i < to; i++ {
		if synced(plan.Ops[i]) {
			each(i)
			f.syncNorm(r, programs, plan, i)
			from = i + 1
		}
	}
	each(to)
}

// syncNorm records a synchronized batch norm, or its gradient.
func (f *Fleet) syncNorm(r *recorder, programs []*program, plan *graph.Plan, op int) {
	o := plan.Ops[op]
	places, _ := f.shares(plan)
	shape := o.In[0].Shape
	bytes, images := kernels.NormShare(shape), 0
	at := func(e *Executor, w int) driver.Pointer { return e.shares.at + driver.Pointer(places[o]+w*bytes) }
	from := func(e *Executor) driver.Pointer { // where others read the share of a worker
		if f.staged {
			return e.sentShares.Pointer + driver.Pointer(places[o])
		}
		return at(e, e.index)
	}
	given := make([]mark, len(programs))
	for w, p := range programs {
		images += p.samples()
		if p.plan == nil {
			r.fill(p.e.compute, title(o)+": no share", at(p.e, w), 0, bytes/4)
		} else {
			n := *p.norms[op]
			n.Share = at(p.e, w)
			reduce, _ := p.norm(o, &n)
			r.launch(p.e.compute, title(o)+": share", reduce)
		}
		if f.staged {
			r.copy(p.e.compute, title(o)+": share to the host", from(p.e), at(p.e, w), bytes)
		}
		given[w] = r.mark(p.e.compute)
	}
	for w, p := range programs {
		f.others(w, func(e *Executor) {
			r.wait(p.e.compute, given[e.index])
			r.copy(p.e.compute, fmt.Sprintf("%s: share of worker %d", title(o), e.index), at(p.e, e.index), from(e), bytes)
		})
		n := kernels.Norm{}
		switch {
		case p.plan != nil:
			n = *p.norms[op]
		case o.Kind == graph.BatchNorm: // its running statistics follow those of the others
			b := o.BatchNorm()
			n = kernels.Norm{Shape: shape, Epsilon: o.Attr.Epsilon, Mean: p.e.scratch.at, InvStd: p.e.scratch.at + offset(shape[1]),
				RunningMean: p.address(b.RunningMean), RunningVar: p.address(b.RunningVar)}
		default:
			continue
		}
		set := p.e.device.set
		merge := set.MergeSums
		if o.Kind == graph.BatchNorm {
			merge = set.MergeMoments
			n.Update = o.Attr.RunningUpdate(float64(images))
		}
		launches := []driver.Launch{merge(&n, at(p.e, 0), len(programs))}
		if p.plan != nil {
			_, apply := p.norm(o, &n)
			launches = append(launches, apply)
		}
		r.launch(p.e.compute, title(o), launches...)
	}
}

// norm makes the two launches of a batch norm or of its gradient.
func (p *program) norm(o *graph.Op, n *kernels.Norm) (reduce, apply driver.Launch) {
	if o.Kind == graph.BatchNorm {
		return p.e.device.set.NormForward(n)
	}
	return p.e.device.set.NormBackward(n)
}
