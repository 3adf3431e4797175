package graph_test

import (
	"slices"
	"testing"

	"gotrain/graph"
)

func TestWhatCannotBeCompiledIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(g *graph.Graph, in graph.Inputs)
		want  string
	}{
		{"no loss", func(g *graph.Graph, in graph.Inputs) {
			g.Conv("conv", in.Images, 4, 3, 1, 1)
		}, "the graph has no operation softmax cross-entropy"},
		{"two losses", func(g *graph.Graph, in graph.Inputs) {
			y := g.Dense("fc", g.GlobalAveragePool("pool", in.Images), 3)
			g.Loss(y, in)
			g.Loss(y, in)
		}, `the graph has several operations "softmax cross-entropy"`},
		{"kernel larger than the image", func(g *graph.Graph, in graph.Inputs) {
			y := g.Conv("conv", in.Images, 4, 9, 1, 0)
			g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", y), 3), in)
		}, "conv: a window of 9 does not fit an image side of 7 with padding 0; use larger images"},
		{"pooling window larger than the image", func(g *graph.Graph, in graph.Inputs) {
			y := g.MaxPool("max", g.Conv("conv", in.Images, 4, 3, 1, 1), 10, 2, 1)
			g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", y), 3), in)
		}, "max: a window of 10 does not fit an image side of 7 with padding 1; use larger images"},
		{"addition of unlike shapes", func(g *graph.Graph, in graph.Inputs) {
			y := g.Add("add", g.Conv("a", in.Images, 4, 3, 1, 1), g.Conv("b", in.Images, 4, 3, 2, 1))
			g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", y), 3), in)
		}, "add: cannot add a [4x4x7x6] and b [4x4x4x3]"},
		{"subsampling to fewer channels", func(g *graph.Graph, in graph.Inputs) {
			y := g.Subsample("sub", in.Images, 2, 2)
			g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", y), 3), in)
		}, "sub: cannot subsample images [4x3x7x6] to 2 channels"},
		{"no classes", func(g *graph.Graph, in graph.Inputs) {
			g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", in.Images), 0), in)
		}, "fc.weight: shape [0x3] has an extent below 1"},
		{"parameter that is not used", func(g *graph.Graph, in graph.Inputs) {
			g.Conv("unused", in.Images, 4, 3, 1, 1)
			g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", in.Images), 3), in)
		}, "unused.weight: the loss does not depend on this parameter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graph.New(graph.Float32)
			c.build(g, g.Inputs(4, 3, 7, 6))
			_, err := graph.Compile(g, graph.Options{})
			if err == nil || err.Error() != c.want {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestDeadOperationsAreDropped(t *testing.T) {
	g := graph.New(graph.Float32)
	in := g.Inputs(4, 3, 7, 6)
	x := g.Conv("conv", in.Images, 4, 3, 1, 1)
	g.MaxPool("dead", g.ReLU("dead before", x), 3, 2, 1)
	g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", x), 3), in)
	p := compile(t, g, graph.Options{})
	for _, o := range p.Ops {
		if o.Kind == graph.MaxPool || o.Kind == graph.ReLU {
			t.Errorf("%s of %s is left", o.Kind, o.Name)
		}
	}
	for i, x := range p.Tensors {
		if x.ID != i {
			t.Errorf("%s has ID %d at index %d", x, x.ID, i)
		}
		if x.Name == "dead" || x.Name == "dead before" {
			t.Errorf("%s is left", x)
		}
	}
}

// The gradient by the images is nobody's: the first layer has one by its weights only.
func TestNoGradientByTheImagesIsComputed(t *testing.T) {
	p := resnet(t, "cifar", 8, "B", 2, 3, 32, graph.Options{})
	for _, o := range p.Ops {
		if o.Kind == graph.ConvBackwardData && o.Name == "stem.conv" {
			t.Error("the stem has a backward pass by data")
		}
	}
}

func TestAPlanRunsInPhases(t *testing.T) {
	p := resnet(t, "cifar", 8, "B", 2, 3, 32, graph.Options{})
	for i, o := range p.Ops {
		want := graph.Updating
		if i < p.Forward {
			want = graph.Forward
		} else if i < p.Backward {
			want = graph.Backward
		}
		if o.Phase != want {
			t.Errorf("operation %d, %s of %s, is in the phase %s, want %s", i, o.Kind, o.Name, o.Phase, want)
		}
	}
	if last := p.Ops[len(p.Ops)-1]; p.Backward != len(p.Ops)-1 || last.Kind != graph.Apply || len(last.In) != len(p.Parameters.Slots) {
		t.Errorf("the plan ends in %s of %d gradients, want an update of %d", last.Kind, len(last.In), len(p.Parameters.Slots))
	}
	if i := resnet(t, "cifar", 8, "B", 2, 3, 32, graph.Options{Inference: true}); i.Forward != len(i.Ops) || i.Backward != len(i.Ops) || len(i.Buckets) != 0 {
		t.Errorf("an inference plan has %d operations, %d of them forward, and %d buckets", len(i.Ops), i.Forward, len(i.Buckets))
	}
}

// Every operand exists before it is read.
func TestOperationsStandInAnOrderThatRuns(t *testing.T) {
	for _, o := range []graph.Options{{}, {NoFusion: true}, {Inference: true}} {
		plans := []*graph.Plan{resnet(t, "cifar", 20, "A", 2, 3, 32, o), resnet(t, "cifar", 20, "B", 2, 3, 32, o), resnet(t, "imagenet", 50, "B", 2, 3, 64, o)}
		for _, p := range plans {
			written := map[*graph.Tensor]bool{}
			for _, x := range p.Ops {
				for _, in := range x.In {
					if made := in.Role == graph.Input || in.Role == graph.Parameter || in.Role == graph.Statistic; !made && !written[in] {
						t.Errorf("%s of %s reads %s before it is written", x.Kind, x.Name, in)
					}
					if !slices.Contains(p.Tensors, in) {
						t.Errorf("%s of %s reads %s, which is not in the plan", x.Kind, x.Name, in)
					}
				}
				for _, out := range x.Out {
					if written[out] {
						t.Errorf("%s is written twice", out)
					}
					written[out] = true
				}
			}
		}
	}
}

func TestAggregationComesBeforeTheUpdate(t *testing.T) {
	p := resnet(t, "cifar", 8, "A", 2, 3, 32, graph.Options{Aggregation: "4 workers, 1 bit"})
	o, update := p.Ops[len(p.Ops)-2], p.Ops[len(p.Ops)-1]
	if o.Kind != graph.Aggregate || o.Name != "4 workers, 1 bit" || update.Kind != graph.Apply || len(o.In) != len(p.Parameters.Slots) || p.Backward != len(p.Ops)-2 {
		t.Errorf("the step ends with %s %q and %s, its backward pass at %d of %d", o.Kind, o.Name, update.Kind, p.Backward, len(p.Ops))
	}
}
