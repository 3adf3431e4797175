package reference

import (
	"math"
	"slices"
	"testing"

	"gotrain/graph"
)

// planned places intermediates and outputs of a plan in one block, where its memory plan says, and overwrites with NaN
// what an operation was the last to read.
func planned(p *graph.Plan) storage {
	// A value takes 8 bytes here, and 2 in the plan where it is a bfloat16: counting places in units of 2 bytes, no tensor
	// is longer than planned.
	block := make([]float64, p.Memory.Peak/2)
	poison(block)
	place := func(t *graph.Tensor) []float64 {
		at := p.Memory.Offset[t.ID]
		if at < 0 {
			return make([]float64, t.Shape.Values())
		}
		return block[at/2:][:t.Shape.Values()]
	}
	return storage{values: place, freed: func(op int) {
		for _, t := range append(slices.Clone(p.Ops[op].In), p.Ops[op].Out...) {
			if t.Role == graph.Intermediate && lastUse(p, t) == op && !overlap(p, t, p.Ops[op].Out) {
				poison(place(t))
			}
		}
	}}
}

func poison(values []float64) {
	for i := range values {
		values[i] = math.NaN()
	}
}

func lastUse(p *graph.Plan, t *graph.Tensor) int {
	for i, o := range slices.Backward(p.Ops) {
		if slices.Contains(o.In, t) || slices.Contains(o.Out, t) {
			return i
		}
	}
	return -1
}

// overlap says whether one of the tensors begins where t does: a result that took over the memory of an operand.
func overlap(p *graph.Plan, t *graph.Tensor, with []*graph.Tensor) bool {
	return slices.ContainsFunc(with, func(o *graph.Tensor) bool {
		return o != t && p.Memory.Offset[o.ID] == p.Memory.Offset[t.ID]
	})
}

// The memory plan is right if a step that keeps to it, and loses everything that the plan says is not needed any more,
// ends with the same bits.
func TestStepsInPlannedMemoryEqualStepsInSeparateMemory(t *testing.T) {
	for _, c := range nets {
		for _, noFusion := range []bool{false, true} {
			name := c.name
			if noFusion {
				name += " unfused"
			}
			t.Run(name, func(t *testing.T) {
				if testing.Short() && c.spec.Config.Depth > 14 {
					t.Skip("takes seconds")
				}
				source := c.source(graph.Options{NoFusion: noFusion})
				separated := open(t, source)
				shared, err := newExecutor(source, planned)
				if err != nil {
					t.Fatal(err)
				}
				initialize(shared)
				for step := range 2 {
					b := c.batch(3, int64(step))
					want, err := separated.Gradients(b, nil)
					if err != nil {
						t.Fatal(err)
					}
					got, err := shared.Gradients(b, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got != want || math.IsNaN(got.Loss) {
						t.Errorf("step %d: %v in planned memory, %v in separate memory", step, got, want)
					}
					u := graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 1}
					separated.Update(u)
					shared.Update(u)
					for a := range graph.Arenas {
						if !slices.Equal(shared.Arena(a), separated.Arena(a)) {
							t.Errorf("step %d: the %s differ", step, a)
						}
					}
				}
				b := c.batch(3, 0)
				want, _ := separated.Evaluate(b, nil)
				if got, err := shared.Evaluate(b, nil); got != want || err != nil {
					t.Errorf("evaluation gives %v (%v) in planned memory, %v in separate memory", got, err, want)
				}
			})
		}
	}
}
