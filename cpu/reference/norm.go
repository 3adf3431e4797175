package reference

import (
	"math"

	"gotrain/graph"
)

// channel calls visit with the index of each value of a channel in images of a shape [N][C][H][W].
func channel(s graph.Shape, c int, visit func(i int)) {
	image := s[2] * s[3]
	for n := range s[0] {
		for p := range image {
			visit((n*s[1]+c)*image + p)
		}
	}
}

func batchNorm(o *graph.Op, values map[*graph.Tensor][]float64) {
	b := o.BatchNorm()
	shape, x := b.X.Shape, values[b.X]
	mean, invStd := values[b.Mean], values[b.InvStd]
	runningMean, runningVar := values[b.RunningMean], values[b.RunningVar]
	count := float64(shape[0] * shape[2] * shape[3])
	for c := range shape[1] {
		sum := 0.0
		channel(shape, c, func(i int) { sum += x[i] })
		mean[c] = sum / count
		squares := 0.0
		channel(shape, c, func(i int) { squares += (x[i] - mean[c]) * (x[i] - mean[c]) })
		invStd[c] = 1 / math.Sqrt(squares/count+o.Attr.Epsilon)

		update := o.Attr.Update
		runningMean[c] = (1-update)*runningMean[c] + update*mean[c]
		runningVar[c] = (1-update)*runningVar[c] + update*squares/max(count-1, 1)
	}
	normalize(o, values, mean, invStd)
}

func batchNormInference(o *graph.Op, values map[*graph.Tensor][]float64) {
	b := o.BatchNorm()
	invStd := make([]float64, b.X.Shape[1])
	for c, v := range values[b.RunningVar] {
		invStd[c] = 1 / math.Sqrt(v+o.Attr.Epsilon)
	}
	normalize(o, values, values[b.RunningMean], invStd)
}

// normalize is what follows when mean and deviation are known, with what is fused.
func normalize(o *graph.Op, values map[*graph.Tensor][]float64, mean, invStd []float64) {
	b := o.BatchNorm()
	x, gamma, beta, y := values[b.X], values[b.Gamma], values[b.Beta], values[b.Y]
	for c := range b.X.Shape[1] {
		channel(b.X.Shape, c, func(i int) {
			v := gamma[c]*(x[i]-mean[c])*invStd[c] + beta[c]
			if o.Attr.Addend {
				v += values[b.Addend][i]
			}
			if o.Attr.ReLU {
				v = max(v, 0)
			}
			y[i] = v
		})
	}
}

// batchNormBackward differentiates batchNorm. With z = (x - mean) invStd and m values in a channel,
// dx = gamma invStd (g - (dbeta + z dgamma) / m).
func batchNormBackward(o *graph.Op, values map[*graph.Tensor][]float64) {
	b := o.BatchNormBackward()
	shape, x, gamma, mean, invStd := b.X.Shape, values[b.X], values[b.Gamma], values[b.Mean], values[b.InvStd]
	dx, dgamma, dbeta := values[b.DX], values[b.DGamma], values[b.DBeta]

	g := outputGradient(o, values)
	count := float64(shape[0] * shape[2] * shape[3])
	for c := range shape[1] {
		dgamma[c], dbeta[c] = 0, 0
		z := func(i int) float64 { return (x[i] - mean[c]) * invStd[c] }
		channel(shape, c, func(i int) {
			dbeta[c] += g[i]
			dgamma[c] += g[i] * z(i)
		})
		channel(shape, c, func(i int) {
			dx[i] = gamma[c] * invStd[c] * (g[i] - (dbeta[c]+z(i)*dgamma[c])/count)
		})
	}
	if o.Attr.Addend {
		copy(values[b.DAddend], g)
	}
}

// outputGradient is the gradient of a batch norm's result before what is fused into it.
func outputGradient(o *graph.Op, values map[*graph.Tensor][]float64) []float64 {
	b := o.BatchNormBackward()
	g := make([]float64, len(values[b.X]))
	for i := range g {
		for _, dy := range b.DY {
			g[i] += values[dy][i]
		}
		if o.Attr.ReLU && !(values[b.Y][i] > 0) {
			g[i] = 0
		}
	}
	return g
}

func relu(x, y []float64) {
	for i, v := range x {
		y[i] = max(v, 0)
	}
}

func reluBackward(y, dy, dx []float64) {
	for i := range dx {
		if y[i] > 0 {
			dx[i] = dy[i]
		} else {
			dx[i] = 0
		}
	}
}

func add(a, b, y []float64) {
	for i := range y {
		y[i] = a[i] + b[i]
	}
}
