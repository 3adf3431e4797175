package graph

import "slices"

// consumers lists, for each tensor, the operations that read it, in order.
func (g *Graph) consumers() map[*Tensor][]*Op {
	c := map[*Tensor][]*Op{}
	for _, o := range g.Ops {
		for _, t := range o.In {
			c[t] = append(c[t], o)
		}
	}
	return c
}

func (o *Op) fuse(with *Op) {
	if o.Fused == nil {
		o.Fused = []string{o.Kind.String()}
	}
	o.Fused = append(o.Fused, with.Kind.String())
}

// fuseForward folds additions and ReLUs into the batch norm whose result only they read. It runs before the graph is
// differentiated, so that the backward pass is fused with it: what a fused operation saves is one read and one write of
// an activation for each operation folded in, in both directions.
func (g *Graph) fuseForward() {
	consumers := g.consumers()
	norms := map[*Tensor]int{} // places of the batch norms that can still take something in, by their results
	for i, o := range g.Ops {
		switch o.Kind {
		case BatchNorm, BatchNormInference:
			norms[o.Out[0]] = i
			continue
		case Add, ReLU:
		default:
			continue
		}
		// Of two candidates for an addition the later one is taken: the other operand is then there.
		at := -1
		for _, x := range o.In {
			k, ok := norms[x]
			if ok && len(consumers[x]) == 1 && (o.Kind == ReLU || !g.Ops[k].Attr.Addend) {
				at = max(at, k)
			}
		}
		if at < 0 {
			continue
		}
		// The batch norm moves to the place of what it swallows, behind all of its operands.
		norm := g.Ops[at]
		g.Ops[at], g.Ops[i] = nil, norm
		delete(norms, norm.Out[0])
		norm.fuse(o)
		if o.Kind == Add {
			other := o.In[0]
			if other == norm.Out[0] {
				other = o.In[1]
			}
			norm.In, norm.Attr.Addend = append(norm.In, other), true
			norms[o.Out[0]] = i
		} else {
			norm.Attr.ReLU = true // nothing goes behind it
		}
		norm.Out[0] = o.Out[0]
	}
	g.Ops = slices.DeleteFunc(g.Ops, func(o *Op) bool { return o == nil })
}

// fuseGradientSums folds the addition of two gradients into the batch norm's backward pass that alone reads the sum.
func (g *Graph) fuseGradientSums() {
	consumers := g.consumers()
	g.Ops = slices.DeleteFunc(g.Ops, func(sum *Op) bool {
		if sum.Kind != Add || sum.Phase != Backward {
			return false
		}
		readers := consumers[sum.Out[0]]
		if len(readers) != 1 || readers[0].Kind != BatchNormBackward || len(readers[0].BatchNormBackward().DY) != 1 {
			return false
		}
		norm := readers[0]
		norm.In = append(norm.In[:len(norm.In)-1:len(norm.In)-1], sum.In...)
		norm.fuse(sum)
		return true
	})
}

// dropDead removes operations none of whose results is used, and tensors that no operation touches.
func (g *Graph) dropDead() {
	live := map[*Tensor]bool{}
	var kept []*Op
	for _, o := range slices.Backward(g.Ops) {
		used := o.Kind == Apply || o.Kind == BatchNorm // the latter for its running statistics
		for _, t := range o.Out {
			used = used || live[t] || t.Role == Output || t.Role == ParameterGradient
		}
		if !used {
			continue
		}
		kept = append(kept, o)
		for _, t := range o.In {
			live[t] = true
		}
		for _, t := range o.Out {
			live[t] = true
		}
	}
	slices.Reverse(kept)
	g.Ops = kept
	g.Tensors = slices.DeleteFunc(g.Tensors, func(t *Tensor) bool {
		return !live[t] && (t.Role == Intermediate || t.Role == ParameterGradient)
	})
	for i, t := range g.Tensors {
		t.ID = i
	}
}
