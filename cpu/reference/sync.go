package reference

import "gotrain/graph"

// runShared runs an operation that may be a synchronized batch norm.
func runShared(o *graph.Op, values map[*graph.Tensor][]float64, x graph.Exchange) error {
	switch {
	case o.Attr.Sync && o.Kind == graph.BatchNorm:
		return syncBatchNorm(o, values, x)
	case o.Attr.Sync && o.Kind == graph.BatchNormBackward:
		return syncBatchNormBackward(o, values, x)
	}
	Run(o, values)
	return nil
}

// newShare starts a share of a batch norm over x.
func newShare(x *graph.Tensor) graph.Share {
	s := graph.NewShare(x.Shape[1])
	s[0] = float64(x.Shape[0] * x.Shape[2] * x.Shape[3])
	return s
}

// syncBatchNorm is batchNorm with the statistics of all workers.
func syncBatchNorm(o *graph.Op, values map[*graph.Tensor][]float64, x graph.Exchange) error {
	b := o.BatchNorm()
	shape, v := b.X.Shape, values[b.X]
	share := newShare(b.X)
	for c := range shape[1] {
		sum := 0.0
		channel(shape, c, func(i int) { sum += v[i] })
		mean, squares := sum/share.Count(), 0.0
		channel(shape, c, func(i int) { squares += (v[i] - mean) * (v[i] - mean) })
		share.First()[c], share.Second()[c] = mean, squares
	}
	if err := share.Moments(x); err != nil {
		return err
	}
	mean, invStd := values[b.Mean], values[b.InvStd]
	for c := range mean {
		mean[c], invStd[c] = share.First()[c], share.InvStd(c, o.Attr.Epsilon)
	}
	graph.UpdateRunning(o, share, values[b.RunningMean], values[b.RunningVar])
	normalize(o, values, mean, invStd)
	return nil
}

// syncBatchNormBackward is batchNormBackward with the sums and the count of all workers in dx.
func syncBatchNormBackward(o *graph.Op, values map[*graph.Tensor][]float64, x graph.Exchange) error {
	b := o.BatchNormBackward()
	shape, v, gamma, mean, invStd := b.X.Shape, values[b.X], values[b.Gamma], values[b.Mean], values[b.InvStd]
	g := outputGradient(o, values)
	z := func(c, i int) float64 { return (v[i] - mean[c]) * invStd[c] }

	share := newShare(b.X)
	for c := range shape[1] {
		channel(shape, c, func(i int) {
			share.First()[c] += g[i]
			share.Second()[c] += g[i] * z(c, i)
		})
	}
	copy(values[b.DBeta], share.First())
	copy(values[b.DGamma], share.Second())
	if err := share.Sums(x); err != nil {
		return err
	}
	dx := values[b.DX]
	for c := range shape[1] {
		channel(shape, c, func(i int) {
			dx[i] = gamma[c] * invStd[c] * (g[i] - (share.First()[c]+z(c, i)*share.Second()[c])/share.Count())
		})
	}
	if o.Attr.Addend {
		copy(values[b.DAddend], g)
	}
	return nil
}
