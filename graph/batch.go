package graph

import "math"

// Batch is one worker's share of a minibatch, in host memory.
type Batch struct {
	N       int       // samples in this share; may be 0
	Images  []float32 // [N][C][H][W], after all transforms
	Labels  []int32   // [N]
	Weights []float32 // [N]: 1, or 0 for a sample that does not count (a record that was skipped)
	Divisor float32   // the planned number of samples of the global minibatch: what the gradient is divided by
	Plan    []Sample  // [N]: what Images are made from; an executor that holds the Resident set takes it instead of them
}

// Sample says what becomes of one sample: which it is and how it is augmented. A slice of them is a sample plan.
//
// Pixel (y, x) of the result is pixel (y+Y, x+X) of the picture, or raw 0 outside of it; with Flip, x counts from the
// right. Y and X are 0 unless the crop is a padded one.
type Sample struct {
	Key   uint64 // seeds the draws that depend on a picture's size (side crops)
	Index int32  // in the data set
	Y, X  int16  // from -padding to +padding
	Flip  bool
}

// Resident is a set that lies in memory as bytes and whose transforms are a padded crop, a flip and a function of each
// value, so that a device can hold it and make batches from sample plans by itself.
type Resident struct {
	Pixels []byte         // [N][C][H][W]
	Labels []int32        // [N]
	Table  [][256]float32 // [C]: what a raw byte becomes
	Fill   []float32      // [C]: what lies outside the picture becomes
}

// Metrics are sums over the samples of a batch, each times its weight.
type Metrics struct {
	Loss   float64 // cross-entropy
	Errors float64 // samples whose largest logit is another class's
	Count  float64 // the weights themselves
}

// Add adds the sums of another batch.
func (m *Metrics) Add(o Metrics) {
	m.Loss += o.Loss
	m.Errors += o.Errors
	m.Count += o.Count
}

// Rule is the update rule of a learner.
type Rule uint8

// The update rules; see Update.
const (
	SGD Rule = iota
	Momentum
	Adam
)

func (r Rule) String() string { return [...]string{"sgd", "momentum", "adam"}[r] }

// Update is one optimizer step over the parameter arena: what an executor needs to know of a learner.
//
// With g the aggregated gradient of the mean loss, scaled down to the norm Clip where it is longer, and w the parameters,
// d = (g + L2*w) * Gain, and
//
//	SGD       w -= Rate*d
//	Momentum  m = Momentum*m + d;  w -= Rate*m, or Rate*(d + Momentum*m) with Nesterov
//	Adam      m = Beta1*m + (1-Beta1)*d;  v = Beta2*v + (1-Beta2)*d*d;
//	          w -= Rate * (m/(1-Beta1^Step)) / (sqrt(v/(1-Beta2^Step)) + Epsilon)
//
// The rule for Adam is algorithm 1 of Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015).
type Update struct {
	Rule                  Rule
	Rate, Momentum, Gain  float32
	L2                    float32
	Clip                  float32 // greatest norm of the whole gradient (Pascanu et al. 2013); 0: no limit
	Nesterov              bool
	Beta1, Beta2, Epsilon float32
	Step                  int64 // counts updates from 1, for Adam
}

// Scale is the factor that clipping makes of a gradient's norm. A norm that is not finite is not clipped.
func (u Update) Scale(norm float64) float32 {
	if u.Clip > 0 && norm > float64(u.Clip) && !math.IsInf(norm, 1) {
		return float32(float64(u.Clip) / norm)
	}
	return 1
}
