package graph

import (
	"errors"
	"fmt"
)

// Graph is a list of operations in an order in which they can run, and of the tensors that they read and write.
//
// It is built by calling the methods named after operations, each of which infers the shape of its result. The first
// call that cannot work (a kernel larger than its input, say) leaves an error in Err, and what follows it is void.
type Graph struct {
	Ops       []*Op
	Tensors   []*Tensor
	Precision DType // of activations and their gradients: Float32 or BFloat16; convolutions give Float32 always
	inputs    Inputs
	err       error
}

// New returns an empty graph whose activations have the given type.
func New(precision DType) *Graph { return &Graph{Precision: precision} }

// Err returns the first fault of the calls that built the graph.
func (g *Graph) Err() error { return g.err }

func (g *Graph) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}

// Tensor adds a tensor that no operation of the graph produces: an input, a parameter or a statistic.
func (g *Graph) Tensor(name string, role Role, dtype DType, shape ...int) *Tensor {
	for _, e := range shape {
		if e <= 0 {
			g.fail("%s: shape %s has an extent below 1", name, Shape(shape))
		}
	}
	t := &Tensor{ID: len(g.Tensors), Name: name, Role: role, DType: dtype, Shape: shape}
	g.Tensors = append(g.Tensors, t)
	return t
}

func (g *Graph) add(o *Op) *Op {
	g.Ops = append(g.Ops, o)
	return o
}

func (g *Graph) op(kind Kind, name string, attr Attr, in []*Tensor, out ...*Tensor) {
	g.add(&Op{Kind: kind, Name: name, Attr: attr, In: in, Out: out})
}

// window is the extent of the result of a sliding window, as in Dumoulin and Visin, "A guide to convolution arithmetic
// for deep learning" (2016), relationship 6.
func (g *Graph) window(name string, extent, kernel, stride, pad int) int {
	if extent+2*pad < kernel {
		g.fail("%s: a window of %d does not fit an image side of %d with padding %d; use larger images", name, kernel, extent, pad)
		return 1
	}
	return (extent+2*pad-kernel)/stride + 1
}

// Conv is a convolution of x [N][C][H][W] with a new parameter name.weight [out][C][kernel][kernel], without bias. Its
// result is Float32 in any precision, and so are images: what is rounded before batch norm flips ReLUs, and with them
// whole gradients. In BFloat16, batch norm has to follow.
func (g *Graph) Conv(name string, x *Tensor, out, kernel, stride, pad int) *Tensor {
	n, c, h, w := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	weight := g.Tensor(name+".weight", Parameter, Float32, out, c, kernel, kernel)
	y := g.Tensor(name, Intermediate, Float32, n, out, g.window(name, h, kernel, stride, pad), g.window(name, w, kernel, stride, pad))
	g.op(Conv, name, Attr{Kernel: kernel, Stride: stride, Pad: pad}, []*Tensor{x, weight}, y)
	return y
}

// Norm is the setting of batch normalization.
type Norm struct {
	Epsilon   float64 // added to the variance
	Update    float64 // weight of a batch in the running statistics
	Inference bool    // normalize with the running statistics, and leave them alone
	Sync      bool    // in training, normalize over the images of all workers

	// TimeConstant, where not 0, takes Update's place: that is 1-exp(-images/TimeConstant) then.
	TimeConstant float64
}

// BatchNorm normalizes each channel of x, with new parameters name.gamma and name.beta and statistics name.runningMean
// and name.runningVar.
func (g *Graph) BatchNorm(name string, x *Tensor, norm Norm) *Tensor {
	c := x.Shape[1]
	in := []*Tensor{x, g.Tensor(name+".gamma", Parameter, Float32, c), g.Tensor(name+".beta", Parameter, Float32, c),
		g.Tensor(name+".runningMean", Statistic, Float32, c), g.Tensor(name+".runningVar", Statistic, Float32, c)}
	if x.DType != Float32 {
		g.fail("%s: batch norm reads the result of a convolution, not %s", name, x)
	}
	y := g.Tensor(name, Intermediate, g.Precision, x.Shape...)
	attr := Attr{Epsilon: norm.Epsilon, Update: norm.Update, TimeConstant: norm.TimeConstant, Sync: norm.Sync && !norm.Inference}
	attr.Update = attr.RunningUpdate(float64(x.Shape[0]))
	if norm.Inference {
		g.op(BatchNormInference, name, attr, in, y)
	} else {
		g.op(BatchNorm, name, attr, in, y, g.Tensor(name+".mean", Intermediate, Float32, c), g.Tensor(name+".invStd", Intermediate, Float32, c))
	}
	return y
}

