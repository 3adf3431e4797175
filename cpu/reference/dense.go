package reference

import (
	"math"

	"gotrain/graph"
)

func dense(x, weight, bias, y []float64) {
	out, in := len(bias), len(weight)/len(bias)
	for j := range y {
		n, o := j/out, j%out
		y[j] = bias[o]
		for i := range in {
			y[j] += x[n*in+i] * weight[o*in+i]
		}
	}
}

func denseBackwardData(x graph.Shape, weight, dy, dx []float64) {
	in := x[1]
	out := len(weight) / in
	clear(dx)
	for j, d := range dy {
		n, o := j/out, j%out
		for i := range in {
			dx[n*in+i] += weight[o*in+i] * d
		}
	}
}

func denseBackwardWeights(xs graph.Shape, x, dy, dweight, dbias []float64) {
	in, out := xs[1], len(dbias)
	clear(dweight)
	clear(dbias)
	for j, d := range dy {
		n, o := j/out, j%out
		dbias[o] += d
		for i := range in {
			dweight[o*in+i] += x[n*in+i] * d
		}
	}
}

// crossEntropy returns the weighted sums over the samples of -log softmax(logits)[label] and of the errors: a sample is
// right where its label's logit is the first of the largest. dlogits, where not nil, receives the gradient of loss /
// divisor.
func crossEntropy(classes int, logits, labels, weights []float64, divisor float64, dlogits []float64) (loss, errors float64) {
	for n, weight := range weights {
		row, label := logits[n*classes:][:classes], int(labels[n])
		largest := 0
		for c, v := range row {
			if v > row[largest] {
				largest = c
			}
		}
		if largest != label {
			errors += weight
		}
		sum := 0.0
		for _, v := range row {
			sum += math.Exp(v - row[largest])
		}
		loss += weight * (math.Log(sum) + row[largest] - row[label])
		if dlogits == nil {
			continue
		}
		for c, v := range row {
			d := math.Exp(v-row[largest]) / sum
			if c == label {
				d--
			}
			dlogits[n*classes+c] = weight * d / divisor
		}
	}
	return loss, errors
}
