// Package learners turns a learner's settings and a place in training into the numbers of one update: rate, momentum,
// gain, clipping.
//
// It does not touch parameters: executors apply the graph.Update that a Learner gives, and graph.Update's comment has
// the rules. Nor does it keep state: an update is a function of its arguments, so that a resumed run gets the same.
//
// The rates and momenta per epoch are those of CNTK's SGD block, with its unit-gain momentum. One thing differs: CNTK
// turns values per minibatch into values per sample of a full minibatch, which shrinks the step of an epoch's last,
// smaller minibatch; here a value per minibatch holds for each minibatch, whatever its size, and only values per sample
// follow the count. Momentum and Nesterov's form are those of Sutskever et al., "On the importance of initialization
// and momentum in deep learning" (2013), rearranged so that gradients are taken at the stored parameters (Bengio et al.,
// "Advances in optimizing recurrent networks", 2013); clipping is that of Pascanu et al., "On the difficulty of training
// recurrent neural networks" (2013); Adam that of Kingma and Ba (2015).
package learners

import (
	"fmt"
	"math"

	"gotrain/configs"
	"gotrain/graph"
)

// Learner gives the updates of a run. It does not change, and may be used from several goroutines.
type Learner struct {
	cfg          configs.Learner
	rule         graph.Rule
	epochSamples float64
}

// Position is where in training a minibatch stands: everything counts what lies before it.
type Position struct {
	Epoch   int   // from 0
	Samples int64 // seen in this epoch, by all workers
	Step    int64 // updates made since the run began
	Count   int   // samples of the minibatch itself, of all workers
}

var rules = map[string]graph.Rule{"sgd": graph.SGD, "momentumSGD": graph.Momentum, "adam": graph.Adam}

// New checks that cfg names one rule, one kind of rate and, for momentumSGD, one kind of momentum; package configs
// checks the values. samplesPerEpoch is epochSize, or the samples of the training set where that is 0.
func New(cfg configs.Learner, samplesPerEpoch int) (*Learner, error) {
	rule, ok := rules[cfg.Type]
	momenta := count(cfg.MomentumPerMB.Set(), cfg.MomentumPerSample.Set(), cfg.MomentumAsTimeConstant.Set())
	switch {
	case !ok:
		return nil, fmt.Errorf("learner.type: %q is not known: use sgd, momentumSGD or adam", cfg.Type)
	case samplesPerEpoch < 1:
		return nil, fmt.Errorf("learner: an epoch of %d samples: at least 1 is needed", samplesPerEpoch)
	case count(cfg.LearningRatesPerMB.Set(), cfg.LearningRatesPerSample.Set(), len(cfg.LearningRateSchedule) > 0) != 1:
		return nil, fmt.Errorf("learner: exactly one of learningRatesPerMB, learningRatesPerSample and " +
			"learningRateSchedule is needed")
	case rule == graph.Momentum && momenta != 1:
		return nil, fmt.Errorf("learner: momentumSGD needs exactly one of momentumPerMB, momentumPerSample and " +
			"momentumAsTimeConstant")
	}
	return &Learner{cfg: cfg, rule: rule, epochSamples: float64(samplesPerEpoch)}, nil
}

func count(set ...bool) (n int) {
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}

// Rule is the rule of all updates.
func (l *Learner) Rule() graph.Rule { return l.rule }

// Update gives the update for the minibatch at p.
func (l *Learner) Update(p Position) graph.Update {
	u := graph.Update{
		Rule: l.rule,
		Rate: float32(l.Rate(p)),
		Gain: 1,
		L2:   float32(l.cfg.L2RegWeight),
		Clip: float32(l.cfg.GradientClippingNorm),
		Step: p.Step + 1,
	}
	switch l.rule {
	case graph.Momentum:
		m := l.Momentum(p)
		u.Momentum, u.Nesterov = float32(m), l.cfg.UseNAG
		if l.cfg.UnitGain {
			u.Gain = float32(1 - m)
		}
	case graph.Adam:
		u.Beta1, u.Beta2, u.Epsilon = float32(l.cfg.Beta1), float32(l.cfg.Beta2), float32(l.cfg.Epsilon)
	}
	return u
}

// Rate is the learning rate of the minibatch at p, for the gradient of its mean loss.
func (l *Learner) Rate(p Position) float64 {
	switch {
	case l.cfg.LearningRatesPerMB.Set():
		return l.cfg.LearningRatesPerMB.At(p.Epoch)
	case l.cfg.LearningRatesPerSample.Set():
		// A rate per sample belongs to the gradient of the summed loss, which is the mean's times the count.
		return l.cfg.LearningRatesPerSample.At(p.Epoch) * float64(p.Count)
	default:
		return scheduled(l.cfg.LearningRateSchedule, float64(p.Epoch)+float64(p.Samples)/l.epochSamples)
	}
}

// Momentum is the share of the momentum that the minibatch at p leaves; 0 for other rules than momentumSGD.
func (l *Learner) Momentum(p Position) float64 {
	n := float64(p.Count)
	switch {
	case l.rule != graph.Momentum:
		return 0
	case l.cfg.MomentumPerMB.Set():
		return l.cfg.MomentumPerMB.At(p.Epoch)
	case l.cfg.MomentumPerSample.Set():
		return math.Pow(l.cfg.MomentumPerSample.At(p.Epoch), n)
	default:
		constant := l.cfg.MomentumAsTimeConstant.At(p.Epoch)
		if constant == 0 {
			return 0
		}
		return math.Exp(-n / constant)
	}
}
