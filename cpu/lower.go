package cpu

// #include "calls.h"
// #include "onednn.h"
// #include "program.h"
import "C"

import (
	"fmt"
	"unsafe"

	"gotrain/graph"
)

// operation prepares one operation and returns what appends its calls.
func (l *lowering) operation(o *graph.Op) (func() error, error) {
	switch o.Kind {
	case graph.Conv:
		return l.convolution(o, C.GT_FORWARD, o.In[0], o.In[1], o.Out[0])
	case graph.ConvBackwardData:
		return l.convolution(o, C.GT_BACKWARD_DATA, o.Out[0], o.In[0], o.In[1])
	case graph.ConvBackwardWeights:
		return l.convolution(o, C.GT_BACKWARD_WEIGHTS, o.In[0], o.Out[0], o.In[1])
	case graph.BatchNorm, graph.BatchNormInference:
		return l.batchNorm(o)
	case graph.BatchNormBackward:
		return l.batchNormBackward(o)
	case graph.MaxPool, graph.MaxPoolBackward:
		return l.maxPool(o)
	case graph.Dense, graph.DenseBackwardData, graph.DenseBackwardWeights:
		return l.dense(o)
	case graph.SoftmaxCrossEntropy:
		return l.loss(o)
	case graph.Aggregate, graph.Apply: // Exchange.Wait and Executor.Update
		return nil, nil
	}
	return l.simple(o)
}

// simple lowers the operations whose kernels take a few pointers and a shape.
func (l *lowering) simple(o *graph.Op) (func() error, error) {
	x, y := o.In[0], o.Out[0]
	c := C.gt_simple{k: l.kernels, threads: l.threads, n: C.size_t(y.Shape.Values()), stride: C.int(o.Attr.Stride)}
	var run *[0]byte
	switch o.Kind {
	case graph.ReLU:
		run = (*[0]byte)(C.gt_call_relu)
	case graph.ReLUBackward:
		run = (*[0]byte)(C.gt_call_relu_backward)
	case graph.Add:
		run = (*[0]byte)(C.gt_call_add)
	case graph.Subsample:
		run, c.s, c.c_out = (*[0]byte)(C.gt_call_subsample), shape(x), C.int(y.Shape[1])
	case graph.SubsampleBackward: // the shape is always that of the forward operation's input
		run, c.s, c.c_out = (*[0]byte)(C.gt_call_subsample_backward), shape(y), C.int(x.Shape[1])
	case graph.GlobalAveragePool:
		run, c.s = (*[0]byte)(C.gt_call_avgpool), shape(x)
	case graph.GlobalAveragePoolBackward:
		run, c.s = (*[0]byte)(C.gt_call_avgpool_backward), shape(y)
	default:
		return nil, fmt.Errorf("the CPU executor lacks this operation")
	}
	return func() error {
		c.a, c.y = l.address(x), l.address(y)
		if len(o.In) > 1 {
			c.b = l.address(o.In[1])
		}
		C.gt_program_add(l.calls, run, unsafe.Pointer(&c), C.size_t(unsafe.Sizeof(c)))
		return nil
	}, nil
}

// window describes the sliding window of an operation whose forward input is x.
func window(o *graph.Op, x *graph.Tensor) C.gt_window {
	w := C.gt_window{n: C.int(x.Shape[0]), c: C.int(x.Shape[1]), h: C.int(x.Shape[2]), w: C.int(x.Shape[3]),
		kernel: C.int(o.Attr.Kernel), stride: C.int(o.Attr.Stride), pad: C.int(o.Attr.Pad)}
	if x.DType == graph.BFloat16 {
		w.bf16 = 1
	}
	return w
}

