package graph

// Batch is one worker's share of a minibatch, in host memory.
type Batch struct {
	N       int       // samples in this share; may be 0
	Images  []float32 // [N][C][H][W], after all transforms
	Labels  []int32   // [N]
	Weights []float32 // [N]: 1, or 0 for a sample that does not count (a record that was skipped)
	Divisor float32   // the planned number of samples of the global minibatch: what the gradient is divided by
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
// With g the aggregated gradient of the mean loss and w the parameters, d = (g*Scale + L2*w) * Gain, and
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
	Scale                 float32 // 1, or less where the gradient's norm is clipped
	Nesterov              bool
	Beta1, Beta2, Epsilon float32
	Step                  int64 // counts updates from 1, for Adam
}
