package graph_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gotrain/configs"
	"gotrain/cpu/reference"
	"gotrain/graph"
	"gotrain/network"
)

// compile fails the test where the plan cannot be made.
func compile(t *testing.T, g *graph.Graph, o graph.Options) *graph.Plan {
	t.Helper()
	p, err := graph.Compile(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// resnet compiles a network of the project for images of c channels and a side of size.
func resnet(t *testing.T, form string, depth int, shortcut string, samples, channels, size int, o graph.Options) *graph.Plan {
	t.Helper()
	s := network.Spec{
		Config: configs.Network{Type: "resnet", Form: form, Depth: depth, Shortcut: shortcut,
			BatchNorm: configs.BatchNorm{Epsilon: 1e-5, RunningUpdate: 0.1}},
		Channels: channels, Height: size, Width: size, Classes: 10, Precision: graph.Float32,
	}
	p, err := s.Compile(samples, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// step is a plan with values in float64, unrounded.
type step struct {
	*graph.Plan
	values map[*graph.Tensor][]float64
}

// newStep fills inputs, parameters and statistics at random; a tensor's values depend on its name only, so that two plans
// of one network begin alike.
func newStep(p *graph.Plan) *step {
	s := &step{p, map[*graph.Tensor][]float64{}}
	for _, t := range p.Tensors {
		switch t.Role {
		case graph.Input, graph.Parameter, graph.Statistic:
			s.values[t] = start(t, p.Logits.Shape[1])
		}
	}
	return s
}

func start(t *graph.Tensor, classes int) []float64 {
	seed := uint64(1)
	for _, c := range t.Name {
		seed = seed*31 + uint64(c)
	}
	r := rand.New(rand.NewPCG(seed, 2))
	v := make([]float64, t.Shape.Values())
	for i := range v {
		switch {
		case t.Name == "labels":
			v[i] = float64(r.IntN(classes))
		case t.Name == "weights":
			if v[i] = 1; i%3 == 1 { // a sample that was skipped
				v[i] = 0
			}
		case t.Name == "divisor":
			v[i] = 3.5
		case strings.HasSuffix(t.Name, "gamma"), strings.HasSuffix(t.Name, "runningVar"):
			v[i] = 0.5 + r.Float64()
		case t.Role == graph.Parameter && len(t.Shape) > 1:
			v[i] = r.NormFloat64() * math.Sqrt(2/float64(t.Shape.Values()/t.Shape[0]))
		default:
			v[i] = r.NormFloat64()
		}
	}
	return v
}

// run runs the first operations and returns the mean loss.
func (s *step) run(ops int) float64 {
	for _, o := range s.Ops[:ops] {
		reference.Run(o, s.values)
	}
	for _, t := range s.Tensors {
		if t.Name == "divisor" {
			return s.values[s.Loss][0] / s.values[t][0]
		}
	}
	return math.NaN()
}

// gradients gives each parameter's after a run, by its name.
func (s *step) gradients() map[string][]float64 {
	g := map[string][]float64{}
	for _, t := range s.Tensors {
		if t.Role == graph.ParameterGradient {
			g[t.Of.Name] = s.values[t]
		}
	}
	return g
}

// relative is the norm of a-b over that of b.
func relative(a, b []float64) float64 {
	var off, norm float64
	for i := range b {
		off += (a[i] - b[i]) * (a[i] - b[i])
		norm += b[i] * b[i]
	}
	if norm == 0 {
		norm = 1
	}
	return math.Sqrt(off / norm)
}

// small are graphs that between them hold every operation in every role: first, in the middle, with a result that is read
// several times.
var small = []struct {
	name  string
	build func(g *graph.Graph, x *graph.Tensor) *graph.Tensor
}{
	{"dense", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		return g.GlobalAveragePool("pool", x)
	}},
	{"dense behind dense", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		return g.Dense("first", g.GlobalAveragePool("pool", x), 5)
	}},
	{"conv", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		return g.GlobalAveragePool("pool", g.Conv("conv", x, 4, 3, 1, 1))
	}},
	{"conv without padding, stride 2, behind conv", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		return g.GlobalAveragePool("pool", g.Conv("b", g.Conv("a", x, 4, 3, 1, 1), 3, 3, 2, 0))
	}},
	{"conv 1x1, stride 2, behind conv", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		return g.GlobalAveragePool("pool", g.Conv("b", g.Conv("a", x, 4, 3, 1, 1), 3, 1, 2, 0))
	}},
	{"batch norm", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		return g.GlobalAveragePool("pool", g.Conv("b", g.BatchNorm("bn", g.Conv("a", x, 4, 3, 1, 1), norm), 3, 3, 1, 1))
	}},
	{"relu without batch norm", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		return g.GlobalAveragePool("pool", g.ReLU("relu", g.Conv("a", x, 4, 3, 1, 1)))
	}},
	{"batch norm, relu", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		return g.GlobalAveragePool("pool", g.ReLU("relu", g.BatchNorm("bn", g.Conv("a", x, 4, 3, 1, 1), norm)))
	}},
	{"batch norm, whose result is read twice", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		y := g.BatchNorm("bn", g.Conv("a", x, 4, 3, 1, 1), norm)
		return g.GlobalAveragePool("pool", g.Add("add", g.ReLU("relu", y), y))
	}},
	{"sum of a tensor with itself", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		y := g.BatchNorm("bn", g.Conv("a", x, 4, 3, 1, 1), norm)
		return g.GlobalAveragePool("pool", g.ReLU("relu", g.Add("add", y, y)))
	}},
	{"sum of two batch norms", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		y := g.BatchNorm("bn1", g.Conv("a", x, 4, 3, 1, 1), norm)
		z := g.BatchNorm("bn2", g.Conv("b", x, 4, 3, 1, 1), norm)
		return g.GlobalAveragePool("pool", g.ReLU("relu", g.Add("add", y, z)))
	}},
	{"sum with the images", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		return g.GlobalAveragePool("pool", g.ReLU("relu", g.Add("add", g.BatchNorm("bn", g.Conv("a", x, 3, 3, 1, 1), norm), x)))
	}},
	{"tensor with four readers", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		y := g.ReLU("relu", g.BatchNorm("bn", g.Conv("a", x, 4, 3, 1, 1), norm))
		z := g.Add("z", g.Conv("b", y, 4, 3, 1, 1), g.Conv("c", y, 4, 1, 1, 0))
		return g.GlobalAveragePool("pool", g.Add("sum", g.Add("w", z, y), g.MaxPool("max", y, 3, 1, 1)))
	}},
	{"block, whose result is added to itself", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		x = g.Conv("a", x, 4, 3, 1, 1)
		y := g.ReLU("relu", g.Add("add", g.BatchNorm("bn", g.Conv("b", x, 4, 3, 1, 1), norm), x))
		return g.GlobalAveragePool("pool", g.Add("double", y, y))
	}},
	{"sum of three, read twice", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		a, b := g.Conv("a", x, 4, 3, 1, 1), g.Conv("b", x, 4, 1, 1, 0)
		y := g.Add("three", g.Add("two", g.BatchNorm("bn", g.Conv("c", x, 4, 3, 1, 1), norm), a), b)
		return g.GlobalAveragePool("pool", g.Add("sum", g.Conv("d", y, 4, 3, 1, 1), g.Conv("e", y, 4, 1, 1, 0)))
	}},
	{"subsample", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		y := g.Subsample("sub", g.Conv("a", x, 2, 3, 1, 1), 4, 2)
		return g.GlobalAveragePool("pool", g.Conv("b", y, 3, 3, 1, 1))
	}},
	{"max pool with overlap", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		y := g.MaxPool("max", g.ReLU("relu", g.BatchNorm("bn", g.Conv("a", x, 4, 3, 1, 1), norm)), 3, 2, 1)
		return g.GlobalAveragePool("pool", g.Conv("b", y, 3, 3, 1, 1))
	}},
	{"two residual blocks", func(g *graph.Graph, x *graph.Tensor) *graph.Tensor {
		x = g.ReLU("stem.relu", g.BatchNorm("stem.bn", g.Conv("stem", x, 4, 3, 1, 1), norm))
		for i, stride := range []int{1, 2} {
			n := []string{"first", "second"}[i]
			y := g.ReLU(n+".relu1", g.BatchNorm(n+".bn1", g.Conv(n+".conv1", x, 2, 1, 1, 0), norm))
			y = g.ReLU(n+".relu2", g.BatchNorm(n+".bn2", g.Conv(n+".conv2", y, 2, 3, stride, 1), norm))
			y = g.BatchNorm(n+".bn3", g.Conv(n+".conv3", y, 4*(i+1), 1, 1, 0), norm)
			if i == 1 {
				x = g.BatchNorm(n+".bn", g.Conv(n+".shortcut", x, 8, 1, stride, 0), norm)
			}
			x = g.ReLU(n+".relu", g.Add(n+".add", y, x))
		}
		return g.GlobalAveragePool("pool", x)
	}},
}

var norm = graph.Norm{Epsilon: 1e-2, Update: 0.2}

// build makes one of the small graphs, for 4 images of 3x7x6 and 3 classes.
func build(f func(g *graph.Graph, x *graph.Tensor) *graph.Tensor) *graph.Graph {
	g := graph.New(graph.Float32)
	in := g.Inputs(4, 3, 7, 6)
	g.Loss(g.Dense("fc", f(g, in.Images), 3), in)
	return g
}
