package graph

import "slices"

// Kind is what an operation computes. The plain Go executor in cpu/reference is the definition of each.
type Kind uint8

// The operations. In and Out list their operands in the order given here; operands in brackets can be missing.
const (
	// Conv: x, weight -> y.
	Conv Kind = iota
	// ConvBackwardData: weight, dy -> dx.
	ConvBackwardData
	// ConvBackwardWeights: x, dy -> dweight.
	ConvBackwardWeights
	// BatchNorm with the statistics of the batch: see BatchNormOperands.
	BatchNorm
	// BatchNormInference with the running statistics: see BatchNormOperands; it has no Mean and InvStd.
	BatchNormInference
	// BatchNormBackward: see BatchNormBackwardOperands.
	BatchNormBackward
	// ReLU: x -> y.
	ReLU
	// ReLUBackward: y, dy -> dx = dy where y > 0, else 0.
	ReLUBackward
	// Add: a, b -> a + b.
	Add
	// Subsample: x -> y, every Stride-th row and column; channels that x lacks are zero. Shortcut A of He et al. 2015.
	Subsample
	// SubsampleBackward: dy -> dx.
	SubsampleBackward
	// MaxPool: x -> y; padding never wins.
	MaxPool
	// MaxPoolBackward: x, y, dy -> dx; the first of equal values takes the gradient.
	MaxPoolBackward
	// GlobalAveragePool: x [N][C][H][W] -> y [N][C], float32.
	GlobalAveragePool
	// GlobalAveragePoolBackward: dy -> dx.
	GlobalAveragePoolBackward
	// Dense: x [N][in], weight [out][in], bias [out] -> y [N][out] = x weight' + bias.
	Dense
	// DenseBackwardData: weight, dy -> dx.
	DenseBackwardData
	// DenseBackwardWeights: x, dy -> dweight, dbias.
	DenseBackwardWeights
	// SoftmaxCrossEntropy: logits, labels, weights, divisor -> loss, errors[, dlogits]. loss and errors are sums over the
	// samples, each times its weight; dlogits is the gradient of loss / divisor.
	SoftmaxCrossEntropy
	// Aggregate: every parameter gradient -> nothing; the gradient arena then holds the aggregate of all workers. It is where
	// a step waits for its Exchange, which has begun with the first bucket.
	Aggregate
	// Apply: every parameter gradient -> nothing; updates the arenas by the learner's rule.
	Apply
	kinds
)

var kindNames = [kinds]string{"conv", "conv backward data", "conv backward weights", "batch norm",
	"batch norm inference", "batch norm backward", "relu", "relu backward", "add", "subsample", "subsample backward",
	"max pool", "max pool backward", "average pool", "average pool backward", "dense", "dense backward data",
	"dense backward weights", "softmax cross-entropy", "aggregate", "update"}

func (k Kind) String() string { return kindNames[k] }

// Phase is the part of a step that an operation belongs to.
type Phase uint8

// The phases, in the order in which a step runs them.
const (
	Forward Phase = iota
	Backward
	Updating
)

func (p Phase) String() string { return [...]string{"forward", "backward", "update"}[p] }

// Attr holds the constants of an operation; each kind uses some.
type Attr struct {
	Kernel, Stride, Pad int     // Conv and its gradients, MaxPool; Stride also Subsample
	ReLU                bool    // BatchNorm, BatchNormInference, BatchNormBackward: a fused ReLU
	Addend              bool    // the same: a fused addition before it
	Epsilon             float64 // batch norm: added to the variance
	Update              float64 // batch norm: running = (1-Update)*running + Update*batch's
	TimeConstant        float64 // batch norm: where not 0, Update is 1-exp(-images/TimeConstant)
	Sync                bool    // BatchNorm, BatchNormBackward: over the images of all workers, see Share
}

