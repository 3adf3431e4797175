package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gotrain/graph"
	"gotrain/graph/graphtest"
)

// synchronized is the network with synchronized batch norm.
func (c net) synchronized() net {
	c.spec.Config.BatchNorm.Sync = true
	return c
}

// share is a part of a batch, [from, to), that is divided by the whole's divisor.
func share(b *graph.Batch, from, to int) *graph.Batch {
	if from == to {
		return &graph.Batch{Divisor: b.Divisor}
	}
	each := len(b.Images) / b.N
	return &graph.Batch{N: to - from, Images: b.Images[from*each : to*each], Labels: b.Labels[from:to], Weights: b.Weights[from:to], Divisor: b.Divisor}
}

// The values within a step are not rounded, so that little but the order of sums is between several workers and one.
func TestGradientsOfWorkersAddUpToThoseOfOne(t *testing.T) {
	cuts := []int{0, 5, 8, 8, 16}
	for _, c := range nets {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.spec.Config.Depth > 14 {
				t.Skip("takes seconds")
			}
			b := c.batch(16, 1)
			b.Weights[6] = 0
			one := open(t, c.source(graph.Options{}))
			whole, err := one.Gradients(b, nil)
			if err != nil {
				t.Fatal(err)
			}
			n := len(cuts) - 1
			workers, metrics := make([]*Executor, n), make([]graph.Metrics, n)
			for r := range n {
				workers[r] = open(t, c.synchronized().source(graph.Options{BucketBytes: 1 << 14}))
			}
			if err := graphtest.Run(n, func(r int, w *graphtest.Worker) (err error) {
				if metrics[r], err = workers[r].Gradients(share(b, cuts[r], cuts[r+1]), w); err == nil {
					_, err = w.Wait()
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			var sum graph.Metrics
			for _, m := range metrics {
				sum.Add(m)
			}
			if math.Abs(sum.Loss-whole.Loss) > 1e-10*whole.Loss || sum.Count != whole.Count || sum.Errors != whole.Errors {
				t.Errorf("metrics %+v, want %+v", sum, whole)
			}
			got := map[string][]float64{}
			for r := range n {
				for name, g := range workers[r].gradients(cuts[r+1] - cuts[r]) {
					if got[name] == nil {
						got[name] = make([]float64, len(g))
					}
					for i := range g {
						got[name][i] += g[i]
					}
				}
			}
			worst := 0.0
			for name, want := range one.gradients(16) {
				var off, norm float64
				for i, w := range want {
					off, norm = off+(got[name][i]-w)*(got[name][i]-w), norm+w*w
				}
				worst = max(worst, math.Sqrt(off/norm))
				if !(off <= 1e-22*norm) {
					t.Errorf("the gradient of %s is off by %.2g", name, math.Sqrt(off/norm))
				}
			}
			t.Logf("gradients are off by %.2g at most", worst)
			for r := range n {
				if !slices.Equal(workers[r].Arena(graph.Statistics), workers[0].Arena(graph.Statistics)) {
					t.Errorf("worker %d has other running statistics than worker 0", r)
				}
			}
			for i, v := range workers[0].Arena(graph.Statistics) {
				if want := one.Arena(graph.Statistics)[i]; math.Abs(float64(v-want)) > 1e-6*math.Abs(float64(want)) {
					t.Errorf("running statistic %d is %v, want %v", i, v, want)
				}
			}
			for i, g := range workers[2].Arena(graph.Gradients) {
				if g != 0 {
					t.Fatalf("gradient %d of no samples is %v", i, g)
				}
			}
		})
	}
}

// gradients are those of the last step with so many samples, unrounded.
func (e *Executor) gradients(samples int) map[string][]float64 {
	found := map[string][]float64{}
	if samples == 0 {
		return found
	}
	p := e.plans[planKey{samples, false}]
	for _, t := range p.Tensors {
		if t.Role == graph.ParameterGradient {
			found[t.Of.Name] = p.values[t]
		}
	}
	return found
}

// The loss of two workers, as a function of parameters that both hold, changes as their gradients' sum says.
func TestGradientsOfTwoWorkersEqualFiniteDifferences(t *testing.T) {
	c := nets[1].synchronized()
	b := c.batch(5, 2)
	cuts := []int{0, 2, 5}
	var workers [2]*Executor
	var plans [2]*prepared
	for r := range workers {
		workers[r] = open(t, c.source(graph.Options{}))
		var err error
		if plans[r], err = workers[r].plan(cuts[r+1]-cuts[r], false); err != nil {
			t.Fatal(err)
		}
	}
	step := func(part func(e *Executor, p *prepared, b *graph.Batch, w *graphtest.Worker) error) float64 {
		t.Helper()
		if err := graphtest.Run(2, func(r int, w *graphtest.Worker) error {
			return part(workers[r], plans[r], share(b, cuts[r], cuts[r+1]), w)
		}); err != nil {
			t.Fatal(err)
		}
		return (plans[0].values[plans[0].Loss][0] + plans[1].values[plans[1].Loss][0]) / float64(b.Divisor)
	}
	step(func(e *Executor, p *prepared, b *graph.Batch, w *graphtest.Worker) error {
		_, err := e.run(p, b, p.Backward, w, func(int) {})
		return err
	})
	forward := func(_ *Executor, p *prepared, _ *graph.Batch, w *graphtest.Worker) error {
		for _, o := range p.Ops[:p.Forward] {
			if err := runShared(o, p.values, w); err != nil {
				return err
			}
		}
		return nil
	}
	random := rand.New(rand.NewPCG(3, 4))
	const h = 1e-6
	for k, d := range plans[0].Tensors {
		if d.Role != graph.ParameterGradient {
			continue
		}
		at := []*graph.Tensor{d.Of, plans[1].Tensors[k].Of}
		if at[0].Name != at[1].Name {
			t.Fatalf("plans of one network list %s and %s in one place", at[0].Name, at[1].Name)
		}
		g0, g1 := plans[0].values[d], plans[1].values[plans[1].Tensors[k]]
		scale := 0.0
		for i := range g0 {
			scale = max(scale, math.Abs(g0[i]+g1[i]))
		}
		for range 2 {
			i := random.IntN(len(g0))
			loss := func(by float64) float64 {
				for r, w := range at {
					old := plans[r].values[w][i]
					defer func() { plans[r].values[w][i] = old }()
					plans[r].values[w][i] += by
				}
				return step(forward)
			}
			if want := (loss(h) - loss(-h)) / (2 * h); math.Abs(g0[i]+g1[i]-want) > 1e-5*scale+1e-8 {
				t.Errorf("%s[%d]: gradient %v, by differences %v", at[0].Name, i, g0[i]+g1[i], want)
			}
		}
	}
}

// One worker alone has the ordinary batch norm.
func TestSynchronizedBatchNormOfOneWorkerIsBatchNorm(t *testing.T) {
	c := nets[1]
	plain, alone, exchange := open(t, c.source(graph.Options{})), open(t, c.synchronized().source(graph.Options{})), open(t, c.synchronized().source(graph.Options{}))
	b, u := c.batch(3, 1), graph.Update{Rule: graph.SGD, Rate: 0.1, Gain: 1}
	want, err := plain.Step(b, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]*Executor{"without an exchange": alone, "with one": exchange} {
		if err := graphtest.Run(1, func(_ int, w *graphtest.Worker) error {
			w.Gradients = e.Arena(graph.Gradients)
			var x graph.Exchange
			if e == exchange {
				x = w
			}
			got, err := e.Step(b, u, x)
			if math.Abs(got.Loss-want.Loss) > 1e-12 || math.Abs(got.Norm-want.Norm) > 1e-6 {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, a := range []graph.Arena{graph.Parameters, graph.Statistics} {
			for i, v := range e.Arena(a) {
				if w := plain.Arena(a)[i]; math.Abs(float64(v-w)) > 1e-6 {
					t.Fatalf("%s: %s %d is %v, want %v", name, a, i, v, w)
				}
			}
		}
	}
}

// A worker that fails ends the step of the others.
func TestALostWorkerEndsTheStep(t *testing.T) {
	c := nets[1].synchronized()
	b := c.batch(4, 1)
	var workers [2]*Executor
	for r := range workers {
		workers[r] = open(t, c.source(graph.Options{}))
	}
	err := graphtest.Run(2, func(r int, w *graphtest.Worker) error {
		mine := share(b, 2*r, 2*r+2)
		if r == 1 {
			mine.Labels = []int32{0, 5}
		}
		_, err := workers[r].Gradients(mine, w)
		return err
	})
	want := "worker 0 waits for one that has left\nsample 1 of the batch has label 5: labels go from 0 to 4"
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}
