package cuda

import (
	"fmt"
	"unsafe"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// Executor is a worker of a fleet. It implements graph.Executor.
type Executor struct {
	fleet  *Fleet
	index  int
	device *device
	closed bool // guarded by the fleet's lock

	compute, copy, exchange *lane

	arenas  [graph.Arenas]driver.Pointer
	mirrors [graph.Arenas]driver.Host

	activations, scratch, packed, inputs block
	slot                                 hostBlock // what a step's batch and rule are written to
	logits                               hostBlock // of an evaluation
	tickets                              block     // words that are zero between launches
	results                              block     // see results.go
	found                                hostBlock // the results, on the host
	squares                              block     // partial sums of the norm
	shares                               block     // of synchronized batch norms, see sync.go
	sentShares                           hostBlock // where the fleet is staged: its own

	programs   map[key]*program
	aggregator *Aggregator // of steps that the fleet takes together
}

// key is what programs differ by.
type key struct {
	samples   int
	inference bool
}

func (e *Executor) start() error {
	for l, name := range map[**lane]string{&e.compute: "compute", &e.copy: "copy", &e.exchange: "exchange"} {
		s, err := e.device.NewStream(fmt.Sprintf("%s of worker %d", name, e.index))
		if err != nil {
			return fmt.Errorf("making a stream on device %d: %w", e.device.number, err)
		}
		*l = &lane{Stream: s, device: e.device, worker: e.index, name: name}
	}
	for a := range graph.Arenas {
		if err := e.arena(a); err != nil {
			return err
		}
	}
	e.activations.what, e.scratch.what = e.named("activations"), e.named("scratch")
	e.packed.what, e.inputs.what = e.named("packed weights"), e.named("inputs")
	e.squares.what = e.named("partial sums of the norm")
	if _, err := e.device.reserve(&e.squares, kernels.SumSquaresScratch(e.size(graph.Gradients))); err != nil {
		return err
	}
	e.slot.what, e.logits.what = e.named("inputs"), e.named("logits")
	if err := e.small(); err != nil {
		return err
	}
	if err := e.compute.Synchronize(); err != nil {
		return fmt.Errorf("clearing memory of device %d: %w", e.device.number, err)
	}
	_, err := e.program(e.fleet.options.Batch, false)
	return err
}

// named names memory of this worker.
func (e *Executor) named(what string) string { return fmt.Sprintf("%s of worker %d", what, e.index) }

// arena allocates an arena of zeros and its mirror.
func (e *Executor) arena(a graph.Arena) (err error) {
	bytes := 4 * e.size(a)
	if bytes == 0 {
		return nil
	}
	what := e.named(a.String())
	b := block{what: what}
	if _, err := e.device.reserve(&b, bytes); err != nil {
		return err
	}
	e.arenas[a] = b.at
	h := hostBlock{what: what}
	if _, err := e.device.reserveHost(&h, bytes); err != nil {
		return err
	}
	e.mirrors[a] = h.Host
	if err := e.compute.Fill(b.at, 0, bytes/4); err != nil {
		return fmt.Errorf("clearing %s: %w", what, err)
	}
	return nil
}

// size is an arena's, in values.
func (e *Executor) size(a graph.Arena) int {
	if a == graph.Statistics {
		return e.fleet.plan.Statistics.Size
	}
	return e.fleet.plan.Parameters.Size
}

// forget frees programs: the memory that they were made for is not there any more.
func (e *Executor) forget() {
	for k, p := range e.programs {
		p.free()
		delete(e.programs, k)
	}
}

// Layouts returns the order of the arenas.
func (e *Executor) Layouts() (parameters, statistics *graph.Layout) {
	return &e.fleet.plan.Parameters, &e.fleet.plan.Statistics
}

// Plan returns the plan for training on Options.Batch samples.
func (e *Executor) Plan() *graph.Plan { return e.fleet.plan }

// Arena returns the mirror of an arena, in pinned memory.
func (e *Executor) Arena(a graph.Arena) []float32 { return floats(e.mirrors[a].Bytes) }

func floats(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// Pull fills the mirror of an arena.
func (e *Executor) Pull(a graph.Arena) error {
	return e.move("reading", a, e.mirrors[a].Pointer, e.arenas[a])
}

// Push carries the mirror of an arena to the device.
func (e *Executor) Push(a graph.Arena) error {
	return e.move("writing", a, e.arenas[a], e.mirrors[a].Pointer)
}

func (e *Executor) move(doing string, a graph.Arena, to, from driver.Pointer) error {
	if e.size(a) == 0 {
		return nil
	}
	err := e.compute.Copy(to, from, 4*e.size(a))
	if err == nil {
		err = e.compute.Synchronize()
	}
	if err != nil {
		return fmt.Errorf("%s %s of worker %d on device %d: %w", doing, a, e.index, e.device.number, err)
	}
	return nil
}
