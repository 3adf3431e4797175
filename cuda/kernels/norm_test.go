package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gotrain/cpu/reference"
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// normCase is a batch norm in both directions.
type normCase struct {
	shape        graph.Shape
	relu, addend bool
	twice        bool    // two gradients come back
	offset       float64 // of x
	inPlace      bool    // results of backward take the place of operands
}

var normCases = []normCase{
	{shape: graph.Shape{1, 8, 1, 1}},
	{shape: graph.Shape{2, 5, 3, 7}, relu: true},
	{shape: graph.Shape{3, 16, 9, 8}, relu: true, addend: true},
	{shape: graph.Shape{3, 16, 9, 8}, relu: true, addend: true, twice: true, inPlace: true},
	{shape: graph.Shape{3, 24, 5, 5}, twice: true, inPlace: true},
	{shape: graph.Shape{2, 136, 5, 5}, addend: true},
	{shape: graph.Shape{17, 12, 21, 20}, relu: true, offset: 100},
	{shape: graph.Shape{9, 64, 16, 16}, relu: true, twice: true},
}

func (c normCase) String() string {
	return fmt.Sprintf("%s relu %v addend %v twice %v in place %v", c.shape, c.relu, c.addend, c.twice, c.inPlace)
}

func TestNormIsBatchNorm(t *testing.T) {
	shared := open(t)
	cases := slices.Clone(normCases)
	for i, s := range randomShapes(6) {
		cases = append(cases, normCase{shape: s, relu: i&1 != 0, addend: i&2 != 0, twice: i&4 != 0})
	}
	for _, dtype := range types {
		for _, c := range cases {
			t.Run(fmt.Sprint(dtype, " ", c), func(t *testing.T) { c.test(shared.in(t), dtype) })
		}
	}
}

// norm is a batch norm on the device with all that it needs.
func (c normCase) norm(d *device, dtype graph.DType, shape graph.Shape, x []float64, perChannel map[string][]float64) *kernels.Norm {
	channel := func(name string) driver.Pointer { return d.floats(narrow(perChannel[name])) }
	return &kernels.Norm{T: dtype, Shape: shape, X: d.activation(graph.Float32, shape, x), Gamma: channel("gamma"), Beta: channel("beta"),
		Mean: d.room(4 * shape[1]), InvStd: d.room(4 * shape[1]), RunningMean: channel("runningMean"), RunningVar: channel("runningVar"),
		ReLU: c.relu, Epsilon: 1e-5, Update: 0.1, Y: d.room(kernels.ActivationBytes(shape, dtype)),
		DGamma: d.room(4 * shape[1]), DBeta: d.room(4 * shape[1]), Scratch: d.room(kernels.NormScratch(shape)), Tickets: d.zeros(kernels.NormTickets(shape))}
}