// Op is an operation on tensors.
type Op struct {
	Kind    Kind
	Name    string // of the layer it belongs to
	Phase   Phase
	Attr    Attr
	In, Out []*Tensor
	Fused   []string // the operations that a pass fused into this one, in order, it included; nil for an unfused one
}

// BatchNormOperands names the operands of BatchNorm and BatchNormInference:
// Y = relu?(Gamma * (X - Mean) * InvStd + Beta + Addend?), InvStd = 1/sqrt(variance + Epsilon) with the biased variance
// (Ioffe and Szegedy 2015). BatchNorm updates RunningMean and RunningVar in place, the latter with the unbiased variance
// where a channel has more than one value. With Attr.Sync, mean and variance are those of all workers' images.
type BatchNormOperands struct {
	X, Gamma, Beta, RunningMean, RunningVar, Addend *Tensor // Addend may be nil
	Y, Mean, InvStd                                 *Tensor // Mean and InvStd are nil in inference
}

// BatchNorm returns the operands of a BatchNorm or BatchNormInference.
func (o *Op) BatchNorm() BatchNormOperands {
	b := BatchNormOperands{X: o.In[0], Gamma: o.In[1], Beta: o.In[2], RunningMean: o.In[3], RunningVar: o.In[4], Y: o.Out[0]}
	if o.Attr.Addend {
		b.Addend = o.In[5]
	}
	if o.Kind == BatchNorm {
		b.Mean, b.InvStd = o.Out[1], o.Out[2]
	}
	return b
}

// BatchNormBackwardOperands names the operands of BatchNormBackward. The gradient of the output is the sum of DY; g is
// that sum, zeroed where a fused ReLU's output Y is not positive; without a fused addition Y follows from X, so that an
// executor may compute it from Gamma, Beta, Mean and InvStd instead of reading it. DAddend = g, and DX, DGamma, DBeta follow from g.
// With Attr.Sync, DX takes the sums over all workers' images, and DGamma and DBeta stay this worker's: they are aggregated
// like any gradient.
type BatchNormBackwardOperands struct {
	X, Gamma, Beta, Mean, InvStd, Y *Tensor   // Y is nil without a ReLU
	DY                              []*Tensor // one or two
	DX, DGamma, DBeta, DAddend      *Tensor   // DAddend is nil without an addition
}

// BatchNormBackward returns the operands of a BatchNormBackward.
func (o *Op) BatchNormBackward() BatchNormBackwardOperands {
	b := BatchNormBackwardOperands{X: o.In[0], Gamma: o.In[1], Beta: o.In[2], Mean: o.In[3], InvStd: o.In[4], DY: o.In[5:],
		DX: o.Out[0], DGamma: o.Out[1], DBeta: o.Out[2]}
	if o.Attr.ReLU {
		b.Y, b.DY = o.In[5], o.In[6:]
	}
	if o.Attr.Addend {
		b.DAddend = o.Out[3]
	}
	return b
}

// inPlace lists the pairs (index of an output, index of an input) of an operation that may share memory where the input
// is not read afterwards; earlier pairs are better. An output and an input serve one pair each.
func (o *Op) inPlace() [][2]int {
	switch o.Kind {
	case ReLU, Add:
		return [][2]int{{0, 0}, {0, len(o.In) - 1}}
	case ReLUBackward:
		return [][2]int{{0, 1}}
	case BatchNormInference:
		return [][2]int{{0, 0}}
	case BatchNormBackward:
		first := len(o.In) - len(o.BatchNormBackward().DY)
		if o.Attr.Addend {
			return [][2]int{{3, len(o.In) - 1}, {3, first}, {0, first}}
		}
		return [][2]int{{0, first}}
	}
	return nil
}

// replace puts one operand in another's place.
func (o *Op) replace(old, new *Tensor) {
	for i, t := range o.In {
		if t == old {
			o.In[i] = new
		}
	}
}

func (o *Op) reads(t *Tensor) bool { return slices.Contains(o.In, t) }