// activation refuses an operand of an elementwise operation or a pooling that a convolution has left in Float32.
func (g *Graph) activation(name string, x *Tensor) {
	if x.DType != g.Precision {
		g.fail("%s: %s is %s in a graph of %s: batch norm has to follow a convolution", name, x, x.DType, g.Precision)
	}
}

// ReLU is max(x, 0).
func (g *Graph) ReLU(name string, x *Tensor) *Tensor {
	g.activation(name, x)
	y := g.Tensor(name, Intermediate, x.DType, x.Shape...)
	g.op(ReLU, name, Attr{}, []*Tensor{x}, y)
	return y
}

// Add is a + b.
func (g *Graph) Add(name string, a, b *Tensor) *Tensor {
	g.activation(name, a)
	g.activation(name, b)
	if !a.Shape.Equal(b.Shape) {
		g.fail("%s: cannot add %s and %s", name, a, b)
	}
	y := g.Tensor(name, Intermediate, a.DType, a.Shape...)
	g.op(Add, name, Attr{}, []*Tensor{a, b}, y)
	return y
}

// Subsample takes every stride-th row and column of x and appends zero channels up to `channels`.
func (g *Graph) Subsample(name string, x *Tensor, channels, stride int) *Tensor {
	g.activation(name, x)
	if channels < x.Shape[1] {
		g.fail("%s: cannot subsample %s to %d channels", name, x, channels)
	}
	y := g.Tensor(name, Intermediate, x.DType, x.Shape[0], channels, (x.Shape[2]-1)/stride+1, (x.Shape[3]-1)/stride+1)
	g.op(Subsample, name, Attr{Stride: stride}, []*Tensor{x}, y)
	return y
}

// MaxPool takes the maximum over sliding windows.
func (g *Graph) MaxPool(name string, x *Tensor, kernel, stride, pad int) *Tensor {
	g.activation(name, x)
	y := g.Tensor(name, Intermediate, x.DType, x.Shape[0], x.Shape[1], g.window(name, x.Shape[2], kernel, stride, pad), g.window(name, x.Shape[3], kernel, stride, pad))
	g.op(MaxPool, name, Attr{Kernel: kernel, Stride: stride, Pad: pad}, []*Tensor{x}, y)
	return y
}

// GlobalAveragePool is the mean over each channel: [N][C][H][W] to [N][C].
func (g *Graph) GlobalAveragePool(name string, x *Tensor) *Tensor {
	g.activation(name, x)
	y := g.Tensor(name, Intermediate, Float32, x.Shape[0], x.Shape[1])
	g.op(GlobalAveragePool, name, Attr{}, []*Tensor{x}, y)
	return y
}

// Dense is x weight' + bias, with new parameters name.weight [out][in] and name.bias [out].
func (g *Graph) Dense(name string, x *Tensor, out int) *Tensor {
	in := x.Shape[1]
	w, b := g.Tensor(name+".weight", Parameter, Float32, out, in), g.Tensor(name+".bias", Parameter, Float32, out)
	y := g.Tensor(name, Intermediate, Float32, x.Shape[0], out)
	g.op(Dense, name, Attr{}, []*Tensor{x, w, b}, y)
	return y
}

// Inputs are the tensors that a batch fills.
type Inputs struct{ Images, Labels, Weights, Divisor *Tensor }

// Inputs adds the inputs for n images of c channels, h rows and w columns.
func (g *Graph) Inputs(n, c, h, w int) Inputs {
	g.inputs = Inputs{
		Images:  g.Tensor("images", Input, Float32, n, c, h, w),
		Labels:  g.Tensor("labels", Input, Int32, n),
		Weights: g.Tensor("weights", Input, Float32, n),
		Divisor: g.Tensor("divisor", Input, Float32),
	}
	return g.inputs
}

// Loss ends the forward graph: softmax cross-entropy of the logits and the count of errors.
func (g *Graph) Loss(logits *Tensor, in Inputs) {
	logits.Role = Output
	g.op(SoftmaxCrossEntropy, "loss", Attr{}, []*Tensor{logits, in.Labels, in.Weights, in.Divisor},
		g.Tensor("loss", Output, Float64), g.Tensor("errors", Output, Float64))
}

// find returns the single operation of a kind.
func (g *Graph) find(kind Kind) (*Op, error) {
	var found *Op
	for _, o := range g.Ops {
		if o.Kind == kind {
			if found != nil {
				return nil, fmt.Errorf("the graph has several operations %q", kind)
			}
			found = o
		}
	}
	if found == nil {
		return nil, errors.New("the graph has no operation " + kind.String())
	}
	return found, nil
}
