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

// norm starts the arguments of a batch norm over x.
func (l *lowering) norm(o *graph.Op, x *graph.Tensor) C.gt_batchnorm_call {
	c := C.gt_batchnorm_call{k: l.kernels}
	c.b.s, c.b.threads = shape(x), l.threads
	c.b.epsilon, c.b.update = C.float(o.Attr.Epsilon), C.float(o.Attr.Update)
	if o.Attr.ReLU {
		c.b.relu = 1
	}
	l.need(0, 4*int(C.gt_norm_scratch(l.kernels, c.b.s, l.threads)))
	return c
}

func (l *lowering) floats(t *graph.Tensor) *C.float { return (*C.float)(l.address(t)) }

func (l *lowering) batchNorm(o *graph.Op) (func() error, error) {
	b := o.BatchNorm()
	c := l.norm(o, b.X)
	return func() error {
		c.b.scratch = (*C.float)(l.e.scratch.at)
		c.b.x, c.b.y = l.floats(b.X), l.address(b.Y)
		c.b.gamma, c.b.beta = l.floats(b.Gamma), l.floats(b.Beta)
		c.b.running_mean, c.b.running_var = l.floats(b.RunningMean), l.floats(b.RunningVar)
		if b.Addend != nil {
			c.b.addend = l.address(b.Addend)
		}
		run := (*[0]byte)(C.gt_call_bn_infer)
		if o.Kind == graph.BatchNorm {
			run = (*[0]byte)(C.gt_call_bn_train)
			c.b.mean, c.b.invstd = l.floats(b.Mean), l.floats(b.InvStd)
		}
		C.gt_program_add(l.calls, run, unsafe.Pointer(&c), C.size_t(unsafe.Sizeof(c)))
		return nil
	}, nil
}

func (l *lowering) batchNormBackward(o *graph.Op) (func() error, error) {
	b := o.BatchNormBackward()
	c := l.norm(o, b.X)
	return func() error {
		c.b.scratch = (*C.float)(l.e.scratch.at)
		c.b.x, c.b.dx = l.floats(b.X), l.address(b.DX)
		c.b.gamma, c.b.beta, c.b.mean, c.b.invstd = l.floats(b.Gamma), l.floats(b.Beta), l.floats(b.Mean), l.floats(b.InvStd)
		c.b.dgamma, c.b.dbeta = l.floats(b.DGamma), l.floats(b.DBeta)
		if b.DAddend != nil && b.Y != nil {
			c.b.y = l.address(b.Y)
		}
		for i, dy := range b.DY {
			c.b.dy[i] = l.address(dy)
		}
		if b.DAddend != nil {
			c.b.daddend = l.address(b.DAddend)
		}
		C.gt_program_add(l.calls, (*[0]byte)(C.gt_call_bn_backward), unsafe.Pointer(&c), C.size_t(unsafe.Sizeof(c)))
		return nil
	}, nil
}
