package cuda

import (
	"errors"
	"fmt"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// load lowers what makes the images.
func (l *lowering) load() error {
	in, e := l.plan.Inputs, l.e
	if e.gathers(l.plan) {
		l.images = append(l.images, e.device.set.Gather(in.Images.DType, in.Images.Shape, e.device.resident.Resident,
			e.inputs.at+driver.Pointer(l.slot.samples), l.address(in.Images), l.address(in.Labels)))
		return nil
	}
	l.images = append(l.images, e.device.set.Interleave(in.Images.DType, in.Images.Shape, e.inputs.at+driver.Pointer(l.slot.images), l.address(in.Images)))
	return nil
}

// offset is the distance of so many float32.
func offset(values int) driver.Pointer { return driver.Pointer(4 * values) }

// operation returns the launches of an operation.
func (l *lowering) operation(o *graph.Op) ([]driver.Launch, error) {
	set, at := l.e.device.set, l.address
	one := func(d driver.Launch) ([]driver.Launch, error) { return []driver.Launch{d}, nil }
	switch o.Kind {
	case graph.Conv, graph.ConvBackwardData, graph.ConvBackwardWeights:
		return l.convolution(o)
	case graph.BatchNorm, graph.BatchNormInference:
		return l.batchNorm(o)
	case graph.BatchNormBackward:
		return l.batchNormBackward(o)
	case graph.SoftmaxCrossEntropy:
		return l.loss(o)
	case graph.Aggregate, graph.Apply: // they are recorded with the step
		return nil, nil
	}
	x, y := o.In[0], o.Out[0]
	switch o.Kind {
	case graph.ReLU:
		return one(set.ReLU(x.DType, x.Shape, at(x), at(y)))
	case graph.ReLUBackward: // y, dy -> dx
		return one(set.ReLUBackward(x.DType, x.Shape, at(x), at(o.In[1]), at(y)))
	case graph.Add:
		return one(set.Add(x.DType, x.Shape, at(x), at(o.In[1]), at(y)))
	case graph.Subsample:
		return one(set.Subsample(x.DType, x.Shape, y.Shape, o.Attr, at(x), at(y)))
	case graph.SubsampleBackward: // dy -> dx
		return one(set.SubsampleBackward(x.DType, y.Shape, x.Shape, o.Attr, at(x), at(y)))
	case graph.MaxPool:
		return one(set.MaxPool(x.DType, x.Shape, y.Shape, o.Attr, at(x), at(y)))
	case graph.MaxPoolBackward: // x, y, dy -> dx
		return one(set.MaxPoolBackward(x.DType, x.Shape, o.In[1].Shape, o.Attr, at(x), at(o.In[1]), at(o.In[2]), at(y)))
	case graph.GlobalAveragePool:
		return one(set.AveragePool(x.DType, x.Shape, at(x), at(y)))
	case graph.GlobalAveragePoolBackward: // dy -> dx
		return one(set.AveragePoolBackward(y.DType, y.Shape, at(x), at(y)))
	case graph.Dense:
		return one(set.Dense(x.Shape[0], x.Shape[1], y.Shape[1], at(x), at(o.In[1]), at(o.In[2]), at(y)))
	case graph.DenseBackwardData: // weight, dy -> dx
		return one(set.DenseBackwardData(y.Shape[0], y.Shape[1], x.Shape[0], at(x), at(o.In[1]), at(y)))
	case graph.DenseBackwardWeights: // x, dy -> dweight, dbias
		return one(set.DenseBackwardWeights(x.Shape[0], x.Shape[1], y.Shape[0], at(x), at(o.In[1]), at(y), at(o.Out[1])))
	}
	return nil, errors.New("the CUDA executor lacks this operation")
}

// startNorm starts a batch norm over x.
func (l *lowering) startNorm(o *graph.Op, x *graph.Tensor, t graph.DType) (*kernels.Norm, error) {
	if n := 4 * kernels.NormTickets(x.Shape); n > ticketBytes {
		return nil, fmt.Errorf("%d channels are too many", x.Shape[1])
	}
	return &kernels.Norm{T: t, Shape: x.Shape, X: l.address(x), ReLU: o.Attr.ReLU, Epsilon: o.Attr.Epsilon, Update: o.Attr.Update,
		Scratch: l.need(kernels.NormScratch(x.Shape)), Tickets: l.e.tickets.at}, nil
}

func (l *lowering) batchNorm(o *graph.Op) ([]driver.Launch, error) {
	b := o.BatchNorm()
	n, err := l.startNorm(o, b.X, b.Y.DType)
	if err != nil {
		return nil, err
	}
	n.Gamma, n.Beta, n.Y = l.address(b.Gamma), l.address(b.Beta), l.address(b.Y)
	n.RunningMean, n.RunningVar = l.address(b.RunningMean), l.address(b.RunningVar)
	if b.Addend != nil {
		n.Addend = l.address(b.Addend)
	}
	if o.Kind == graph.BatchNormInference {
		return []driver.Launch{l.e.device.set.NormInference(n)}, nil
	}
	n.Mean, n.InvStd = l.address(b.Mean), l.address(b.InvStd)
	return l.finishNorm(o, n)
}

// finishNorm makes the launches, and keeps what a synchronized batch norm of several workers makes its own of.
func (l *lowering) finishNorm(o *graph.Op, n *kernels.Norm) ([]driver.Launch, error) {
	if synced(o) {
		l.norms[len(l.launches)] = n
	}
	reduce, apply := l.norm(o, n)
	return []driver.Launch{reduce, apply}, nil
}

func (l *lowering) batchNormBackward(o *graph.Op) ([]driver.Launch, error) {
	b := o.BatchNormBackward()
	n, err := l.startNorm(o, b.X, b.DX.DType)
	if err != nil {
		return nil, err
	}
	n.Gamma, n.Beta, n.Mean, n.InvStd = l.address(b.Gamma), l.address(b.Beta), l.address(b.Mean), l.address(b.InvStd)
	n.DX, n.DGamma, n.DBeta = l.address(b.DX), l.address(b.DGamma), l.address(b.DBeta)
	if b.DAddend != nil {
		n.DAddend = l.address(b.DAddend)
		if b.Y != nil { // without an addition x tells which values passed
			n.Y = l.address(b.Y)
		}
	}
	for _, dy := range b.DY {
		n.DY = append(n.DY, l.address(dy))
	}
	return l.finishNorm(o, n)
}
