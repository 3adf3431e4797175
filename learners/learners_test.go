package learners

import (
	"math"
	"testing"

	"gotrain/configs"
	"gotrain/graph"
)

// cntk is 1.0*80:0.1*40:0.01.
var cntk = configs.PerEpoch{{Value: 1, Epochs: 80}, {Value: 0.1, Epochs: 40}, {Value: 0.01, Epochs: 1}}

func always(v float64) configs.PerEpoch { return configs.PerEpoch{{Value: v, Epochs: 1}} }

func learner(t *testing.T, cfg configs.Learner) *Learner {
	t.Helper()
	l, err := New(cfg, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), math.Abs(b)) }

func TestRatePerMinibatchFollowsTheEpochAlone(t *testing.T) {
	l := learner(t, configs.Learner{Type: "sgd", LearningRatesPerMB: cntk})
	for _, c := range []struct {
		at   Position
		want float64
	}{
		{Position{Epoch: 0, Count: 128}, 1},
		{Position{Epoch: 79, Samples: 990, Count: 10}, 1}, // the last, smaller minibatch
		{Position{Epoch: 80, Count: 128}, 0.1},
		{Position{Epoch: 119, Count: 128}, 0.1},
		{Position{Epoch: 120, Count: 128}, 0.01},
		{Position{Epoch: 100000, Count: 128}, 0.01},
	} {
		if got := l.Rate(c.at); got != c.want {
			t.Errorf("%+v: %v, want %v", c.at, got, c.want)
		}
	}
}

func TestRatePerSampleGrowsWithTheCount(t *testing.T) {
	l := learner(t, configs.Learner{Type: "sgd", LearningRatesPerSample: configs.PerEpoch{{Value: 0.001, Epochs: 2}, {Value: 0.0005, Epochs: 1}}})
	for _, c := range []struct {
		epoch, count int
		want         float64
	}{{0, 128, 0.128}, {1, 80, 0.08}, {2, 128, 0.064}, {9, 1, 0.0005}} {
		if got := l.Rate(Position{Epoch: c.epoch, Count: c.count}); !near(got, c.want) {
			t.Errorf("epoch %d, %d samples: %v, want %v", c.epoch, c.count, got, c.want)
		}
	}
}

func TestScheduledRateFollowsTheSamplesSeen(t *testing.T) {
	pieces := []configs.Piece{
		{Kind: "warmUp", From: 0, To: 0.4, Epochs: 0.5},
		{Kind: "constant", From: 0.4, To: 0.4, Epochs: 1.5},
		{Kind: "linear", From: 0.4, To: 0.2, Epochs: 2},
		{Kind: "cosine", From: 0.2, To: 0.1, Epochs: 4},
		{Kind: "oneCycle", From: 0.1, Peak: 0.9, To: 0.01, Epochs: 10, WarmUp: 0.3},
	}
	l := learner(t, configs.Learner{Type: "sgd", LearningRateSchedule: pieces})
	root := math.Sqrt(0.5)
	for _, c := range []struct {
		epoch   int
		samples int64
		want    float64
	}{
		{0, 0, 0}, {0, 250, 0.2}, {0, 500, 0.4}, // a warm-up's end is the next one's beginning
		{1, 999, 0.4}, {2, 0, 0.4}, {2, 500, 0.35}, {3, 0, 0.3},
		{4, 0, 0.2}, {5, 0, 0.15 + 0.05*root}, {6, 0, 0.15}, {7, 0, 0.15 - 0.05*root},
		{8, 0, 0.1}, {9, 500, 0.5}, {11, 0, 0.9}, {14, 500, 0.455}, {18, 0, 0.01},
		{18, 1, 0.01}, {500, 0, 0.01}, // the last rate holds
	} {
		if got := l.Rate(Position{Epoch: c.epoch, Samples: c.samples, Count: 128}); !near(got, c.want) {
			t.Errorf("epoch %d, sample %d: %v, want %v", c.epoch, c.samples, got, c.want)
		}
	}
}

