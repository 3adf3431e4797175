package graph_test

import (
	"fmt"
	"slices"
	"testing"

	"gotrain/graph"
)

// worksInPlace says whether an operation may write a result over an operand: each value of the result depends, once sums
// over the operands are known, on the values of the operand at the same place only.
func worksInPlace(k graph.Kind) bool {
	switch k {
	case graph.ReLU, graph.ReLUBackward, graph.Add, graph.BatchNorm, graph.BatchNormInference, graph.BatchNormBackward:
		return true
	}
	return false
}

// life is when a tensor is in use, and where.
type life struct {
	t        *graph.Tensor
	from, to int // the operations that write it, and that read it last
	begin    int // bytes
	end      int
}

func lives(p *graph.Plan) []life {
	byTensor := map[*graph.Tensor]*life{}
	for i, o := range p.Ops {
		for _, t := range o.Out {
			if t.Role == graph.Intermediate || t.Role == graph.Output {
				at := p.Memory.Offset[t.ID]
				byTensor[t] = &life{t: t, from: i, to: i, begin: at, end: at + t.Bytes()}
			}
		}
		for _, t := range o.In {
			if l := byTensor[t]; l != nil {
				l.to = i
			}
		}
	}
	var all []life
	for _, t := range p.Tensors {
		if l := byTensor[t]; l != nil {
			if t.Role == graph.Output {
				l.to = len(p.Ops)
			}
			all = append(all, *l)
		}
	}
	return all
}

// checkMemory compares every tensor with every other.
func checkMemory(t *testing.T, p *graph.Plan) {
	t.Helper()
	all := lives(p)
	end, total := 0, 0
	for i, a := range all {
		if a.begin < 0 || a.begin%graph.Align != 0 {
			t.Errorf("%s lies at %d, which is not a multiple of %d", a.t, a.begin, graph.Align)
		}
		end, total = max(end, a.end), total+a.t.Bytes()
		for _, b := range all[i+1:] {
			if a.begin >= b.end || b.begin >= a.end || a.to < b.from || b.to < a.from {
				continue
			}
			first, second := a, b
			if b.from < a.from {
				first, second = b, a
			}
			o := p.Ops[second.from]
			if first.to == second.from && first.from < second.from && first.begin == second.begin && first.end == second.end && worksInPlace(o.Kind) {
				continue
			}
			t.Errorf("%s (operations %d to %d) and %s (%d to %d) share memory", a.t, a.from, a.to, b.t, b.from, b.to)
		}
	}
	m := p.Memory
	if end > m.Peak || m.Peak >= end+graph.Align {
		t.Errorf("the peak is %d bytes, but tensors end at %d", m.Peak, end)
	}
	if m.Peak < m.Live || m.Peak > m.Total || m.Total < total {
		t.Errorf("peak %d, live %d, total %d: want live <= peak <= total, and %d at least in total", m.Peak, m.Live, m.Total, total)
	}
	for _, x := range p.Tensors {
		if placed := m.Offset[x.ID] >= 0; placed != (x.Role == graph.Intermediate || x.Role == graph.Output) {
			t.Errorf("%s: placed %v by the memory plan", x, placed)
		}
	}
}

func TestTensorsThatLiveTogetherShareNoMemory(t *testing.T) {
	worst := 1.0
	check := func(name string, p *graph.Plan) {
		t.Run(name, func(t *testing.T) {
			checkMemory(t, p)
			over := float64(p.Memory.Peak) / float64(p.Memory.Live)
			worst = max(worst, over)
			t.Logf("peak %.2f MB, %.3f of what is live at once, %.2f of all", float64(p.Memory.Peak)/1e6, over, float64(p.Memory.Peak)/float64(p.Memory.Total))
		})
	}
	for _, c := range small {
		check(c.name, compile(t, build(c.build), graph.Options{}))
		check(c.name+", unfused", compile(t, build(c.build), graph.Options{NoFusion: true}))
	}
	for _, o := range []graph.Options{{}, {NoFusion: true}, {Inference: true}} {
		name := fmt.Sprintf(" fused %v inference %v", !o.NoFusion, o.Inference)
		for _, depth := range []int{8, 14, 20, 32, 44, 56, 110} {
			for _, shortcut := range []string{"A", "B"} {
				check(fmt.Sprint("resnet", depth, shortcut, name), resnet(t, "cifar", depth, shortcut, 128, 3, 32, o))
			}
		}
		for _, depth := range []int{18, 34, 50, 101, 152} {
			check(fmt.Sprint("resnet", depth, name), resnet(t, "imagenet", depth, "B", 32, 3, 224, o))
		}
	}
	if worst > 1.1 {
		t.Errorf("a peak is %.3f times what is live at once, want 1.1 at most", worst)
	}
}

