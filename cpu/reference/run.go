// Package reference runs plans in plain Go and float64, one function an operation. It is the definition of each
// operation and the oracle of the tests: read it to learn what an operation computes, and compare a fast executor with it.
//
// It is not fast, and rounds nothing within a step: a plan in bfloat16 runs as the same plan in float32 would. Only the
// arenas are float32, so that parameters, gradients, moments and statistics are rounded once a step.
//
// Formulas are those of the papers that package graph names beside each operation.
package reference

import (
	"fmt"

	"gotrain/graph"
)

// Run computes an operation from the values of its operands, in the order of their shapes, slowest extent first; a scalar
// is one value, and labels are whole numbers. It writes the results into the slices that values holds for them, and adds
// slices for those that it lacks. A batch norm also updates its running statistics in place. What may share memory by the
// memory plan may share a slice here. Apply has no values: see Update. A synchronized batch norm runs as that of one worker.
func Run(o *graph.Op, values map[*graph.Tensor][]float64) {
	for _, t := range o.Out {
		if values[t] == nil {
			values[t] = make([]float64, t.Shape.Values())
		}
	}
	in := func(i int) []float64 { return values[o.In[i]] }
	out := func(i int) []float64 { return values[o.Out[i]] }
	switch o.Kind {
	case graph.Conv:
		conv(taps{o.In[0].Shape, o.Out[0].Shape, o.Attr}, in(0), in(1), out(0))
	case graph.ConvBackwardData:
		convBackwardData(taps{o.Out[0].Shape, o.In[1].Shape, o.Attr}, in(0), in(1), out(0))
	case graph.ConvBackwardWeights:
		convBackwardWeights(taps{o.In[0].Shape, o.In[1].Shape, o.Attr}, in(0), in(1), out(0))
	case graph.BatchNorm:
		batchNorm(o, values)
	case graph.BatchNormInference:
		batchNormInference(o, values)
	case graph.BatchNormBackward:
		batchNormBackward(o, values)
	case graph.ReLU:
		relu(in(0), out(0))
	case graph.ReLUBackward:
		reluBackward(in(0), in(1), out(0))
	case graph.Add:
		add(in(0), in(1), out(0))
	case graph.Subsample:
		subsample(o.In[0].Shape, o.Out[0].Shape, o.Attr.Stride, in(0), out(0))
	case graph.SubsampleBackward:
		subsampleBackward(o.Out[0].Shape, o.In[0].Shape, o.Attr.Stride, in(0), out(0))
	case graph.MaxPool:
		maxPool(taps{o.In[0].Shape, o.Out[0].Shape, o.Attr}, in(0), out(0))
	case graph.MaxPoolBackward:
		maxPoolBackward(taps{o.In[0].Shape, o.In[1].Shape, o.Attr}, in(0), in(1), in(2), out(0))
	case graph.GlobalAveragePool:
		averagePool(in(0), out(0))
	case graph.GlobalAveragePoolBackward:
		averagePoolBackward(in(0), out(0))
	case graph.Dense:
		dense(in(0), in(1), in(2), out(0))
	case graph.DenseBackwardData:
		denseBackwardData(o.Out[0].Shape, in(0), in(1), out(0))
	case graph.DenseBackwardWeights:
		denseBackwardWeights(o.In[0].Shape, in(0), in(1), out(0), out(1))
	case graph.SoftmaxCrossEntropy:
		var dlogits []float64
		if len(o.Out) == 3 {
			dlogits = out(2)
		}
		out(0)[0], out(1)[0] = crossEntropy(o.In[0].Shape[1], in(0), in(1), in(2), in(3)[0], dlogits)
	default:
		panic(fmt.Sprintf("reference: %s has no values", o.Kind))
	}
}
