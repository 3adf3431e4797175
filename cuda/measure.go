package cuda

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gotrain/cuda/cudnn"
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// How long convolutions are measured: the median of so many runs of a graph with so many of them, after one that does not count.
const (
	measuredRuns = 5
	runLength    = 8
)

// pattern is what operands are filled with: 1 and a little in float32, two ones in bfloat16. Zeros would let a GPU run faster.
const pattern = 0x3f803f80

// matches compare the two on a device. Convolutions of one shape are measured once.
type matches struct {
	device       *device
	stream       driver.Stream
	runs, length int
	begin, end   driver.Event
	found        map[matchKey]*match
	x, packed, dweight, y, scratch,
	sums, workspace block
}

type matchKey struct {
	pass  cudnn.Pass
	shape kernels.ConvShape
	math  kernels.Math
}

func keyOf(c *product) matchKey { return matchKey{c.pass, c.shape, c.math} }

// match is a convolution that the two compute.
type match struct {
	product
	theirs      Convolution // nil: the provider has none
	refused     error       // why, where that is anything but cudnn.ErrUnsupported
	measured    bool
	own, taking time.Duration // of one, by package kernels and by the provider
}

func (f *match) wins() bool { return f.theirs != nil && f.taking < f.own }

func (f *match) String(p Provider) string {
	what := [...]string{"forward", "gradient by data", "gradient by weights"}[f.pass]
	switch {
	case f.refused != nil:
		return fmt.Sprintf("%s by gotrain, %s fails: %v", what, p, f.refused)
	case f.theirs == nil:
		return fmt.Sprintf("%s by gotrain, %s cannot", what, p)
	case f.wins():
		return fmt.Sprintf("%s by %s in %v, gotrain's kernels take %v", what, p, f.taking, f.own)
	}
	return fmt.Sprintf("%s by gotrain in %v, %s takes %v", what, f.own, p, f.taking)
}

// prepare asks the provider for all convolutions, and makes room for the largest.
func (m *matches) prepare(plan *graph.Plan, tf32 bool) (err error) {
	largest := map[*block]int{}
	grow := func(b *block, bytes int) { largest[b] = max(largest[b], bytes) }
	for _, o := range plan.Ops[:plan.Backward] {
		c, ok := productOf(plan, o, tf32)
		if !ok || m.found[keyOf(&c)] != nil {
			continue
		}
		f := &match{product: c}
		m.found[keyOf(&c)] = f
		grow(&m.x, bytes(c.x))
		grow(&m.y, bytes(c.y))
		grow(&m.packed, c.shape.PackedBytes(c.math))
		grow(&m.dweight, 4*c.shape.K*c.shape.C*c.shape.Kernel*c.shape.Kernel)
		grow(&m.scratch, c.scratchBytes())
		if !c.lendable() {
			continue
		}
		f.theirs, err = m.device.convolver.Plan(c.pass, c.shape, c.math, workspaceLimit)
		if err != nil {
			f.theirs = nil
			if !errors.Is(err, cudnn.ErrUnsupported) {
				f.refused = err
			}
			continue
		}
		grow(&m.sums, c.sumBytes())
		grow(&m.workspace, f.theirs.Workspace())
	}
	if m.stream, err = m.device.NewStream("measuring"); err != nil {
		return err
	}
	for b, n := range largest {
		b.what = "measuring convolutions"
		n = align(n)
		if _, err := m.device.reserve(b, n); err != nil {
			return err
		}
		if err := m.stream.Fill(b.at, pattern, n/4); err != nil {
			return err
		}
	}
	for _, e := range []*driver.Event{&m.begin, &m.end} {
		if *e, err = m.device.NewEvent(); err != nil {
			return err
		}
	}
	return nil
}

// free frees what the device does not free when it is closed.
func (m *matches) free() (err error) {
	for _, f := range m.found {
		if f.theirs != nil {
			err = errors.Join(err, f.theirs.Free())
		}
	}
	return err
}

// measure times both in turns, as they run in a step: out of graphs.
func (m *matches) measure(f *match) (err error) {
	f.measured = true
	if f.theirs == nil {
		return nil
	}
	set, weights := m.device.set, m.packed.at
	if f.pass == cudnn.BackwardWeights {
		weights = m.sums.at
	}
	own := func() error {
		return m.stream.Launch(f.launches(set, m.x.at, m.packed.at, m.dweight.at, m.y.at, m.scratch.at)...)
	}
	theirs := func() error {
		if err := f.theirs.Run(m.stream, m.x.at, weights, m.y.at, m.workspace.at); err != nil || f.pass != cudnn.BackwardWeights {
			return err
		}
		return m.stream.Launch(set.SumWeights(f.shape, m.sums.at, m.dweight.at, 1))
	}
	var graphs []driver.Graph
	defer func() {
		for _, g := range graphs {
			err = errors.Join(err, g.Free())
		}
	}()
	for _, give := range []func() error{own, theirs} {
		if err := give(); err != nil { // what is loaded when it is first used is not to be while a stream captures
			return err
		}
		g, err := m.capture(give)
		if err != nil {
			return err
		}
		graphs = append(graphs, g)
	}
	times := make([][]time.Duration, len(graphs))
	for run := range m.runs + 1 {
		for i, g := range graphs {
			t, err := m.time(g)
			if err != nil {
				return err
			}
			if run > 0 {
				times[i] = append(times[i], t)
			}
		}
	}
	f.own, f.taking = m.median(times[0]), m.median(times[1])
	return nil
}

// capture makes a graph of the same again and again.
func (m *matches) capture(give func() error) (driver.Graph, error) {
	if err := m.stream.BeginCapture(); err != nil {
		return nil, err
	}
	var failed error
	for range m.length {
		if failed = give(); failed != nil {
			break
		}
	}
	g, err := m.stream.EndCapture()
	if failed != nil {
		if err == nil {
			_ = g.Free()
		}
		return nil, failed
	}
	return g, err
}

// time runs a graph.
func (m *matches) time(g driver.Graph) (time.Duration, error) {
	for _, give := range []func() error{
		func() error { return m.stream.Record(m.begin) },
		func() error { return m.stream.Run(g) },
		func() error { return m.stream.Record(m.end) },
		m.stream.Synchronize,
	} {
		if err := give(); err != nil {
			return 0, err
		}
	}
	return m.end.Since(m.begin)
}

// median is that of the times of graphs, for one convolution.
func (m *matches) median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2] / time.Duration(m.length)
}
