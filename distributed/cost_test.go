package distributed

import (
	"math"
	"testing"

	"gotrain/graph"
)

// twoBuckets is a machine of two workers whose arena is one weight of 64 output channels with 1,000 values each; the first
// half of it is there after 40 ms, the rest at the end of the backward pass, after 100 ms. The link passes 1 MB/s.
func twoBuckets() Machine {
	l := &graph.Layout{Slots: []graph.Slot{{Name: "weight", Shape: graph.Shape{64, 1000}}}, Size: 64000}
	return Machine{Workers: 2, Layout: l, Plan: []graph.Bucket{{Begin: 0, End: 32000}, {Begin: 32000, End: 64000}},
		Ready: []float64{0.04, 0.1}, Backward: 0.1, Update: 0.01, Link: Link{Bandwidth: 1e6},
		Encode: map[int]float64{}, Decode: map[int]float64{}}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9+1e-6*math.Abs(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Each bucket has 32,000 values, half of which a worker sends in each phase: 64,000 bytes and the header or the flag.
const (
	scatterSeconds = (headerBytes + 64000) / 1e6
	gatherSeconds  = (flagBytes + 64000) / 1e6
)

func TestThePredictionFollowsTheLink(t *testing.T) {
	m := twoBuckets()
	c := m.Predict(32, Settings{Overlap: true, BucketBytes: 1})
	// The first bucket goes at 40 ms, its sums when it has arrived; the second has to wait for them.
	end := 0.04 + scatterSeconds + gatherSeconds + scatterSeconds + gatherSeconds
	near(t, "exposed", c.Exposed, end-0.1)
	near(t, "total", c.Total, end+0.01)
	near(t, "hidden", c.Hidden(), c.Exchange-c.Exposed)
	if want := 2 * (headerBytes + flagBytes + 2*64000); c.Bytes != want {
		t.Errorf("%d bytes, want %d", c.Bytes, want)
	}

	c = m.Predict(32, Settings{BucketBytes: 1})
	near(t, "exposed without overlap", c.Exposed, 2*(scatterSeconds+gatherSeconds))

	m.Link.Latency = 0.005
	c = m.Predict(32, Settings{})
	one := (headerBytes + 128000 + flagBytes + 128000) / 1e6
	near(t, "exposed in one bucket", c.Exposed, one+0.01)
}

func TestABurstPassesAtOnce(t *testing.T) {
	m := twoBuckets()
	m.Link.Burst = 1e6
	near(t, "exposed", m.Predict(32, Settings{Overlap: true, BucketBytes: 1}).Exposed, 0)
	m.Link.Burst = 50000
	c := m.Predict(32, Settings{})
	near(t, "exposed", c.Exposed, (headerBytes+128000+flagBytes+128000-50000)/1e6)
}

func TestHiddenMessagesTakeProcessorsFromThePasses(t *testing.T) {
	m := twoBuckets()
	m.Link.Bandwidth, m.Link.Latency = 1e15, 0.01
	m.Link.Message, m.Link.Byte = 0.001, 1e-7
	one := headerBytes + 128000 + flagBytes + 128000
	work := 4*m.Link.Message + float64(one+headerBytes+flagBytes)*m.Link.Byte
	near(t, "on free processors", m.Predict(32, Settings{Overlap: true, BucketBytes: 1}).Total, 0.1+0.02+0.01)
	m.Slowdown = 2
	c := m.Predict(32, Settings{Overlap: true, BucketBytes: 1}) // the first bucket's two messages are hidden, of four
	near(t, "on full ones", c.Total, 0.1+0.02+0.01+2*work/2)
	near(t, "the passes", c.Compute, 0.11+work)
	near(t, "behind the passes", m.Predict(32, Settings{}).Total, 0.1+0.02+0.01)
}

func TestQuantizingDelaysThePasses(t *testing.T) {
	m := twoBuckets()
	m.Encode[1], m.Decode[1] = 0.02, 0.004
	m.Link.Bandwidth = 1e15
	c := m.Predict(1, Settings{Overlap: true, BucketBytes: 1})
	near(t, "exposed", c.Exposed, 0.002) // the second bucket's sums and decoding
	near(t, "total", c.Total, 0.1+0.02+0.002+0.01)
}

func TestDoubleBufferingHasAWholeStep(t *testing.T) {
	m := twoBuckets()
	m.Link.Bandwidth = 3e6
	late := func() Cost { return m.Predict(32, Settings{Overlap: true, BucketBytes: 1, DoubleBuffering: true}) }
	near(t, "a step that the link has time for", late().Total, 0.11)
	m.Link.Bandwidth = 1e6 // 256 ms of messages in each step
	near(t, "a step that waits for the link", late().Total, 2*(scatterSeconds+gatherSeconds))
}

func TestWhenOneBitPays(t *testing.T) {
	m := twoBuckets()
	m.Encode[1], m.Decode[1] = 0.0001, 0.0001
	s := Settings{Overlap: true, BucketBytes: 1}
	at := m.BreakEven(1, s, 0.03)
	for _, x := range []float64{0.99, 1.01} {
		m.Link.Bandwidth = at * x
		if pays := m.Predict(1, s).Total < 0.97*m.Predict(32, s).Total; pays != (x < 1) {
			t.Errorf("at %v of the bandwidth 1 bit pays: %v", x, pays)
		}
	}
	m.Link.Bandwidth = 10 * at
	if size := m.SizeToPay(1, s, 0.03); !(size > 5 && size < 20) {
		t.Errorf("at ten times the bandwidth it pays for a network of %v times the size", size)
	}
	m.Encode[1] = 10
	if at := m.BreakEven(1, s, 0.03); at > 1e5 {
		t.Errorf("a slow quantizer pays up to %v bytes/s", at)
	}
}

func TestBucketsAreAsLargeAsOverlapAllows(t *testing.T) {
	m := twoBuckets()
	if n := m.BucketBytes(32, Settings{Overlap: true}); n > 128000 {
		t.Errorf("buckets of %d bytes leave nothing to overlap", n)
	}
	if n := m.BucketBytes(32, Settings{}); n != 256000 {
		t.Errorf("without overlap, buckets of %d bytes", n)
	}
}
