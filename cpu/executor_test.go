package cpu_test

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gotrain/cpu"
	"gotrain/graph"
)

// convolution is a body of one 3x3 convolution.
func convolution(channels, stride int) body {
	return func(g *graph.Graph, x *graph.Tensor, n graph.Norm) *graph.Tensor {
		return g.BatchNorm("b", g.Conv("c", x, channels, 3, stride, 1), n)
	}
}

func TestBatchesThatDoNotFitAreRefused(t *testing.T) {
	e := open(t, source(convolution(16, 1), 16, 2, 6, 5, graph.Float32, graph.Options{}), cpu.Options{Batch: 3})
	for _, c := range []struct {
		name  string
		spoil func(b *graph.Batch)
		want  string
	}{
		{"label too large", func(b *graph.Batch) { b.Labels[1] = 5 }, "sample 1 of the batch has label 5: labels go from 0 to 4"},
		{"label negative", func(b *graph.Batch) { b.Labels[2] = -1 }, "sample 2 of the batch has label -1: labels go from 0 to 4"},
		{"too few pixels", func(b *graph.Batch) { b.Images = b.Images[1:] }, "the batch has 179 values, 3 labels and 3 weights for images [3x2x6x5]"},
		{"too many pixels", func(b *graph.Batch) { b.Images = append(b.Images, 0) }, "the batch has 181 values, 3 labels and 3 weights for images [3x2x6x5]"},
		{"too few labels", func(b *graph.Batch) { b.Labels = b.Labels[1:] }, "the batch has 180 values, 2 labels and 3 weights for images [3x2x6x5]"},
		{"too few weights", func(b *graph.Batch) { b.Weights = b.Weights[1:] }, "the batch has 180 values, 3 labels and 2 weights for images [3x2x6x5]"},
	} {
		b := randomBatch(rand.New(rand.NewPCG(1, 2)), 3, 2, 6, 5, 5)
		c.spoil(b)
		if _, err := e.Gradients(b, nil); err == nil || err.Error() != c.want {
			t.Errorf("%s: a step gives %v, want %q", c.name, err, c.want)
		}
		if _, err := e.Evaluate(b, nil); err == nil || err.Error() != c.want {
			t.Errorf("%s: an evaluation gives %v, want %q", c.name, err, c.want)
		}
	}
}

func TestNetworksThatCannotBeLoweredAreRefused(t *testing.T) {
	for _, c := range []struct {
		name     string
		channels int
		samples  int
		options  cpu.Options
		want     string
	}{
		{"channels that do not fill a block", 12, 2, cpu.Options{ISA: "portable"}, "c: 12 channels: this processor's kernels take a multiple of 8"},
		{"more memory than an address can say", 16, 1 << 40, cpu.Options{}, "no memory for the input (260046848 MiB): lower learner.minibatchSize or distributed.workers"},
		{"unknown kernels", 16, 2, cpu.Options{ISA: "avx1024"}, `this machine has no kernels for "avx1024"`},
	} {
		c.options.Batch = c.samples
		_, err := cpu.New(source(convolution(c.channels, 1), 16, 2, 6, 5, graph.Float32, graph.Options{}), c.options)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}
}

// A fault of one number of samples leaves the others as they were.
func TestARefusedBatchLeavesTheExecutorUsable(t *testing.T) {
	compile := func(samples int, inference bool) (*graph.Plan, error) {
		channels := 16
		if samples == 3 {
			channels = 12
		}
		return source(convolution(channels, 1), 16, 2, 6, 5, graph.Float32, graph.Options{})(samples, inference)
	}
	e := open(t, compile, cpu.Options{Batch: 2, ISA: "portable"})
	rng := rand.New(rand.NewPCG(1, 2))
	two, three := randomBatch(rng, 2, 2, 6, 5, 5), randomBatch(rng, 3, 2, 6, 5, 5)
	want, err := e.Gradients(two, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		refusal := "c: 12 channels: this processor's kernels take a multiple of 8"
		if _, err := e.Gradients(three, nil); err == nil || err.Error() != refusal {
			t.Errorf("got error %v, want %q", err, refusal)
		}
		if got, err := e.Gradients(two, nil); err != nil || got != want {
			t.Errorf("metrics %+v (%v) after a refused batch, want %+v", got, err, want)
		}
	}
}

// oneDNN reads its environment once, so that the fault is provoked in a process of its own.
func TestBFloat16WithoutTheProcessorForItIsRefused(t *testing.T) {
	const limit = "ONEDNN_MAX_CPU_ISA"
	if os.Getenv(limit) == "" {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), limit+"=AVX2")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	_, err := cpu.New(source(convolution(16, 2), 16, 2, 6, 5, graph.BFloat16, graph.Options{}), cpu.Options{Batch: 2})
	want := "c: conv: oneDNN: preparing a convolution: not supported on this machine (status 3)"
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}

func TestABatchOfNoSamplesLeavesZeroGradients(t *testing.T) {
	e := open(t, source(convolution(32, 1), 16, 2, 6, 5, graph.Float32, graph.Options{BucketBytes: 1 << 12}), cpu.Options{Batch: 2})
	for i := range e.Arena(graph.Gradients) {
		e.Arena(graph.Gradients)[i] = float32(math.NaN())
	}
	var buckets []graph.Bucket
	m, err := e.Gradients(&graph.Batch{Divisor: 3}, onReady(func(b graph.Bucket, m graph.Metrics) {
		if m != (graph.Metrics{}) {
			t.Errorf("bucket %+v has metrics %+v", b, m)
		}
		buckets = append(buckets, b)
	}))
	if err != nil || m != (graph.Metrics{}) {
		t.Errorf("metrics %+v (%v)", m, err)
	}
	if got, want := len(buckets), len(e.Plan().Buckets); got != want || got < 2 {
		t.Fatalf("%d of %d buckets", got, want)
	}
	for i, b := range e.Plan().Buckets {
		if buckets[i] != b {
			t.Errorf("bucket %d is %+v, want %+v", i, buckets[i], b)
		}
	}
	for i, g := range e.Arena(graph.Gradients) {
		if g != 0 {
			t.Fatalf("gradient %d is %v", i, g)
		}
	}
	if m, err := e.Evaluate(&graph.Batch{}, nil); err != nil || m != (graph.Metrics{}) {
		t.Errorf("evaluation gives %+v (%v)", m, err)
	}
}