func (c normCase) test(d *device, dtype graph.DType) {
	t, r := d.t, rand.New(rand.NewPCG(3, uint64(c.shape.Values())))
	channels := c.shape[1]
	perChannel := map[string][]float64{}
	vector := func(name string, at float64) *graph.Tensor {
		v := random(r, graph.Float32, graph.Shape{channels})
		for i := range v {
			v[i] = round(graph.Float32, at+0.2*v[i])
		}
		perChannel[name] = v
		return tensor(graph.Float32, channels)
	}
	image := func(dtype graph.DType) *graph.Tensor { return tensor(dtype, c.shape...) }
	x, gamma, beta, runningMean, runningVar := image(graph.Float32), vector("gamma", 1), vector("beta", 0), vector("runningMean", 0), vector("runningVar", 1.5)
	y, mean, invStd, addend := image(dtype), tensor(graph.Float32, channels), tensor(graph.Float32, channels), image(dtype)
	clone := func(v []float64) []float64 { return append([]float64(nil), v...) }
	values := map[*graph.Tensor][]float64{x: random(r, graph.Float32, c.shape), gamma: perChannel["gamma"], beta: perChannel["beta"],
		runningMean: clone(perChannel["runningMean"]), runningVar: clone(perChannel["runningVar"])}
	for i := range values[x] {
		values[x][i] = round(graph.Float32, values[x][i]+c.offset)
	}
	attr := graph.Attr{ReLU: c.relu, Addend: c.addend, Epsilon: 1e-5, Update: 0.1}
	forward := &graph.Op{Kind: graph.BatchNorm, Attr: attr, In: []*graph.Tensor{x, gamma, beta, runningMean, runningVar}, Out: []*graph.Tensor{y, mean, invStd}}
	n := c.norm(d, dtype, c.shape, values[x], perChannel)
	if c.addend {
		values[addend] = random(r, dtype, c.shape)
		forward.In = append(forward.In, addend)
		n.Addend = d.activation(dtype, c.shape, values[addend])
	}
	tol := tolerance(dtype)

	inference := &graph.Op{Kind: graph.BatchNormInference, Attr: attr, In: forward.In, Out: []*graph.Tensor{y}}
	reference.Run(inference, values)
	d.run(d.NormInference(n))
	near(t, "inference", d.getActivation(dtype, c.shape, n.Y), values[y], tol)

	reference.Run(forward, values)
	d.run(d.NormForward(n))
	near(t, "y", d.getActivation(dtype, c.shape, n.Y), values[y], tol)
	near(t, "mean", d.getFloats(n.Mean, channels), values[mean], 1e-5)
	near(t, "inverse deviation", d.getFloats(n.InvStd, channels), values[invStd], 1e-5)
	near(t, "running mean", d.getFloats(n.RunningMean, channels), values[runningMean], 1e-5)
	near(t, "running variance", d.getFloats(n.RunningVar, channels), values[runningVar], 1e-5)

	// Backward starts from what forward left on the device, so that both take the same values for positive.
	values[y] = d.getActivation(dtype, c.shape, n.Y)
	dx, dgamma, dbeta, daddend := image(dtype), tensor(graph.Float32, channels), tensor(graph.Float32, channels), image(dtype)
	backward := &graph.Op{Kind: graph.BatchNormBackward, Attr: attr, In: []*graph.Tensor{x, gamma, beta, mean, invStd}, Out: []*graph.Tensor{dx, dgamma, dbeta}}
	if c.relu {
		backward.In = append(backward.In, y)
	}
	if c.addend {
		backward.Out = append(backward.Out, daddend)
	}
	for range 1 + map[bool]int{true: 1}[c.twice] {
		dy := image(dtype)
		values[dy] = random(r, dtype, c.shape)
		backward.In = append(backward.In, dy)
		n.DY = append(n.DY, d.activation(dtype, c.shape, values[dy]))
	}
	reference.Run(backward, values)
	fromX := c.relu && !c.addend
	for _, readY := range []bool{false, true} {
		if readY && !fromX {
			break // tested once, as it has to be
		}
		m := *n
		if !c.relu || fromX && !readY {
			m.Y = 0
		}
		m.DX, m.DAddend = d.room(kernels.ActivationBytes(c.shape, dtype)), 0
		if c.addend {
			m.DAddend = d.room(kernels.ActivationBytes(c.shape, dtype))
		}
		if c.inPlace {
			m.DX = m.DY[0]
			if c.addend {
				m.DAddend = m.DY[1]
			}
		}
		d.run(d.NormBackward(&m))
		near(t, "dgamma", d.getFloats(m.DGamma, channels), values[dgamma], 1e-5)
		near(t, "dbeta", d.getFloats(m.DBeta, channels), values[dbeta], 1e-5)
		near(t, "dx", d.getActivation(dtype, c.shape, m.DX), values[dx], tol)
		if c.addend {
			near(t, "daddend", d.getActivation(dtype, c.shape, m.DAddend), values[daddend], tol)
		}
	}
	if tickets := d.get(n.Tickets, 4*kernels.NormTickets(c.shape)); string(tickets) != string(make([]byte, len(tickets))) {
		t.Errorf("tickets are left as %v", tickets)
	}
}

