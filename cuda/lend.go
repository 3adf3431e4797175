package cuda

import (
	"errors"
	"fmt"

	"gotrain/cuda/cudnn"
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// workspaceLimit is the most bytes of memory that a convolution of a provider gets beside its tensors.
const workspaceLimit = 256 << 20

// lent is a convolution of a program that a provider computes, with where its tensors lie.
type lent struct {
	Convolution
	x, w, y, workspace driver.Pointer
}

func (c *lent) run(s driver.Stream) error { return c.Run(s, c.x, c.w, c.y, c.workspace) }

// lendable says whether a provider is asked at all: gradients by weights of images in float32 from bfloat16 are a math of our own.
func (c *product) lendable() bool {
	return c.math != kernels.Mixed || c.pass == cudnn.Forward
}

// sumBytes is the memory of the gradient by weights as a provider leaves it: packed.
func (c *product) sumBytes() int {
	if c.pass != cudnn.BackwardWeights {
		return 0
	}
	// A provider wants its workspace aligned as allocations are.
	return (kernels.Padded(c.shape.K)*c.shape.Kernel*c.shape.Kernel*kernels.Padded(c.shape.C)*4 + 255) / 256 * 256
}

// lend returns the convolution of the operation that is being lowered, nil where package kernels computes it. It is prepared when it is
// asked for first: what it needs of memory, the second pass gives.
func (l *lowering) lend(o *graph.Op, c *product) (*lent, error) {
	options, op := &l.e.fleet.options, len(l.launches)
	if options.Provider == nil || !c.lendable() || options.Chosen != nil && !options.Chosen.has(c.pass, o.Name) {
		return nil, nil
	}
	if l.lent[op] != nil || l.final {
		return l.lent[op], nil
	}
	plan, err := l.e.device.convolver.Plan(c.pass, c.shape, c.math, workspaceLimit)
	switch {
	case err == nil:
		l.lent[op] = &lent{Convolution: plan}
	case !errors.Is(err, cudnn.ErrUnsupported):
		return nil, err
	case options.Chosen == nil:
		return nil, fmt.Errorf("%w: set network.convolution to auto", err)
	}
	return l.lent[op], nil // nil where another number of samples than the measured one is too much for it
}

// placeLent tells a convolution where its tensors lie, and returns what comes after it.
func (l *lowering) placeLent(c *lent, p *product, packed, dweight driver.Pointer) []driver.Launch {
	memory := l.need(p.sumBytes() + c.Workspace())
	c.x, c.w, c.y, c.workspace = l.address(p.x), packed, l.address(p.y), memory+driver.Pointer(p.sumBytes())
	if p.pass != cudnn.BackwardWeights {
		return nil
	}
	c.w = memory
	return []driver.Launch{l.e.device.set.SumWeights(p.shape, memory, dweight, 1)}
}

// warm runs what a provider computes once, on zeros: it may load kernels when they are first used, which is not to come while a stream
// captures.
func (p *program) warm() error {
	if len(p.lent) == 0 {
		return nil
	}
	e := p.e
	for _, b := range []*block{&e.activations, &e.packed, &e.scratch} {
		if err := e.compute.Fill(b.at, 0, b.bytes/4); err != nil {
			return e.wrong("clearing "+b.what, err)
		}
	}
	for i, o := range p.plan.Ops {
		if c := p.lent[i]; c != nil {
			if err := c.run(e.compute.Stream); err != nil {
				return e.wrong(title(o), err)
			}
		}
	}
	if err := e.compute.Synchronize(); err != nil {
		return e.wrong("running convolutions for the first time", err)
	}
	return nil
}