func TestAOneCyclesEndsAreExact(t *testing.T) {
	for _, warmUp := range []float64{0, 0.3, 1} {
		p := configs.Piece{Kind: "oneCycle", From: 0.1, Peak: 0.7, To: 0.03, Epochs: 3, WarmUp: warmUp}
		begin := 0.1
		if warmUp == 0 {
			begin = 0.7
		}
		if a, b := scheduled([]configs.Piece{p}, 0), scheduled([]configs.Piece{p}, 3); a != begin || b != 0.03 {
			t.Errorf("warm-up %v: from %v to %v, want from %v to 0.03", warmUp, a, b, begin)
		}
	}
}

func TestMomentumOfAMinibatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   configs.Learner
		epoch int
		count int
		want  float64
	}{
		{"per minibatch", configs.Learner{MomentumPerMB: configs.PerEpoch{{Value: 0, Epochs: 1}, {Value: 0.9, Epochs: 1}}}, 0, 128, 0},
		{"per minibatch, next epoch", configs.Learner{MomentumPerMB: configs.PerEpoch{{Value: 0, Epochs: 1}, {Value: 0.9, Epochs: 1}}}, 1, 5, 0.9},
		{"per sample", configs.Learner{MomentumPerSample: always(0.999)}, 0, 2, 0.998001},
		{"per sample, none", configs.Learner{MomentumPerSample: always(0)}, 0, 128, 0},
		{"time constant", configs.Learner{MomentumAsTimeConstant: always(1024)}, 3, 256, math.Exp(-0.25)},
		{"time constant 0", configs.Learner{MomentumAsTimeConstant: always(0)}, 0, 256, 0},
		{"time constant of 0.9", configs.Learner{MomentumAsTimeConstant: always(-128 / math.Log(0.9))}, 0, 128, 0.9},
	} {
		c.cfg.Type, c.cfg.LearningRatesPerMB = "momentumSGD", always(1)
		if got := learner(t, c.cfg).Momentum(Position{Epoch: c.epoch, Count: c.count}); !near(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestUpdateCarriesTheRulesNumbers(t *testing.T) {
	at := Position{Epoch: 80, Samples: 300, Count: 100, Step: 41}
	for _, c := range []struct {
		name string
		cfg  configs.Learner
		want graph.Update
	}{
		{"sgd ignores momentum", configs.Learner{Type: "sgd", UnitGain: true, UseNAG: true, MomentumPerMB: always(0.9), L2RegWeight: 1e-4},
			graph.Update{Rule: graph.SGD, Rate: 0.1, Gain: 1, L2: 1e-4, Step: 42}},
		{"unit gain", configs.Learner{Type: "momentumSGD", UnitGain: true, MomentumPerMB: always(0.9)},
			graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 0.1, Step: 42}},
		{"unit gain follows the count", configs.Learner{Type: "momentumSGD", UnitGain: true, MomentumAsTimeConstant: always(200)},
			graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.60653067, Gain: 0.39346933, Step: 42}},
		{"classic with Nesterov", configs.Learner{Type: "momentumSGD", UseNAG: true, MomentumPerMB: always(0.9)},
			graph.Update{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 1, Nesterov: true, Step: 42}},
		{"adam", configs.Learner{Type: "adam", UnitGain: true, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8},
			graph.Update{Rule: graph.Adam, Rate: 0.1, Gain: 1, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Step: 42}},
		{"clipped", configs.Learner{Type: "sgd", GradientClippingNorm: 0.5},
			graph.Update{Rule: graph.SGD, Rate: 0.1, Gain: 1, Clip: 0.5, Step: 42}},
	} {
		c.cfg.LearningRatesPerMB = cntk
		l := learner(t, c.cfg)
		if got := l.Update(at); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// apply is graph.Update's comment for one parameter.
func apply(u graph.Update, w, g float64, m, v *float64) float64 {
	rate, momentum := float64(u.Rate), float64(u.Momentum)
	d := (g*float64(u.Scale(math.Abs(g))) + float64(u.L2)*w) * float64(u.Gain)
	switch u.Rule {
	case graph.SGD:
		return w - rate*d
	case graph.Momentum:
		*m = momentum**m + d
		if u.Nesterov {
			return w - rate*(d+momentum**m)
		}
		return w - rate**m
	default:
		b1, b2, step := float64(u.Beta1), float64(u.Beta2), float64(u.Step)
		*m = b1**m + (1-b1)*d
		*v = b2**v + (1-b2)*d*d
		return w - rate*(*m/(1-math.Pow(b1, step)))/(math.Sqrt(*v/(1-math.Pow(b2, step)))+float64(u.Epsilon))
	}
}

// train makes three steps from w = 1 with the gradients 0.5, -1 and 2.
func train(t *testing.T, cfg configs.Learner) []float64 {
	l := learner(t, cfg)
	var m, v float64
	w, path := 1.0, []float64{}
	for step, g := range []float64{0.5, -1, 2} {
		u := l.Update(Position{Samples: int64(step) * 100, Count: 100, Step: int64(step)})
		w = apply(u, w, g, &m, &v)
		path = append(path, w)
	}
	return path
}

func same(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-6 {
			return false
		}
	}
	return len(a) == len(b)
}

func TestUnitGainIsClassicMomentumAtTenTimesTheRate(t *testing.T) {
	for _, nag := range []bool{false, true} {
		cfg := configs.Learner{Type: "momentumSGD", MomentumPerMB: always(0.9), UseNAG: nag, L2RegWeight: 0.01}
		cfg.LearningRatesPerMB = always(0.1)
		classic := train(t, cfg)
		cfg.LearningRatesPerMB, cfg.UnitGain = always(1), true
		if unit := train(t, cfg); !same(classic, unit) {
			t.Errorf("Nesterov %v: classic %v, unit gain %v", nag, classic, unit)
		}
	}
}

// The figures are worked by hand from the rules, as torch.optim states them with dampening 0.
func TestStepsByHand(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  configs.Learner
		want []float64
	}{
		{"sgd", configs.Learner{Type: "sgd"}, []float64{0.95, 1.05, 0.85}},
		{"sgd with L2", configs.Learner{Type: "sgd", L2RegWeight: 0.1}, []float64{0.94, 1.0306, 0.820294}},
		{"sgd clipped to 1", configs.Learner{Type: "sgd", GradientClippingNorm: 1}, []float64{0.95, 1.05, 0.95}},
		// m = 0.5, -0.55, 1.505
		{"momentum", configs.Learner{Type: "momentumSGD", MomentumPerMB: always(0.9)}, []float64{0.95, 1.005, 0.8545}},
		// d + 0.9 m = 0.95, -1.495, 3.3545
		{"Nesterov", configs.Learner{Type: "momentumSGD", MomentumPerMB: always(0.9), UseNAG: true}, []float64{0.905, 1.0545, 0.71905}},
		// m/c = 0.5, -0.2894737, 0.5553506; sqrt(v/c) = 0.5, 0.7906881, 1.3233483
		{"adam", configs.Learner{Type: "adam", Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}, []float64{0.9, 0.93661035, 0.89464479}},
	} {
		c.cfg.LearningRatesPerMB = always(0.1)
		if got := train(t, c.cfg); !same(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSettingsThatGiveNoLearnerAreRefused(t *testing.T) {
	rate := always(1)
	for _, c := range []struct {
		cfg     configs.Learner
		samples int
		want    string
	}{
		{configs.Learner{Type: "rmsprop", LearningRatesPerMB: rate}, 1, `learner.type: "rmsprop" is not known: use sgd, momentumSGD or adam`},
		{configs.Learner{Type: "sgd", LearningRatesPerMB: rate}, 0, `learner: an epoch of 0 samples: at least 1 is needed`},
		{configs.Learner{Type: "sgd"}, 1, `learner: exactly one of learningRatesPerMB, learningRatesPerSample and learningRateSchedule is needed`},
		{configs.Learner{Type: "sgd", LearningRatesPerMB: rate, LearningRatesPerSample: rate}, 1,
			`learner: exactly one of learningRatesPerMB, learningRatesPerSample and learningRateSchedule is needed`},
		{configs.Learner{Type: "momentumSGD", LearningRatesPerMB: rate}, 1,
			`learner: momentumSGD needs exactly one of momentumPerMB, momentumPerSample and momentumAsTimeConstant`},
	} {
		if _, err := New(c.cfg, c.samples); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}