// Two workers with shares of a batch, one of them the larger, have what one has of the whole.
func TestSharesOfASynchronizedNormMerge(t *testing.T) {
	whole, parts := graph.Shape{5, 12, 6, 7}, []graph.Shape{{2, 12, 6, 7}, {3, 12, 6, 7}}
	d, r := open(t), rand.New(rand.NewPCG(4, 4))
	c := normCase{shape: whole, relu: true}
	perChannel := map[string][]float64{}
	for _, name := range []string{"gamma", "beta", "runningMean", "runningVar"} {
		perChannel[name] = random(r, graph.Float32, graph.Shape{12})
	}
	x, dy := random(r, graph.Float32, whole), random(r, graph.Float32, whole)
	one := c.norm(d, graph.Float32, whole, x, perChannel)
	one.DY, one.DX = []driver.Pointer{d.activation(graph.Float32, whole, dy)}, d.room(kernels.ActivationBytes(whole, graph.Float32))
	d.run(d.NormForward(one))
	d.run(d.NormBackward(one))

	var norms []*kernels.Norm
	shares := d.room(2 * kernels.NormShare(whole))
	at := 0
	for i, s := range parts {
		n := c.norm(d, graph.Float32, s, x[at:][:s.Values()], perChannel)
		n.DY, n.DX = []driver.Pointer{d.activation(graph.Float32, s, dy[at:][:s.Values()])}, d.room(kernels.ActivationBytes(s, graph.Float32))
		n.Share = shares + driver.Pointer(i*kernels.NormShare(whole))
		norms, at = append(norms, n), at+s.Values()
	}
	both := func(first, merge func(*kernels.Norm) driver.Launch, second func(*kernels.Norm) driver.Launch) {
		for _, n := range norms {
			d.run(first(n))
		}
		if count := binary.LittleEndian.Uint64(d.get(norms[1].Share, 8)); count != 0x405f800000000000 { // 126
			t.Errorf("the second worker's share has a count of %x", count)
		}
		for _, n := range norms {
			d.run(merge(n), second(n))
		}
	}
	both(func(n *kernels.Norm) driver.Launch { l, _ := d.NormForward(n); return l },
		func(n *kernels.Norm) driver.Launch { return d.MergeMoments(n, shares, 2) },
		func(n *kernels.Norm) driver.Launch { _, l := d.NormForward(n); return l })
	both(func(n *kernels.Norm) driver.Launch { l, _ := d.NormBackward(n); return l },
		func(n *kernels.Norm) driver.Launch { return d.MergeSums(n, shares, 2) },
		func(n *kernels.Norm) driver.Launch { _, l := d.NormBackward(n); return l })

	var y, dx, wantGamma []float64
	sum := make([]float64, 12)
	for i, n := range norms {
		y = append(y, d.getActivation(graph.Float32, parts[i], n.Y)...)
		dx = append(dx, d.getActivation(graph.Float32, parts[i], n.DX)...)
		for k, v := range d.getFloats(n.DGamma, 12) {
			sum[k] += float64(v)
		}
		near(t, "running variance", d.getFloats(n.RunningVar, 12), widen(d.getFloats(one.RunningVar, 12)), 1e-6)
	}
	wantGamma = widen(d.getFloats(one.DGamma, 12))
	near(t, "y", y, d.getActivation(graph.Float32, whole, one.Y), 1e-6)
	near(t, "dx", dx, d.getActivation(graph.Float32, whole, one.DX), 1e-6)
	near(t, "the sum of dgamma", sum, wantGamma, 1e-6)
}

func widen(v []float32) []float64 {
	w := make([]float64, len(v))
	for i := range v {
		w[i] = float64(v[i])
	}
	return w
}
