package graph

import (
	"fmt"
	"math"
)

// Share is what one worker contributes to a synchronized batch norm over C channels, and then what all workers have
// together: the count of values a channel, and two values for each channel. The forward pass gathers the means and the sums
// of squared deviations from them, the backward pass the sums of g and of g*z, where z is the normalized value. A worker
// without samples has a share of zeros.
type Share []float64

// NewShare returns a share of zeros.
func NewShare(channels int) Share { return make(Share, 1+2*channels) }

// Count is that of the values a channel.
func (s Share) Count() float64 { return s[0] }

// First are the means, or the sums of g.
func (s Share) First() []float64 { return s[1 : 1+len(s)/2] }

// Second are the sums of squared deviations, or the sums of g*z.
func (s Share) Second() []float64 { return s[1+len(s)/2:] }

// gather asks the others for their shares; without an exchange there are none.
func (s Share) gather(x Exchange) ([][]float64, error) {
	if x == nil {
		return [][]float64{s}, nil
	}
	all, err := x.Gather(s)
	if err != nil {
		return nil, err
	}
	for r, o := range all {
		if len(o) != len(s) {
			return nil, fmt.Errorf("worker %d gives %d values for a batch norm of %d channels: all workers have to train the same network", r, len(o), len(s)/2)
		}
	}
	return all, nil
}

// Moments puts the moments of all workers in place of this worker's, merged in the order of the workers by the formula of
// Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances" (1979).
func (s Share) Moments(x Exchange) error {
	all, err := s.gather(x)
	if err != nil {
		return err
	}
	count, half := 0.0, len(s)/2
	for c := 1; c <= half; c++ {
		var mean, squares float64
		count = 0
		for _, o := range all {
			if o[0] == 0 {
				continue
			}
			total := count + o[0]
			apart := o[c] - mean
			mean += apart * (o[0] / total)
			squares += o[half+c] + apart*apart*(count*o[0]/total)
			count = total
		}
		s[c], s[half+c] = mean, squares
	}
	s[0] = count // last: s may be one of all
	return nil
}

// Sums puts the sums of all workers in place of this worker's, added in the order of the workers.
func (s Share) Sums(x Exchange) error {
	all, err := s.gather(x)
	if err != nil {
		return err
	}
	for i := range s {
		sum := 0.0
		for _, o := range all {
			sum += o[i]
		}
		s[i] = sum
	}
	return nil
}

// InvStd is 1/sqrt(variance + epsilon) of a channel, with the biased variance, of moments.
func (s Share) InvStd(channel int, epsilon float64) float64 {
	return 1 / math.Sqrt(s.Second()[channel]/s.Count()+epsilon)
}

// UpdateRunning lets the running statistics of a synchronized batch norm follow the moments of all workers.
func UpdateRunning[T float32 | float64](o *Op, moments Share, mean, variance []T) {
	count := moments.Count()
	if count == 0 { // no worker has a sample
		return
	}
	image := o.In[0].Shape[2] * o.In[0].Shape[3]
	update := o.Attr.RunningUpdate(count / float64(image))
	for c := range mean {
		mean[c] = T((1-update)*float64(mean[c]) + update*moments.First()[c])
		variance[c] = T((1-update)*float64(variance[c]) + update*moments.Second()[c]/max(count-1, 1))
	}
}

// RunningUpdate is the weight of a batch of so many images in the running statistics.
func (a Attr) RunningUpdate(images float64) float64 {
	if a.TimeConstant > 0 {
		return -math.Expm1(-images / a.TimeConstant)
	}
	return a.Update
}

// RunEmpty does what other workers expect in the forward and the backward pass of one whose share of a minibatch has no
// samples: it gathers nothing from it, lets its running statistics follow theirs, and is ready with every bucket. The
// gradients are the caller's to clear.
func (p *Plan) RunEmpty(statistics []float32, x Exchange) error {
	buckets := p.Buckets
	for i, o := range p.Ops[:p.Backward] {
		switch {
		case o.Attr.Sync && o.Kind == BatchNorm:
			share := NewShare(o.In[0].Shape[1])
			if err := share.Moments(x); err != nil {
				return err
			}
			b := o.BatchNorm()
			mean, _ := p.Statistics.Find(b.RunningMean.Name)
			variance, _ := p.Statistics.Find(b.RunningVar.Name)
			UpdateRunning(o, share, statistics[mean.Offset:mean.End()], statistics[variance.Offset:variance.End()])
		case o.Attr.Sync && o.Kind == BatchNormBackward:
			if err := NewShare(o.In[0].Shape[1]).Sums(x); err != nil {
				return err
			}
		}
		for x != nil && len(buckets) > 0 && buckets[0].Ready <= i+1 {
			x.Ready(buckets[0], Metrics{})
			buckets = buckets[1:]
		}
	}
	return nil
}
