package cudatest

import (
	"errors"
	"fmt"
	"sync"

	"gotrain/cuda"
	"gotrain/cuda/cudnn"
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
)

// Twin is a provider of convolutions that computes with gotrain's kernels, so that its results are the same to the bit. It leaves
// gradients by weights packed, as cuDNN does.
type Twin struct {
	Times   func(cudnn.Pass) int                     // how often it computes the same; nil: once
	Refuses func(cudnn.Pass, kernels.ConvShape) bool // nil: never
	TF32    bool                                     // multiplies float32 in tf32, which gives other bits

	mu      sync.Mutex
	started int
	planned [3]int
	live    int
}

// Started is how often it was made ready on a device.
func (t *Twin) Started() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.started
}

// Planned is how many convolutions it was asked for, by pass.
func (t *Twin) Planned() [3]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.planned
}

// Live is the number of devices that it is on and of plans that are not freed.
func (t *Twin) Live() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live
}

func (t *Twin) String() string { return "twin 1" }

func (t *Twin) count(n *int, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n += by
}

func (t *Twin) Start(d driver.Device) (cuda.Convolver, error) {
	set, err := kernels.Load(d)
	if err != nil {
		return nil, err
	}
	t.count(&t.started, 1)
	t.count(&t.live, 1)
	return &twinOn{t, set}, nil
}

type twinOn struct {
	*Twin
	set *kernels.Set
}

func (t *twinOn) Close() error {
	t.count(&t.live, -1)
	return nil
}

func (t *twinOn) Plan(p cudnn.Pass, s kernels.ConvShape, m kernels.Math, workspace int) (cuda.Convolution, error) {
	if m == kernels.Mixed && p != cudnn.Forward || t.Refuses != nil && t.Refuses(p, s) {
		return nil, fmt.Errorf("%v%v: %w", p, s, cudnn.ErrUnsupported)
	}
	t.count(&t.planned[p], 1)
	t.count(&t.live, 1)
	if t.TF32 && m == kernels.FFMA {
		m = kernels.TF32
	}
	c := &twinPlan{twinOn: t, pass: p, shape: s, math: m}
	if c.Workspace() > workspace {
		return nil, fmt.Errorf("%d bytes of workspace are too few", workspace)
	}
	return c, nil
}

type twinPlan struct {
	*twinOn
	pass  cudnn.Pass
	shape kernels.ConvShape
	math  kernels.Math
	freed bool
}

func (c *twinPlan) Workspace() int {
	if c.pass == cudnn.BackwardWeights {
		return c.shape.ScratchBytes(c.math)
	}
	return 0
}

func (c *twinPlan) Free() error {
	if c.freed {
		return errors.New("the plan was freed before")
	}
	c.freed = true
	c.count(&c.live, -1)
	return nil
}

func (c *twinPlan) Run(s driver.Stream, x, w, y, workspace driver.Pointer) error {
	if c.freed {
		return errors.New("the plan was freed")
	}
	times := 1
	if c.Times != nil {
		times = c.Times(c.pass)
	}
	for range times {
		var err error
		switch c.pass {
		case cudnn.Forward:
			err = s.Launch(c.set.ConvForward(c.shape, c.math, x, w, y))
		case cudnn.BackwardData:
			err = s.Launch(c.set.ConvBackwardData(c.shape, c.math, y, w, x))
		case cudnn.BackwardWeights: // partial sums, and their sums as if these were of a 1x1 convolution, which keeps their order
			flat := kernels.ConvShape{K: c.shape.K, C: c.shape.Kernel * c.shape.Kernel * kernels.Padded(c.shape.C), Kernel: 1}
			splits := c.Workspace() / (4 * flat.K * flat.C)
			err = s.Launch(c.set.ConvBackwardWeights(c.shape, c.math, x, y, 0, workspace)[0], c.set.SumWeights(flat, workspace, w, splits))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
