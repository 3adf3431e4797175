package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gotrain/cpu"
	"gotrain/cpu/reference"
	"gotrain/graph"
)

// parts returns both executors of a small network, the fast one with so many threads, with equal random arenas.
func parts(t *testing.T, rng *rand.Rand, threads int) (fast *cpu.Executor, slow *reference.Executor) {
	src := source(convolution(32, 1), 16, 2, 6, 5, graph.Float32, graph.Options{})
	fast = open(t, src, cpu.Options{Threads: threads})
	slow, err := reference.New(src)
	if err != nil {
		t.Fatal(err)
	}
	for a := range graph.Arenas {
		for i := range fast.Arena(a) {
			v := float32(rng.NormFloat64())
			if a == graph.SecondMoment {
				v *= v
			}
			fast.Arena(a)[i] = v
		}
		copy(slow.Arena(a), fast.Arena(a))
	}
	return fast, slow
}

func TestUpdatesEqualTheReferences(t *testing.T) {
	for _, c := range []struct {
		name string
		u    graph.Update
	}{
		{"sgd", graph.Update{Rule: graph.SGD, Rate: 0.1, Gain: 1}},
		{"sgd with L2 and a gain", graph.Update{Rule: graph.SGD, Rate: 0.1, Gain: 0.5, L2: 0.3}},
		{"sgd, clipped", graph.Update{Rule: graph.SGD, Rate: 0.1, Gain: 1, L2: 0.3, Clip: 7}},
		{"momentum", graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 1}},
		{"momentum with unit gain, L2, clipped", graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 0.1, L2: 0.3, Clip: 7}},
		{"nesterov", graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 1, Nesterov: true}},
		{"nesterov with unit gain, L2, clipped", graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 0.1, Nesterov: true, L2: 0.3, Clip: 7}},
		{"adam, first step", graph.Update{Rule: graph.Adam, Rate: 0.1, Gain: 1, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, Step: 1}},
		{"adam with a gain, L2, clipped", graph.Update{Rule: graph.Adam, Rate: 0.1, Gain: 0.5, L2: 0.3, Clip: 7, Beta1: 0.9, Beta2: 0.99, Epsilon: 0.1, Step: 12}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for threads := 1; threads <= 3; threads += 2 {
				fast, slow := parts(t, rand.New(rand.NewPCG(3, 4)), threads)
				for _, e := range []executor{fast, slow} {
					if err := e.Update(c.u); err != nil {
						t.Fatal(err)
					}
				}
				for a := range graph.Arenas {
					if d := apart(fast.Arena(a), slow.Arena(a), 1); !(d <= 1e-6) {
						t.Errorf("%d threads: the %s are %.2g from the reference", threads, a, d)
					}
				}
			}
		})
	}
}

func TestAnUnknownRuleIsRefused(t *testing.T) {
	fast, _ := parts(t, rand.New(rand.NewPCG(3, 4)), 1)
	if err := fast.Update(graph.Update{Rule: 7}); err == nil || err.Error() != "no update rule 7" {
		t.Errorf("got error %v", err)
	}
}

func TestTheSumOfSquaresDoesNotDependOnThreads(t *testing.T) {
	var first float64
	for threads := 1; threads <= 3; threads++ {
		fast, slow := parts(t, rand.New(rand.NewPCG(3, 4)), threads)
		got, err := fast.SumSquares()
		if err != nil {
			t.Fatal(err)
		}
		want, _ := slow.SumSquares()
		if math.Abs(got-want) > 1e-12*want {
			t.Errorf("%d threads: %v, the reference has %v", threads, got, want)
		}
		if threads == 1 {
			first = got
		} else if got != first {
			t.Errorf("%d threads: %v, one has %v", threads, got, first)
		}
		g := fast.Arena(graph.Gradients)
		for i, bad := range map[int]float64{0: math.Inf(1), len(g) - 1: math.NaN()} {
			g[i] = float32(bad)
			if got, _ := fast.SumSquares(); !math.IsNaN(got) && !math.IsInf(got, 1) {
				t.Errorf("%v among the gradients has the sum %v", bad, got)
			}
			g[i] = 0
		}
	}
}
