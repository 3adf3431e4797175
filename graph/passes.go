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

// producers gives, for each tensor, the operation that writes it.
func (g *Graph) producers() map[*Tensor]*Op {
	p := map[*Tensor]*Op{}
	for _, o := range g.Ops {
		for _, t := range o.Out {
			p[t] = o
		}
	}
	return p
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
	for i := 0; i < len(g.Ops); i++ {
		o := g.Ops[i]
		if o.Kind != Add && o.Kind != ReLU {
			continue
		}
		consumers, producers := g.consumers(), g.producers()
		// Of two candidates for an addition the later one is taken: the other operand is then there.
		var norm *Op
		for _, x := range o.In {
			p := producers[x]
			if p == nil || p.Kind != BatchNorm && p.Kind != BatchNormInference || len(consumers[x]) != 1 || p.Attr.ReLU {
				continue
			}
			if o.Kind == Add && (p.Attr.Addend || o.In[0] == o.In[1]) {
				continue
			}
			if norm == nil || slices.Index(g.Ops, p) > slices.Index(g.Ops, norm) {
				norm = p
			}
		}
		if norm == nil {
			continue
		}
		if o.Kind == Add {
			other := o.In[0]
			if other == norm.Out[0] {
				other = o.In[1]
			}
			norm.In, norm.Attr.Addend = append(norm.In, other), true
		} else {
			norm.Attr.ReLU = true
		}
		norm.fuse(o)
		norm.Out[0] = o.Out[0]
		// The batch norm moves to the place of what it swallowed, behind all of its operands.
		at := slices.Index(g.Ops, norm)
		g.Ops = slices.Delete(g.Ops, at, at+1)
		i--
		g.Ops[i] = norm
	}
}

// fuseGradientSums folds the addition of two gradients into the batch norm's backward pass that alone reads the sum.
func (g *Graph) fuseGradientSums() {
	for i := 0; i < len(g.Ops); i++ {
		sum := g.Ops[i]
		if sum.Kind != Add || sum.Phase != Backward {
			continue
		}
		readers := g.consumers()[sum.Out[0]]
		if len(readers) != 1 || readers[0].Kind != BatchNormBackward || len(readers[0].BatchNormBackward().DY) != 1 {
			continue
		}
		norm := readers[0]
		norm.In = append(norm.In[:len(norm.In)-1:len(norm.In)-1], sum.In...)
		norm.fuse(sum)
		g.Ops = slices.Delete(g.Ops, i, i+1)
		i--
	}
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
