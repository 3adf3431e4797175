package cuda

import (
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// convShape is a convolution of x to y.
func convShape(a graph.Attr, x, y graph.Shape) kernels.ConvShape {
	return kernels.ConvShape{N: x[0], H: x[2], W: x[3], C: x[1], K: y[1], Kernel: a.Kernel, Stride: a.Stride, Pad: a.Pad}
}

// math is how the convolutions of x multiply. Images are float32 in any precision.
func (p *program) math(x *graph.Tensor) kernels.Math {
	switch {
	case p.plan.Precision == graph.BFloat16 && x.DType == graph.Float32:
		return kernels.Mixed
	case p.plan.Precision == graph.BFloat16:
		return kernels.BF16
	case p.e.fleet.options.TF32:
		return kernels.TF32
	}
	return kernels.FFMA
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
		m, c := p.math(o.In[0]), convShape(o.Attr, o.In[0].Shape, o.Out[0].Shape)
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
	set, at := l.e.device.set, l.address
	packed := func(weight *graph.Tensor) driver.Pointer { return l.e.packed.at + driver.Pointer(l.places[weight]) }
	switch o.Kind {
	case graph.Conv:
		x, y := o.In[0], o.Out[0]
		return []driver.Launch{set.ConvForward(convShape(o.Attr, x.Shape, y.Shape), l.math(x), at(x), packed(o.In[1]), at(y))}, nil
	case graph.ConvBackwardData:
		dy, dx := o.In[1], o.Out[0]
		return []driver.Launch{set.ConvBackwardData(convShape(o.Attr, dx.Shape, dy.Shape), l.math(dx), at(dy), packed(o.In[0]), at(dx))}, nil
	}
	x, dy := o.In[0], o.In[1]
	c, m := convShape(o.Attr, x.Shape, dy.Shape), l.math(x)
	return set.ConvBackwardWeights(c, m, at(x), at(dy), at(o.Out[0]), l.need(c.ScratchBytes(m))), nil
}
