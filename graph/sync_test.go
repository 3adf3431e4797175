package graph_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gotrain/graph"
)

// shares is an exchange whose other workers have sent these.
type shares [][]float64

func (shares) Ready(graph.Bucket, graph.Metrics)            {}
func (shares) Wait() (graph.Metrics, error)                 { return graph.Metrics{}, nil }
func (s shares) Gather(send []float64) ([][]float64, error) { return s, nil }

// moments of the values of one channel.
func moments(values []float64) graph.Share {
	s := graph.NewShare(1)
	if s[0] = float64(len(values)); len(values) == 0 {
		return s
	}
	for _, v := range values {
		s[1] += v / s[0]
	}
	for _, v := range values {
		s[2] += (v - s[1]) * (v - s[1])
	}
	return s
}

func TestMomentsOfSharesAreThoseOfTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float64, 40)
	for i := range values {
		values[i] = 1e6 + r.NormFloat64() // the variance is lost where squares are not about a mean
	}
	want := moments(values)
	for _, cuts := range [][]int{{0, 40}, {0, 1, 40}, {0, 0, 13, 13, 39, 40, 40}, {0, 10, 20, 30, 40}} {
		var x shares
		for i := range cuts[1:] {
			x = append(x, moments(values[cuts[i]:cuts[i+1]]))
		}
		got := graph.Share(slices.Clone(x[0]))
		if err := got.Moments(x); err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if math.Abs(got[i]-w) > 1e-9*w {
				t.Errorf("cut at %v: %v, want %v", cuts, got, want)
			}
		}
	}
}

func TestOneWorkersShareIsTheWhole(t *testing.T) {
	for _, x := range []graph.Exchange{nil, shares{{7, 0.1, 0.3}}} {
		s := graph.Share{7, 0.1, 0.3}
		if err := s.Moments(x); err != nil || !slices.Equal(s, graph.Share{7, 0.1, 0.3}) {
			t.Errorf("moments are %v (%v)", s, err)
		}
		if err := s.Sums(x); err != nil || !slices.Equal(s, graph.Share{7, 0.1, 0.3}) {
			t.Errorf("sums are %v (%v)", s, err)
		}
	}
}

// Infinite values must not be averaged away: the run has diverged, and everybody has to see it.
func TestValuesThatAreNotFiniteStay(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		s := graph.NewShare(1)
		if err := s.Moments(shares{{2, 1, 1}, {2, bad, math.NaN()}, {2, 1, 1}}); err != nil || !math.IsNaN(s.First()[0]) && !math.IsInf(s.First()[0], 0) {
			t.Errorf("%v becomes %v (%v)", bad, s, err)
		}
	}
}

func TestSharesOfAnotherNetworkAreRefused(t *testing.T) {
	want := "worker 1 gives 5 values for a batch norm of 1 channels: all workers have to train the same network"
	if err := graph.NewShare(1).Sums(shares{{1, 2, 3}, {1, 2, 3, 4, 5}}); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}

func TestSynchronizedBatchNormsKeepTheirMarkThroughThePasses(t *testing.T) {
	for _, inference := range []bool{false, true} {
		g := graph.New(graph.Float32)
		in := g.Inputs(50, 3, 8, 8)
		n := graph.Norm{Epsilon: 1e-5, TimeConstant: 100, Sync: true, Inference: inference}
		y := g.Conv("conv1", in.Images, 4, 3, 1, 1)
		x := g.ReLU("relu", g.Add("add", g.BatchNorm("bn2", g.Conv("conv2", in.Images, 4, 3, 1, 1), n), y))
		g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", x), 3), in)
		found := 0
		for _, o := range compile(t, g, graph.Options{Inference: inference}).Ops {
			switch o.Kind {
			case graph.BatchNorm, graph.BatchNormBackward:
				if found++; !o.Attr.Sync || !o.Attr.Addend || !o.Attr.ReLU || math.Abs(o.Attr.Update-(1-math.Exp(-0.5))) > 1e-15 {
					t.Errorf("%s of %s has %+v", o.Kind, o.Name, o.Attr)
				}
			default:
				if o.Attr.Sync {
					t.Errorf("%s of %s is synchronized", o.Kind, o.Name)
				}
			}
		}
		if want := map[bool]int{false: 2, true: 0}[inference]; found != want {
			t.Errorf("inference %v: %d batch norms, want %d", inference, found, want)
		}
	}
}

func TestTheTimeConstantCountsTheImagesOfAllWorkers(t *testing.T) {
	g := graph.New(graph.Float32)
	in := g.Inputs(2, 3, 4, 4)
	g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", g.BatchNorm("bn", g.Conv("conv", in.Images, 1, 3, 1, 1), graph.Norm{TimeConstant: 100, Sync: true})), 3), in)
	p := compile(t, g, graph.Options{})
	o := p.Ops[1]
	mean, variance := []float64{4}, []float64{10}
	graph.UpdateRunning(o, graph.Share{16 * 50, 3, 799 * 20}, mean, variance)
	u := 1 - math.Exp(-0.5)
	if want := 4 + u*(3-4); math.Abs(mean[0]-want) > 1e-12 {
		t.Errorf("mean %v, want %v", mean[0], want)
	}
	if want := 10 + u*(20-10); math.Abs(variance[0]-want) > 1e-12 {
		t.Errorf("variance %v, want %v", variance[0], want)
	}
	graph.UpdateRunning(o, graph.NewShare(1), mean, variance)
	if math.IsNaN(mean[0]) || math.IsNaN(variance[0]) {
		t.Error("no samples at all spoil the running statistics")
	}
}