// maxPool keeps the workspace that the forward pass leaves for the backward pass in memory of the program.
func (l *lowering) maxPool(o *graph.Op) (func() error, error) {
	w, what := window(o, o.In[0]), C.int(C.GT_FORWARD)
	if o.Kind == graph.MaxPoolBackward {
		what = C.GT_BACKWARD_DATA
	}
	training := C.int(1)
	if l.plan.Inference {
		training = 0
	}
	var q *C.gt_primitive
	if err := status(C.gt_maxpool(l.e.engine, what, w, training, &q), "preparing max pooling"); err != nil {
		return nil, err
	}
	l.own(q)
	l.need(0, int(C.gt_primitive_bytes(q, C.GT_SCRATCHPAD)))
	if what == C.GT_BACKWARD_DATA {
		return func() error {
			return l.bind(q, 0, map[C.int]unsafe.Pointer{C.GT_DIFF_DST: l.address(o.In[2]), C.GT_DIFF_SRC: l.address(o.Out[0]),
				C.GT_WORKSPACE: l.spaces[o.In[1]]})
		}, nil
	}
	if n := int(C.gt_primitive_bytes(q, C.GT_WORKSPACE)); n > 0 {
		b, err := allocate(n, "max pooling")
		if err != nil {
			return nil, err
		}
		l.workspaces = append(l.workspaces, b)
		l.spaces[o.Out[0]] = b.at
	}
	return func() error {
		return l.bind(q, 0, map[C.int]unsafe.Pointer{C.GT_SRC: l.address(o.In[0]), C.GT_DST: l.address(o.Out[0]),
			C.GT_WORKSPACE: l.spaces[o.Out[0]]})
	}, nil
}

func (l *lowering) dense(o *graph.Op) (func() error, error) {
	what, x, weight := C.int(C.GT_FORWARD), o.In[0], o.In[1]
	switch o.Kind {
	case graph.DenseBackwardData:
		what, x, weight = C.GT_BACKWARD_DATA, o.Out[0], o.In[0]
	case graph.DenseBackwardWeights:
		what, weight = C.GT_BACKWARD_WEIGHTS, o.Out[0]
	}
	var q *C.gt_primitive
	out, in := C.int(weight.Shape[0]), C.int(weight.Shape[1])
	if err := status(C.gt_dense(l.e.engine, what, C.int(x.Shape[0]), in, out, &q), "preparing a dense layer"); err != nil {
		return nil, err
	}
	l.own(q)
	l.need(0, int(C.gt_primitive_bytes(q, C.GT_SCRATCHPAD)))
	return func() error {
		at := map[C.int]unsafe.Pointer{}
		switch o.Kind {
		case graph.Dense:
			at[C.GT_SRC], at[C.GT_WEIGHTS], at[C.GT_BIAS], at[C.GT_DST] = l.address(x), l.address(weight), l.address(o.In[2]), l.address(o.Out[0])
		case graph.DenseBackwardData:
			at[C.GT_DIFF_SRC], at[C.GT_WEIGHTS], at[C.GT_DIFF_DST] = l.address(x), l.address(weight), l.address(o.In[1])
		default:
			at[C.GT_SRC], at[C.GT_DIFF_DST] = l.address(x), l.address(o.In[1])
			at[C.GT_DIFF_WEIGHTS], at[C.GT_DIFF_BIAS] = l.address(weight), l.address(o.Out[1])
		}
		return l.bind(q, 0, at)
	}, nil
}

func (l *lowering) loss(o *graph.Op) (func() error, error) {
	logits := o.In[0]
	return func() error {
		c := C.gt_loss_call{logits: (*C.float)(l.address(logits)), labels: (*C.int32_t)(l.address(o.In[1])),
			weight: (*C.float)(l.address(o.In[2])), divisor: (*C.float)(l.address(o.In[3])),
			n: C.int(logits.Shape[0]), classes: C.int(logits.Shape[1]),
			loss: (*C.double)(l.address(o.Out[0])), errors: (*C.double)(l.address(o.Out[1]))}
		if len(o.Out) > 2 {
			c.dlogits = (*C.float)(l.address(o.Out[2]))
		}
		C.gt_program_add(l.calls, (*[0]byte)(C.gt_call_loss), unsafe.Pointer(&c), C.size_t(unsafe.Sizeof(c)))
		return nil
	}, nil
}
