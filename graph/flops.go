package graph

// FLOPs is the arithmetic of an operation: additions, multiplications, comparisons and transcendental functions count 1
// each, so that a multiply-add is 2. A convolution counts its padding as if it were image, as most published figures do.
// What only moves data (Subsample) counts nothing. Batch norm counts per value 1 for the mean, 3 for the variance
// and 2 for the result; backward 1 for dbeta, 3 for dgamma and 4 for dx; a fused ReLU, addition or sum of gradients 1
// more. Apply counts momentum SGD with L2, 6 a value, whatever the learner.
func (o *Op) FLOPs() int {
	result := 0
	if len(o.Out) > 0 {
		result = o.Out[0].Shape.Values()
	}
	switch o.Kind {
	case Conv:
		return 2 * result * o.In[1].Shape[1:].Values()
	case ConvBackwardData:
		return 2 * o.In[1].Shape.Values() * o.In[0].Shape[1:].Values()
	case ConvBackwardWeights:
		return 2 * o.In[1].Shape.Values() * o.Out[0].Shape[1:].Values()
	case BatchNorm, BatchNormInference:
		each := 2
		if o.Kind == BatchNorm {
			each = 6
		}
		return result * (each + one(o.Attr.Addend) + one(o.Attr.ReLU))
	case BatchNormBackward:
		return result * (8 + one(o.Attr.ReLU) + len(o.BatchNormBackward().DY) - 1)
	case ReLU, ReLUBackward, Add, GlobalAveragePoolBackward:
		return result
	case MaxPool:
		return result * o.Attr.Kernel * o.Attr.Kernel
	case MaxPoolBackward:
		return o.In[2].Shape.Values()
	case GlobalAveragePool:
		return o.In[0].Shape.Values()
	case Dense:
		return result * (2*o.In[1].Shape[1] + 1)
	case DenseBackwardData:
		return 2 * result * o.In[0].Shape[0]
	case DenseBackwardWeights:
		return 2*o.In[0].Shape[0]*result + o.In[1].Shape.Values()
	case SoftmaxCrossEntropy: // maximum, difference, exponential, sum, quotient
		return 5 * o.In[0].Shape.Values()
	case Apply:
		n := 0
		for _, t := range o.In {
			n += 6 * t.Shape.Values()
		}
		return n
	}
	return 0
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
