package cpu

// #include "program.h"
// #include "syncnorm.h"
import "C"

import (
	"unsafe"

	"gotrain/graph"
)

// cut is a place within an operation where workers exchange what the calls before it have found, and the calls behind it
// need.
type cut struct {
	at  int // the call behind it
	run func(x graph.Exchange) error
}

// syncScratch is what a synchronized batch norm has in scratch memory, behind what its kernels need there.
type syncScratch struct {
	channels     int
	share, means int // offsets
}

// syncNorm starts the arguments of a synchronized batch norm over x.
func (l *lowering) syncNorm(o *graph.Op, x *graph.Tensor) (C.gt_syncnorm_call, syncScratch) {
	b, end := l.norm(o, x)
	n := syncScratch{channels: x.Shape[1], share: end}
	n.means = l.need(n.share, 2*8*n.channels)
	l.need(n.means, 2*4*n.channels)
	return C.gt_syncnorm_call{k: l.kernels, s: C.gt_syncnorm{b: b}}, n
}

// emitCut appends two calls with a cut between them: first leaves this worker's share, and second needs what exchange makes
// of it.
func (l *lowering) emitCut(c *C.gt_syncnorm_call, n syncScratch, first, second *[0]byte, exchange func(s graph.Share, means []float32, x graph.Exchange) error) {
	own := unsafe.Slice((*float64)(l.e.scratch.add(n.share)), 2*n.channels)
	means := unsafe.Slice((*float32)(l.e.scratch.add(n.means)), 2*n.channels)
	c.s.b.scratch = (*C.float)(l.e.scratch.at)
	c.s.share, c.s.means = (*C.double)(&own[0]), (*C.float)(&means[0])
	share, count := graph.NewShare(n.channels), float64(c.s.b.s.n)*float64(c.s.b.s.h)*float64(c.s.b.s.w)
	for _, run := range []*[0]byte{first, second} {
		C.gt_program_add(l.calls, run, unsafe.Pointer(c), C.size_t(unsafe.Sizeof(*c)))
	}
	l.cuts = append(l.cuts, cut{at: int(C.gt_program_length(l.calls)) - 1, run: func(x graph.Exchange) error {
		share[0] = count
		copy(share[1:], own)
		return exchange(share, means, x)
	}})
}

// view is a tensor's values.
func (l *lowering) view(t *graph.Tensor) []float32 {
	return unsafe.Slice((*float32)(l.address(t)), t.Shape.Values())
}

func (l *lowering) syncBatchNorm(o *graph.Op) (func() error, error) {
	b := o.BatchNorm()
	c, n := l.syncNorm(o, b.X)
	return func() error {
		l.forwardNorm(&c.s.b, b)
		mean, invStd := l.view(b.Mean), l.view(b.InvStd)
		runningMean, runningVar := l.view(b.RunningMean), l.view(b.RunningVar)
		l.emitCut(&c, n, (*[0]byte)(C.gt_call_sync_moments), (*[0]byte)(C.gt_call_sync_normalize),
			func(s graph.Share, _ []float32, x graph.Exchange) error {
				if err := s.Moments(x); err != nil {
					return err
				}
				for k := range mean {
					mean[k], invStd[k] = float32(s.First()[k]), float32(s.InvStd(k, o.Attr.Epsilon))
				}
				graph.UpdateRunning(o, s, runningMean, runningVar)
				return nil
			})
		return nil
	}, nil
}

func (l *lowering) syncBatchNormBackward(o *graph.Op) (func() error, error) {
	b := o.BatchNormBackward()
	c, n := l.syncNorm(o, b.X)
	return func() error {
		l.backwardNorm(&c.s.b, b)
		dgamma, dbeta := l.view(b.DGamma), l.view(b.DBeta)
		l.emitCut(&c, n, (*[0]byte)(C.gt_call_sync_sums), (*[0]byte)(C.gt_call_sync_propagate),
			func(s graph.Share, means []float32, x graph.Exchange) error {
				for k := range dbeta { // this worker's: they are aggregated like any gradient
					dbeta[k], dgamma[k] = float32(s.First()[k]), float32(s.Second()[k])
				}
				if err := s.Sums(x); err != nil {
					return err
				}
				for k, sum := range s[1:] {
					means[k] = float32(sum / s.Count())
				}
				return nil
			})
		return nil
	}, nil
}
