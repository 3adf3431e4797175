package cuda

import (
	"fmt"
	"math"
	"unsafe"

	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// slot is how what changes from step to step lies in pinned memory, and after the step's first copy in that of the device:
// offsets in bytes.
type slot struct {
	update  int // the learner's rule
	divisor int
	weights int
	labels  int
	samples int // the sample plan, where the set is resident
	images  int // [N][C][H][W] float32, where it is not
	bytes   int
}

// slotFor lays a slot out; without a plan, for a share of no samples.
func (e *Executor) slotFor(p *graph.Plan) (s slot) {
	take := func(bytes int) int {
		at := s.bytes
		s.bytes += align(bytes)
		return at
	}
	s.update = take(kernels.UpdateBytes)
	s.divisor = take(4)
	if p == nil {
		return s
	}
	s.weights, s.labels = take(4*p.Batch), take(4*p.Batch)
	if e.gathers(p) {
		s.samples = take(kernels.SampleBytes * p.Batch)
	} else {
		s.images = take(p.Inputs.Images.Bytes())
	}
	return s
}

// gathers says whether images come from the resident set.
func (e *Executor) gathers(p *graph.Plan) bool { return e.device.resident != nil && !p.Inference }

// write fills the slot for a step of a program, when nothing reads it any more.
func (e *Executor) write(p *program, b *graph.Batch, u graph.Update) error {
	if b.N != p.samples() {
		return fmt.Errorf("the batch has %d samples, and the program %d", b.N, p.samples())
	}
	to, s := e.slot.Bytes, p.slot
	kernels.PutUpdate(to[s.update:], u)
	*(*uint32)(unsafe.Pointer(&to[s.divisor])) = math.Float32bits(b.Divisor)
	if b.N == 0 {
		return nil
	}
	if err := e.fits(p.plan, b); err != nil {
		return err
	}
	copy(floats(to[s.weights:][:4*b.N]), b.Weights)
	copy(unsafe.Slice((*int32)(unsafe.Pointer(&to[s.labels])), b.N), b.Labels)
	if e.gathers(p.plan) {
		kernels.PutSamples(to[s.samples:], b.Plan)
	} else {
		copy(floats(to[s.images:][:4*len(b.Images)]), b.Images)
	}
	return nil
}

// fits refuses a batch that the program cannot run on.
func (e *Executor) fits(p *graph.Plan, b *graph.Batch) error {
	if e.gathers(p) {
		return p.FitsResident(b, e.device.resident.samples)
	}
	return p.Fits(b)
}
