package configs

// PerEpoch is CNTK's schedule of one value an epoch, 1.0*80:0.1*40:0.01: 80
// epochs at 1.0, 40 at 0.1, and 0.01 from then on. Empty means that the key is
// not set.
type PerEpoch []Span

// Span is a value that holds for a number of epochs. Epochs counts at least 1;
// that of the last span is 1 where it was not written, and does not matter.
type Span struct {
	Value  float64
	Epochs int
}

// Bits is the number of bits a gradient value is sent with, by epoch.
type Bits struct {
	Auto     bool     // chosen by measuring, once, at the run's start
	Schedule PerEpoch // 32, 16, 8, 4, 2 or 1; empty where Auto
}

// Piece is one part of a learning rate schedule. It lasts Epochs epochs (a
// fraction is allowed) from where the piece before it ended.
//
//	constant  From (= To)
//	linear    from From to To on a straight line
//	cosine    from From to To on half a period of a cosine
//	warmUp    from 0 (= From) to To on a straight line
//	oneCycle  from From to Peak during the share WarmUp of Epochs, then to To,
//	          both on half a period of a cosine
type Piece struct {
	Kind   string
	From   float64
	To     float64
	Epochs float64
	Peak   float64 // oneCycle
	WarmUp float64 // oneCycle: share of Epochs, in [0, 1]
}

// Set reports whether the schedule holds a value.
func (p PerEpoch) Set() bool { return len(p) > 0 }

// At returns the value of an epoch, counted from 0. The last value repeats; an
// empty schedule is 0 throughout.
func (p PerEpoch) At(epoch int) float64 {
	if len(p) == 0 {
		return 0
	}
	for _, s := range p {
		if epoch < s.Epochs {
			return s.Value
		}
		epoch -= s.Epochs
	}
	return p[len(p)-1].Value
}

// At returns the bits of an epoch, counted from 0; 0 where they are chosen
// automatically.
func (b Bits) At(epoch int) int { return int(b.Schedule.At(epoch)) }
