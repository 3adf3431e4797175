package cuda

import (
	"gotrain/cuda/cudnn"
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// convShape is a convolution of x to y.
func convShape(a graph.Attr, x, y graph.Shape) kernels.ConvShape {
	return kernels.ConvShape{N: x[0], H: x[2], W: x[3], C: x[1], K: y[1], Kernel: a.Kernel, Stride: a.Stride, Pad: a.Pad}
}

// product is a convolution of a plan, or a gradient of one.
type product struct {
	pass         cudnn.Pass
	shape        kernels.ConvShape
	math         kernels.Math
	x, weight, y *graph.Tensor // or, where the pass computes or takes gradients, those
}

// productOf returns an operation's, if it is one.
func productOf(p *graph.Plan, o *graph.Op, tf32 bool) (c product, ok bool) {
	switch o.Kind {
	case graph.Conv:
		c = product{pass: cudnn.Forward, x: o.In[0], weight: o.In[1], y: o.Out[0]}
	case graph.ConvBackwardData:
		c = product{pass: cudnn.BackwardData, x: o.Out[0], weight: o.In[0], y: o.In[1]}
	case graph.ConvBackwardWeights:
		c = product{pass: cudnn.BackwardWeights, x: o.In[0], weight: o.Out[0], y: o.In[1]}
	default:
		return c, false
	}
	c.shape, c.math = convShape(o.Attr, c.x.Shape, c.y.Shape), mathOf(p, c.x, tf32)
	return c, true
}

// mathOf is how the convolutions of x multiply. Images are float32 in any precision.
func mathOf(p *graph.Plan, x *graph.Tensor, tf32 bool) kernels.Math {
	switch {
	case p.Precision == graph.BFloat16 && x.DType == graph.Float32:
		return kernels.Mixed
	case p.Precision == graph.BFloat16:
		return kernels.BF16
	case tf32:
		return kernels.TF32
	}
	return kernels.FFMA
}

// launches compute it with the kernels of a set; scratch has scratchBytes.
func (c *product) launches(set *kernels.Set, x, packed, dweight, y, scratch driver.Pointer) []driver.Launch {
	switch c.pass {
	case cudnn.Forward:
		return []driver.Launch{set.ConvForward(c.shape, c.math, x, packed, y)}
	case cudnn.BackwardData:
		return []driver.Launch{set.ConvBackwardData(c.shape, c.math, y, packed, x)}
	}
	return set.ConvBackwardWeights(c.shape, c.math, x, y, dweight, scratch)
}

func (c *product) scratchBytes() int {
	if c.pass == cudnn.BackwardWeights {
		return c.shape.ScratchBytes(c.math)
	}
	return 0
}

// packing is the convolutions of one math, in a table on the device.
type packing struct {
	convs []kernels.PackedConv
	table block
}

// convolutions are the forward convolutions of the plan, with the places of their packed weights. The gradient of a convolution finds
// them by its weight.
func (p *program) convolutions() (order []kernels.Math, by map[kernels.Math]*packing, places map[*graph.Tensor]int, bytes int) {
	by, places = map[kernels.Math]*packing{}, map[*graph.Tensor]int{}
	for _, o := range p.plan.Ops[:p.plan.Forward] {
		if o.Kind != graph.Conv {
			continue
		}
		of, _ := productOf(p.plan, o, p.e.fleet.options.TF32)
		m, c := of.math, of.shape
		if by[m] == nil {
			by[m] = &packing{}
			order = append(order, m)
		}
		places[o.In[1]] = bytes
		by[m].convs = append(by[m].convs, kernels.PackedConv{Shape: c, Math: m, Weights: p.address(o.In[1]), Packed: p.e.packed.at + driver.Pointer(bytes)})
		bytes += align(c.PackedBytes(m))
	}
	return order, by, places, bytes
}

// packWeights lowers the packing of all weights.
func (l *lowering) packWeights() error {
	order, by, places, _ := l.convolutions()
	l.places = places
	for i, m := range order {
		p := by[m]
		table := kernels.PackTable(p.convs)
		if !l.final {
			continue
		}
		at, err := l.e.device.upload(table, l.e.named("table of weights"))
		if err != nil {
			return err
		}
		l.tables = append(l.tables, at)
		l.pack = append(l.pack, l.e.device.set.PackWeights(m, p.convs, l.tables[i]))
	}
	return nil
}

// convolution lowers a convolution or one of its gradients.
func (l *lowering) convolution(o *graph.Op) ([]driver.Launch, error) {
	c, _ := productOf(l.plan, o, l.e.fleet.options.TF32)
	var packed, dweight driver.Pointer
	if c.pass == cudnn.BackwardWeights {
		dweight = l.address(c.weight)
	} else {
		packed = l.e.packed.at + driver.Pointer(l.places[c.weight])
	}
	if lent, err := l.lend(o, &c); err != nil {
		return nil, err
	} else if lent != nil {
		return l.placeLent(lent, &c, packed, dweight), nil
	}
	return c.launches(l.e.device.set, l.address(c.x), packed, dweight, l.address(c.y), l.need(c.scratchBytes())), nil
}
