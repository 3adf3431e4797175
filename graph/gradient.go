package graph

import (
	"fmt"
	"slices"
)

// differentiate appends the backward pass: reverse-mode differentiation of the loss, with respect to every parameter.
// Gradients of intermediates that depend on no parameter are not computed.
func (g *Graph) differentiate() error {
	loss, err := g.find(SoftmaxCrossEntropy)
	if err != nil {
		return err
	}
	d := &differentiation{g: g, needs: map[*Tensor]bool{}, parts: map[*Tensor][]*Tensor{}}
	forward := slices.Clone(g.Ops)
	for _, o := range forward {
		for _, t := range o.In {
			if t.Role == Parameter || d.needs[t] {
				for _, y := range o.Out {
					d.needs[y] = true
				}
			}
		}
	}
	logits := loss.In[0]
	start := d.gradient(logits)
	loss.Out = append(loss.Out, start)
	d.parts[logits] = []*Tensor{start}
	for _, o := range slices.Backward(forward) {
		if o == loss {
			continue
		}
		if dy := d.total(o.Out[0]); dy != nil {
			if err := d.backward(o, dy); err != nil {
				return err
			}
		}
	}
	return nil
}

// differentiation is the state of a walk from the loss back to the inputs.
type differentiation struct {
	g     *Graph
	needs map[*Tensor]bool      // tensors that depend on a parameter
	parts map[*Tensor][]*Tensor // what each consumer contributed to the gradient of a tensor
}

// gradient makes a tensor for a part of the gradient of t. Gradients of activations all have the graph's precision: unlike
// the forward pass, the backward pass loses nothing by it.
func (d *differentiation) gradient(t *Tensor) *Tensor {
	role, dtype := Intermediate, t.DType
	if t.Role == Parameter {
		role = ParameterGradient
	} else if len(t.Shape) == 4 {
		dtype = d.g.Precision
	}
	r := d.g.Tensor("d "+t.Name, role, dtype, t.Shape...)
	r.Of = t
	return r
}

// part is gradient, noted as one of the contributions to the gradient of t.
func (d *differentiation) part(t *Tensor) *Tensor {
	r := d.gradient(t)
	d.parts[t] = append(d.parts[t], r)
	return r
}

// total sums the parts of the gradient of t, in the order in which the backward pass made them; nil if there are none.
func (d *differentiation) total(t *Tensor) *Tensor {
	parts := d.parts[t]
	if len(parts) == 0 {
		return nil
	}
	sum := parts[0]
	for _, p := range parts[1:] {
		next := d.gradient(t)
		d.op(&Op{Kind: Add, Name: t.Name}, []*Tensor{sum, p}, next)
		sum = next
	}
	return sum
}

func (d *differentiation) op(o *Op, in []*Tensor, out ...*Tensor) {
	o.Phase, o.In, o.Out = Backward, in, out
	d.g.add(o)
}

// backward appends the operations that carry the gradient dy of o's output to its inputs. Where an operation has a
// gradient by weights and one by data, the weights' comes first: its bucket is ready earlier, and the input is then free.
func (d *differentiation) backward(o *Op, dy *Tensor) error {
	op := func(k Kind, in []*Tensor, out ...*Tensor) {
		d.op(&Op{Kind: k, Name: o.Name, Attr: o.Attr}, in, out...)
	}
	x, y := o.In[0], o.Out[0]
	switch o.Kind {
	case Conv:
		op(ConvBackwardWeights, []*Tensor{x, dy}, d.gradient(o.In[1]))
		if d.needs[x] {
			op(ConvBackwardData, []*Tensor{o.In[1], dy}, d.part(x))
		}
	case Dense:
		op(DenseBackwardWeights, []*Tensor{x, dy}, d.gradient(o.In[1]), d.gradient(o.In[2]))
		if d.needs[x] {
			op(DenseBackwardData, []*Tensor{o.In[1], dy}, d.part(x))
		}
	case BatchNorm:
		b := o.BatchNorm()
		in := []*Tensor{x, b.Gamma, b.Beta, b.Mean, b.InvStd}
		if o.Attr.ReLU {
			in = append(in, y)
		}
		out := []*Tensor{d.part(x), d.gradient(b.Gamma), d.gradient(b.Beta)}
		if o.Attr.Addend {
			out = append(out, d.part(b.Addend))
		}
		op(BatchNormBackward, append(in, dy), out...)
	case ReLU:
		op(ReLUBackward, []*Tensor{y, dy}, d.part(x))
	case Add: // the gradient of both is dy itself
		for _, t := range o.In {
			if d.needs[t] {
				d.parts[t] = append(d.parts[t], dy)
			}
		}
	case Subsample:
		op(SubsampleBackward, []*Tensor{dy}, d.part(x))
	case MaxPool:
		op(MaxPoolBackward, []*Tensor{x, y, dy}, d.part(x))
	case GlobalAveragePool:
		op(GlobalAveragePoolBackward, []*Tensor{dy}, d.part(x))
	default:
		return fmt.Errorf("%s: %s has no gradient", o.Name, o.Kind)
	}
	return nil
}
