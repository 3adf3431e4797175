package cpu

// #include "calls.h"
// #include "program.h"
//
// static size_t gt_norm_scratch(const gt_kernels *k, gt_shape s, int threads) { return k->bn_scratch(s, threads); }
import "C"

import (
	"unsafe"

	"gotrain/graph"
)

// norm starts the arguments of a batch norm over x, and returns where scratch memory is free.
func (l *lowering) norm(o *graph.Op, x *graph.Tensor) (b C.gt_batchnorm, end int) {
	b.s, b.threads = shape(x), l.threads
	b.epsilon, b.update = C.float(o.Attr.Epsilon), C.float(o.Attr.Update)
	if o.Attr.ReLU {
		b.relu = 1
	}
	return b, l.need(0, 4*int(C.gt_norm_scratch(l.kernels, b.s, l.threads)))
}

func (l *lowering) floats(t *graph.Tensor) *C.float { return (*C.float)(l.address(t)) }

func (l *lowering) batchNorm(o *graph.Op) (func() error, error) {
	if o.Attr.Sync {
		return l.syncBatchNorm(o)
	}
	n, _ := l.norm(o, o.BatchNorm().X)
	c := C.gt_batchnorm_call{k: l.kernels, b: n}
	return func() error {
		l.forwardNorm(&c.b, o.BatchNorm())
		run := (*[0]byte)(C.gt_call_bn_infer)
		if o.Kind == graph.BatchNorm {
			run = (*[0]byte)(C.gt_call_bn_train)
		}
		C.gt_program_add(l.calls, run, unsafe.Pointer(&c), C.size_t(unsafe.Sizeof(c)))
		return nil
	}, nil
}

// forwardNorm adds the places of the operands.
func (l *lowering) forwardNorm(c *C.gt_batchnorm, b graph.BatchNormOperands) {
	c.scratch = (*C.float)(l.e.scratch.at)
	c.x, c.y = l.floats(b.X), l.address(b.Y)
	c.gamma, c.beta = l.floats(b.Gamma), l.floats(b.Beta)
	c.running_mean, c.running_var = l.floats(b.RunningMean), l.floats(b.RunningVar)
	if b.Addend != nil {
		c.addend = l.address(b.Addend)
	}
	if b.Mean != nil {
		c.mean, c.invstd = l.floats(b.Mean), l.floats(b.InvStd)
	}
}

func (l *lowering) batchNormBackward(o *graph.Op) (func() error, error) {
	if o.Attr.Sync {
		return l.syncBatchNormBackward(o)
	}
	n, _ := l.norm(o, o.BatchNormBackward().X)
	c := C.gt_batchnorm_call{k: l.kernels, b: n}
	return func() error {
		l.backwardNorm(&c.b, o.BatchNormBackward())
		C.gt_program_add(l.calls, (*[0]byte)(C.gt_call_bn_backward), unsafe.Pointer(&c), C.size_t(unsafe.Sizeof(c)))
		return nil
	}, nil
}

// backwardNorm adds the places of the operands.
func (l *lowering) backwardNorm(c *C.gt_batchnorm, b graph.BatchNormBackwardOperands) {
	c.scratch = (*C.float)(l.e.scratch.at)
	c.x, c.dx = l.floats(b.X), l.address(b.DX)
	c.gamma, c.beta, c.mean, c.invstd = l.floats(b.Gamma), l.floats(b.Beta), l.floats(b.Mean), l.floats(b.InvStd)
	c.dgamma, c.dbeta = l.floats(b.DGamma), l.floats(b.DBeta)
	if b.DAddend != nil && b.Y != nil {
		c.y = l.address(b.Y)
	}
	for i, dy := range b.DY {
		c.dy[i] = l.address(dy)
	}
	if b.DAddend != nil {
		c.daddend = l.address(b.DAddend)
	}
}
