package cuda

import "fmt"

// Describe lists what a step does on which stream of which device, and what waits for what: the step of all workers together, each with
// Options.Batch samples, where they have aggregators; with 0 bits that of the first worker alone.
func (f *Fleet) Describe(bits int) ([]Node, error) {
	var programs []*program
	for _, e := range f.workers {
		if bits != 0 {
			if e.aggregator == nil {
				return nil, fmt.Errorf("worker %d has no aggregator", e.index)
			}
			if err := e.aggregator.prepare(bits); err != nil {
				return nil, err
			}
		}
		p, err := e.program(f.options.Batch, false)
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	r := newRecorder()
	r.dry = true
	if bits == 0 {
		programs[0].whole(r)
	} else if err := f.makeShares(); err != nil {
		return nil, err
	} else {
		f.record(r, programs, bits, nil)
	}
	return r.nodes, r.err
}
