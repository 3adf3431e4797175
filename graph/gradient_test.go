package graph_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gotrain/graph"
)

// differences compares the gradients of a plan with central differences of its loss, at some values of every parameter.
func differences(t *testing.T, p *graph.Plan, each int) {
	t.Helper()
	s := newStep(p)
	s.run(p.Backward)
	gradients := s.gradients()
	r := rand.New(rand.NewPCG(3, 4))
	const h = 1e-6
	checked := 0
	for _, w := range p.Tensors {
		if w.Role != graph.Parameter {
			continue
		}
		g := gradients[w.Name]
		scale := 0.0
		for _, v := range g {
			scale = max(scale, math.Abs(v))
		}
		for range min(each, len(g)) {
			i := r.IntN(len(g))
			at := func(d float64) float64 {
				old := s.values[w][i]
				defer func() { s.values[w][i] = old }()
				s.values[w][i] += d
				return s.run(p.Forward)
			}
			if want := (at(h) - at(-h)) / (2 * h); math.Abs(g[i]-want) > 1e-5*scale+1e-8 {
				t.Errorf("%s[%d]: gradient %v, by differences %v", w.Name, i, g[i], want)
			}
			checked++
		}
	}
	if checked == 0 {
		t.Error("no parameter to check")
	}
}

func TestGradientsEqualFiniteDifferences(t *testing.T) {
	for _, c := range small {
		t.Run(c.name, func(t *testing.T) {
			differences(t, compile(t, build(c.build), graph.Options{NoFusion: true}), 12)
			differences(t, compile(t, build(c.build), graph.Options{}), 12)
		})
	}
}

func TestGradientsOfResNetsEqualFiniteDifferences(t *testing.T) {
	for _, shortcut := range []string{"A", "B"} {
		t.Run("resnet8 "+shortcut, func(t *testing.T) {
			differences(t, resnet(t, "cifar", 8, shortcut, 2, 3, 8, graph.Options{}), 1)
		})
	}
}

// ResNet-18 is checked along one direction in the space of all its parameters. The step is small, so that hardly one of
// its many ReLUs changes sides.
func TestGradientOfResNet18EqualsADirectionalDifference(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	s := newStep(resnet(t, "imagenet", 18, "B", 2, 3, 33, graph.Options{}))
	s.run(s.Backward)
	r := rand.New(rand.NewPCG(5, 6))
	const h = 1e-9
	want := 0.0
	direction := map[*graph.Tensor][]float64{}
	for _, g := range s.Tensors {
		if g.Role != graph.ParameterGradient {
			continue
		}
		d := make([]float64, g.Shape.Values())
		for i := range d {
			d[i] = r.NormFloat64() * math.Abs(s.values[g][i])
			want += d[i] * s.values[g][i]
		}
		direction[g.Of] = d
	}
	at := func(by float64) float64 {
		for w, d := range direction {
			for i := range d {
				s.values[w][i] += by * d[i]
			}
		}
		return s.run(s.Forward)
	}
	up := at(h)
	down := at(-2 * h)
	if got := (up - down) / (2 * h); math.Abs(got-want) > 1e-4*math.Abs(want) {
		t.Errorf("the loss changes by %v along a direction, by its gradient %v", got, want)
	}
}

func TestFusionChangesNoResult(t *testing.T) {
	pairs := map[string][2]*graph.Plan{}
	for _, c := range small {
		pairs[c.name] = [2]*graph.Plan{compile(t, build(c.build), graph.Options{NoFusion: true}), compile(t, build(c.build), graph.Options{})}
	}
	for _, shortcut := range []string{"A", "B"} {
		pairs["resnet8 "+shortcut] = [2]*graph.Plan{
			resnet(t, "cifar", 8, shortcut, 2, 3, 8, graph.Options{NoFusion: true}), resnet(t, "cifar", 8, shortcut, 2, 3, 8, graph.Options{})}
		pairs["resnet8 in inference "+shortcut] = [2]*graph.Plan{
			resnet(t, "cifar", 8, shortcut, 2, 3, 8, graph.Options{Inference: true, NoFusion: true}), resnet(t, "cifar", 8, shortcut, 2, 3, 8, graph.Options{Inference: true})}
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			plain, fused := newStep(pair[0]), newStep(pair[1])
			plain.run(plain.Backward)
			fused.run(fused.Backward)
			got := fused.gradients()
			for w, want := range plain.gradients() {
				if off := relative(got[w], want); !(off <= 1e-12) {
					t.Errorf("gradient of %s is off by %.2g", w, off)
				}
			}
			if off := relative(fused.values[fused.Logits], plain.values[plain.Logits]); !(off <= 1e-12) {
				t.Errorf("logits are off by %.2g", off)
			}
			statistics := map[string][]float64{}
			for _, s := range plain.Tensors {
				if s.Role == graph.Statistic {
					statistics[s.Name] = plain.values[s]
				}
			}
			for _, s := range fused.Tensors {
				if s.Role == graph.Statistic {
					if off := relative(fused.values[s], statistics[s.Name]); !(off <= 1e-12) {
						t.Errorf("%s is off by %.2g", s.Name, off)
					}
				}
			}
		})
	}
}

// Every addition and ReLU of a ResNet is next to a batch norm, in both directions, and has to have gone into it.
func TestFusionLeavesNoAdditionOrReLUInResNets(t *testing.T) {
	for _, shortcut := range []string{"A", "B"} {
		for _, inference := range []bool{false, true} {
			p := resnet(t, "cifar", 20, shortcut, 2, 3, 32, graph.Options{Inference: inference})
			for _, o := range p.Ops {
				switch o.Kind {
				case graph.Add, graph.ReLU, graph.ReLUBackward:
					t.Errorf("shortcut %s, inference %v: %s of %s is left", shortcut, inference, o.Kind, o.Name)
				}
			}
		}
	}
}

func TestFusedOperationsNameWhatTheyHold(t *testing.T) {
	p := resnet(t, "cifar", 8, "A", 2, 3, 8, graph.Options{})
	want := map[string][]string{"stage1.0.bn1": {"batch norm", "relu"}, "stage1.0.bn2": {"batch norm", "add", "relu"}}
	for _, o := range p.Ops {
		if w := want[o.Name]; o.Kind == graph.BatchNorm && w != nil {
			if len(o.Fused) != len(w) {
				t.Errorf("%s holds %v, want %v", o.Name, o.Fused, w)
				continue
			}
			for i := range w {
				if o.Fused[i] != w[i] {
					t.Errorf("%s holds %v, want %v", o.Name, o.Fused, w)
				}
			}
			delete(want, o.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}
