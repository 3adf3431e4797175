package distributed

import (
	"fmt"
	"slices"

	"gotrain/distributed/group"
)

// Block is blockwise model-update filtering (Chen and Huo, "Scalable training of deep learning machines by incremental block
// training with intra-block parallel optimization and blockwise model-update filtering", 2016): workers train alone for a
// block, and then move the common model along a filtered sum of their changes.
//
// With w the common model, s its filtered change, and g the sum over the workers of (where they started - where they came):
//
//	s = Momentum*s + (1-Momentum)*Rate*g;  w -= s
//
// and all start the next block at w, or with Nesterov at w - Momentum*s. Momentum 0 averages models instead: s = Rate*g/workers.
type Block struct {
	Momentum, Rate float32
	Nesterov       bool

	Model  []float32 // w; nil: as the first block starts
	Change []float32 // s
	start  []float32 // of the block that runs
}

// Begin notes where a block starts.
func (b *Block) Begin(parameters []float32) {
	b.start = append(b.start[:0], parameters...)
	if b.Model == nil {
		b.Model, b.Change = slices.Clone(parameters), make([]float32, len(parameters))
	}
}

// End ends a block: it exchanges what the workers have changed, and sets the parameters to where the next block starts.
func (b *Block) End(m group.Member, step int64, parameters []float32) error {
	g := make([]float32, len(parameters))
	for i, w := range parameters {
		g[i] = b.start[i] - w
	}
	if err := group.AllReduce(m, group.Tag{Phase: group.Control, Step: step}, g); err != nil {
		return fmt.Errorf("exchanging models: %w", err)
	}
	gain := (1 - b.Momentum) * b.Rate
	if b.Momentum == 0 {
		gain = b.Rate / float32(m.Size())
	}
	ahead := float32(0)
	if b.Nesterov {
		ahead = b.Momentum
	}
	for i := range parameters {
		b.Change[i] = b.Momentum*b.Change[i] + gain*g[i]
		b.Model[i] -= b.Change[i]
		parameters[i] = b.Model[i] - ahead*b.Change[i]
	}
	b.Begin(parameters)
	return nil
}
