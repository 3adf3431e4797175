package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gotrain/configs"
	"gotrain/graph"
	"gotrain/network"
)

// net is a network and its data.
type net struct {
	name string
	spec network.Spec
}

var nets = []net{
	{"resnet8 A", spec("cifar", 8, "A", graph.Float32)},
	{"resnet8 B", spec("cifar", 8, "B", graph.Float32)},
	{"resnet14 B bfloat16", spec("cifar", 14, "B", graph.BFloat16)},
	{"resnet18", spec("imagenet", 18, "B", graph.Float32)},
}

func spec(form string, depth int, shortcut string, precision graph.DType) network.Spec {
	return network.Spec{
		Config: configs.Network{Type: "resnet", Form: form, Depth: depth, Shortcut: shortcut,
			BatchNorm: configs.BatchNorm{Epsilon: 1e-5, RunningUpdate: 0.1}},
		Channels: 2, Height: 9, Width: 8, Classes: 5, Precision: precision,
	}
}

func (c net) source(o graph.Options) graph.Source {
	return func(samples int, inference bool) (*graph.Plan, error) {
		o.Inference = inference
		return c.spec.Compile(samples, o)
	}
}

func (c net) batch(n int, seed int64) *graph.Batch {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	b := &graph.Batch{N: n, Images: make([]float32, n*c.spec.Channels*c.spec.Height*c.spec.Width), Divisor: float32(n)}
	for i := range b.Images {
		b.Images[i] = float32(r.NormFloat64())
	}
	for range n {
		b.Labels, b.Weights = append(b.Labels, int32(r.IntN(c.spec.Classes))), append(b.Weights, 1)
	}
	return b
}

func open(t *testing.T, source graph.Source) *Executor {
	t.Helper()
	e, err := New(source)
	if err != nil {
		t.Fatal(err)
	}
	initialize(e)
	return e
}

func initialize(e *Executor) {
	p, s := e.Layouts()
	network.Initialize(p, 1, e.Arena(graph.Parameters))
	network.Initialize(s, 1, e.Arena(graph.Statistics))
}

func TestBucketsAreReadyInOrderAndFinal(t *testing.T) {
	c := nets[1]
	e := open(t, c.source(graph.Options{BucketBytes: 1 << 14}))
	b := c.batch(3, 1)
	if _, err := e.Gradients(b, nil); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(e.Arena(graph.Gradients))
	for _, n := range []int{3, 0} {
		if n == 0 {
			b, want = &graph.Batch{Divisor: 3}, make([]float32, len(want))
		}
		for i := range e.Arena(graph.Gradients) {
			e.Arena(graph.Gradients)[i] = 7
		}
		end, count := 0, 0
		m, err := e.Gradients(b, onReady(func(k graph.Bucket, _ graph.Metrics) {
			if k.Begin != end {
				t.Errorf("%d samples: bucket %+v follows one that ends at %d", n, k, end)
			}
			for _, s := range e.parameters.Slots {
				if s.Offset >= k.Begin && s.End() <= k.End && !slices.Equal(e.Arena(graph.Gradients)[s.Offset:s.End()], want[s.Offset:s.End()]) {
					t.Errorf("%d samples: %s is not final when its bucket is ready", n, s.Name)
				}
			}
			end, count = k.End, count+1
		}))
		if err != nil {
			t.Fatal(err)
		}
		if end != e.parameters.Size || count < 3 {
			t.Errorf("%d samples: %d buckets end at %d of %d", n, count, end, e.parameters.Size)
		}
		if n == 0 && m != (graph.Metrics{}) {
			t.Errorf("no samples have metrics %v", m)
		}
	}
}

// The gradient of a share is divided by the global count, so that shares add up to the whole where batch norm does not
// tell them apart: here each share holds the same samples.
func TestSharesAddUp(t *testing.T) {
	c := nets[0]
	e := open(t, c.source(graph.Options{}))
	b := c.batch(3, 1)
	whole, err := e.Gradients(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(e.Arena(graph.Gradients))
	b.Divisor = 6
	if half, err := e.Gradients(b, nil); err != nil || half != whole {
		t.Errorf("metrics %v (%v) with another divisor, want %v", half, err, whole)
	}
	for i, g := range e.Arena(graph.Gradients) {
		if math.Abs(float64(2*g-want[i])) > 1e-6 {
			t.Fatalf("gradient %d is %v in a share of half, %v in the whole", i, g, want[i])
		}
	}
}

func TestASampleOfWeightZeroDoesNotCount(t *testing.T) {
	c := nets[0]
	e := open(t, c.source(graph.Options{}))
	b := c.batch(3, 1)
	one, err := e.Evaluate(&graph.Batch{N: 1, Images: b.Images[2*len(b.Images)/3:], Labels: b.Labels[2:], Weights: b.Weights[2:], Divisor: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Weights = []float32{0, 0, 1}
	m, err := e.Evaluate(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Count != 1 || m.Errors != one.Errors || math.Abs(m.Loss-one.Loss) > 1e-9 {
		t.Errorf("metrics %v, want those of the third sample, %v", m, one)
	}
	b.Weights = []float32{0, 0, 0}
	if _, err := e.Gradients(b, nil); err != nil {
		t.Fatal(err)
	}
	if s, _ := e.SumSquares(); s != 0 {
		t.Errorf("samples of weight 0 have a gradient, %v squared", s)
	}
}

func TestBatchesThatDoNotFitAreRefused(t *testing.T) {
	c := nets[0]
	e := open(t, c.source(graph.Options{}))
	for _, x := range []struct {
		name  string
		spoil func(b *graph.Batch)
		want  string
	}{
		{"label too large", func(b *graph.Batch) { b.Labels[1] = 5 }, "sample 1 of the batch has label 5: labels go from 0 to 4"},
		{"label negative", func(b *graph.Batch) { b.Labels[2] = -1 }, "sample 2 of the batch has label -1: labels go from 0 to 4"},
		{"too few pixels", func(b *graph.Batch) { b.Images = b.Images[1:] }, "the batch has 431 values, 3 labels and 3 weights for images [3x2x9x8]"},
		{"too few labels", func(b *graph.Batch) { b.Labels = b.Labels[1:] }, "the batch has 432 values, 2 labels and 3 weights for images [3x2x9x8]"},
		{"too few weights", func(b *graph.Batch) { b.Weights = b.Weights[1:] }, "the batch has 432 values, 3 labels and 2 weights for images [3x2x9x8]"},
	} {
		b := c.batch(3, 1)
		x.spoil(b)
		if _, err := e.Gradients(b, nil); err == nil || err.Error() != x.want {
			t.Errorf("%s: got error %v, want %q", x.name, err, x.want)
		}
	}
}

func TestSourceErrorsAreReported(t *testing.T) {
	c := nets[0]
	c.spec.Classes = 1
	want := "compile a plan for 1 samples: the data has 1 classes: a classifier needs 2 at least"
	if _, err := New(c.source(graph.Options{})); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}

// onReady is an exchange of one worker that tells when buckets are ready.
type onReady func(graph.Bucket, graph.Metrics)

func (f onReady) Ready(b graph.Bucket, m graph.Metrics)      { f(b, m) }
func (f onReady) Wait() (graph.Metrics, error)               { return graph.Metrics{}, nil }
func (f onReady) Gather(send []float64) ([][]float64, error) { return [][]float64{send}, nil }