// Activations that the backward pass needs are most of a training step; in inference hardly anything has to stay.
func TestInferenceNeedsLittleMemory(t *testing.T) {
	training := resnet(t, "cifar", 20, "B", 128, 3, 32, graph.Options{}).Memory
	inference := resnet(t, "cifar", 20, "B", 128, 3, 32, graph.Options{Inference: true}).Memory
	image := 128 * 16 * 32 * 32 * 4
	if inference.Peak > 3*image+1<<20 {
		t.Errorf("inference takes %d bytes, want three activations of %d at most", inference.Peak, image)
	}
	if training.Peak < 5*inference.Peak {
		t.Errorf("training takes %d bytes, hardly more than the %d of inference", training.Peak, inference.Peak)
	}
}

func TestGradientsLieInTheOrderInWhichTheyAreFinished(t *testing.T) {
	for _, p := range []*graph.Plan{
		resnet(t, "cifar", 20, "B", 4, 3, 32, graph.Options{}),
		resnet(t, "imagenet", 50, "B", 2, 3, 64, graph.Options{}),
	} {
		var finished []string
		for _, o := range p.Ops {
			for _, x := range o.Out {
				if x.Role == graph.ParameterGradient {
					finished = append(finished, x.Of.Name)
				}
			}
		}
		var order []string
		end := 0
		for _, s := range p.Parameters.Slots {
			order = append(order, s.Name)
			if s.Offset < end || s.Offset >= end+graph.Align/4 || s.Offset*4%graph.Align != 0 {
				t.Errorf("%s lies at %d, behind a slot that ends at %d", s.Name, s.Offset, end)
			}
			end = s.End()
		}
		if !slices.Equal(finished, order) {
			t.Errorf("gradients are finished in the order %v, the arena has %v", finished, order)
		}
		if p.Parameters.Size < end || p.Parameters.Size >= end+graph.Align/4 {
			t.Errorf("the arena has %d values, its slots end at %d", p.Parameters.Size, end)
		}
		if order[0] != "fc.weight" || order[len(order)-1] != "stem.conv.weight" {
			t.Errorf("the arena goes from %s to %s, want the last layer's first", order[0], order[len(order)-1])
		}
	}
}

func TestArenasAreTheSameForEveryNumberOfSamples(t *testing.T) {
	a, b := resnet(t, "cifar", 20, "B", 128, 3, 32, graph.Options{}), resnet(t, "cifar", 20, "B", 1, 3, 32, graph.Options{NoFusion: true})
	if fmt.Sprint(a.Parameters) != fmt.Sprint(b.Parameters) || fmt.Sprint(a.Statistics) != fmt.Sprint(b.Statistics) {
		t.Error("the arenas of 128 samples and of 1 differ")
	}
}

func TestBucketsPartitionTheArena(t *testing.T) {
	for _, size := range []int{0, 1, 1 << 10, 1 << 16, 1 << 20, 1 << 30} {
		p := resnet(t, "cifar", 20, "B", 4, 3, 32, graph.Options{BucketBytes: size})
		finished := map[string]int{} // the operation that finishes a parameter's gradient
		for i, o := range p.Ops {
			for _, x := range o.Out {
				if x.Role == graph.ParameterGradient {
					finished[x.Of.Name] = i
				}
			}
		}
		end, ready := 0, 0
		for i, b := range p.Buckets {
			last := i == len(p.Buckets)-1
			if b.Begin != end || b.End <= b.Begin || b.Ready < ready || b.Ready > p.Backward {
				t.Errorf("bucket size %d: bucket %+v follows one that ends at %d and is ready at %d", size, b, end, ready)
			}
			if bytes := (b.End - b.Begin) * 4; bytes < size && !last {
				t.Errorf("bucket size %d: bucket %+v holds %d bytes", size, b, bytes)
			}
			end, ready = b.End, b.Ready
			for _, s := range p.Parameters.Slots {
				if s.Offset < b.End && s.End() > b.Begin {
					if s.Offset < b.Begin || s.End() > b.End {
						t.Errorf("bucket size %d: %s is cut by bucket %+v", size, s.Name, b)
					}
					if finished[s.Name] >= b.Ready {
						t.Errorf("bucket size %d: bucket %+v is ready before %s is", size, b, s.Name)
					}
				}
			}
		}
		if end != p.Parameters.Size {
			t.Errorf("bucket size %d: the buckets end at %d of %d", size, end, p.Parameters.Size)
		}
		if size == 0 && len(p.Buckets) != 1 || size == 1 && len(p.Buckets) < 40 {
			t.Errorf("bucket size %d gives %d buckets", size, len(p.Buckets))
		}
	}
}
