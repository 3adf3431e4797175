package sweep

import (
	"fmt"
	"time"

	"gotrain/pipeline"
)

// Estimate is what a sweep would take.
type Estimate struct {
	Runs, Parallel int
	Seconds        float64 // of all runs, one after the other
}

// startup is about what a run takes beside training and testing, in seconds.
const startup = 0.3

// Estimate adds up what the runs of a plan would take. measure is asked once for trials that differ in nothing that takes time.
func (p *Plan) Estimate(measure func(Trial) (pipeline.Estimate, error)) (e Estimate, err error) {
	l, err := p.limits()
	if err != nil {
		return e, err
	}
	e.Parallel = l.parallel
	known := map[string]pipeline.Estimate{}
	open := 0
	for _, t := range p.Trials {
		if t.Fault != nil {
			continue
		}
		if t.open() {
			open++
			continue
		}
		if t.Config, err = l.bounded(p, t); err != nil {
			return e, err
		}
		c := t.Config
		key := fmt.Sprintf("%+v %+v %s %s %d %d %d %d %+v %v", c.Reader, c.Network, c.Precision, c.Device, c.Threads, c.Learner.MinibatchSize,
			c.Learner.EpochSize, c.Learner.MaxEpochs, c.Distributed, c.Command)
		one, ok := known[key]
		if !ok {
			if one, err = measure(t); err != nil {
				return e, fmt.Errorf("trial %d: %w", t.Number, err)
			}
			known[key] = one
		}
		e.Runs += p.Repeats
		e.Seconds += float64(p.Repeats) * (one.Seconds() + startup)
	}
	if open > 0 { // like the others, on average
		more := open * p.Repeats
		e.Seconds *= float64(e.Runs+more) / float64(e.Runs)
		e.Runs += more
	}
	return e, nil
}

// String says it in a line.
func (e Estimate) String() string {
	total := time.Duration(e.Seconds / float64(e.Parallel) * float64(time.Second))
	return fmt.Sprintf("%d runs, %d at a time: about %v", e.Runs, e.Parallel, total.Round(time.Second))
}
