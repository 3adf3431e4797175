package pipeline

import (
	"errors"
	"math"
)

// Estimate is what a run would take.
type Estimate struct {
	Minibatch   float64 // seconds
	Minibatches float64 // of training, and of testing as much as they cost
}

// Seconds is the time of the whole run.
func (e Estimate) Seconds() float64 { return e.Minibatch * e.Minibatches }

// Measure measures some steps of a configuration, with the exchange between its workers, and trains nothing.
func Measure(s Settings) (Estimate, error) {
	r, err := assemble(s)
	if err != nil {
		return Estimate{}, err
	}
	e, err := r.estimate()
	return e, r.close(err)
}

// estimate measures as many bits as the first epoch has. Testing is the forward pass, a third of a step.
func (r *run) estimate() (e Estimate, err error) {
	if err := r.workersAlone(); err != nil {
		return e, err
	}
	bits := 32
	if d := r.cfg.Distributed; !d.Bits.Auto && d.BlockMomentum.BlockSize == 0 {
		bits = d.Bits.At(0)
	}
	b := newBench(r)
	steps := 5
	if r.device.gpus != nil && r.device.gpus.Emulated() {
		steps = 1
	}
	e.Minibatch, err = b.step(settings(r.cfg, r.cfg.Distributed.BucketSize), bits, steps)
	if err = errors.Join(err, b.restore()); err != nil {
		return e, err
	}
	size := minibatchSize(r.cfg, r.epoch)
	e.Minibatches = float64(r.cfg.Learner.MaxEpochs) * math.Ceil(float64(r.epoch)/float64(size))
	if r.tests != nil {
		e.Minibatches += float64(r.tests.Len()) / float64(size) / 3
	}
	return e, nil
}
