package cpu

// #include <omp.h>
// #include <stdlib.h>
// #include <string.h>
// #include "kernels.h"
// #include "onednn.h"
// #include "program.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"gotrain/graph"
)

// Options set up an executor.
type Options struct {
	Threads int    // OpenMP threads; 0: one a core
	Batch   int    // the number of samples of most batches: their plan is made first and sizes the memory
	ISA     string // "avx512", "avx2" or "portable" for our kernels; "": the best there is
	Direct  bool   // no Winograd: every convolution by oneDNN
}

// Executor implements graph.Executor. All of its C calls run on one OS thread of its own, because the OpenMP threads that
// serve them belong to the thread that calls.
type Executor struct {
	source  graph.Source
	options Options
	calls   chan func()

	// What follows is touched by calls only.
	engine     *C.gt_engine
	plan       *graph.Plan // for training on Options.Batch samples
	arenas     [graph.Arenas]block
	activation block // intermediates of the running plan
	scratch    block
	inputs     block
	sums       block // loss and errors, two doubles
	programs   map[key]*program
}

type key struct {
	samples   int
	inference bool
}

// New returns an executor for the network that source compiles.
func New(source graph.Source, o Options) (*Executor, error) {
	if o.Threads <= 0 {
		o.Threads = runtime.NumCPU() // a caller who shares the machine says how many
	}
	if o.Batch <= 0 {
		o.Batch = 1
	}
	plan, err := source(o.Batch, false)
	if err != nil {
		return nil, err
	}
	e := &Executor{source: source, options: o, plan: plan, calls: make(chan func()), programs: map[key]*program{}}
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		for f := range e.calls {
			f()
		}
	}()
	if err := e.do(e.open); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// do runs f on the executor's thread.
func (e *Executor) do(f func() error) error {
	done := make(chan error)
	e.calls <- func() { done <- f() }
	return <-done
}

// kernels returns the table of our kernels for a storage type.
func (e *Executor) kernels(t graph.DType) (*C.gt_kernels, error) {
	isa := C.CString(e.options.ISA)
	defer C.free(unsafe.Pointer(isa))
	k := C.gt_kernels_for(isa, C.int(t.Size()))
	if k == nil {
		return nil, fmt.Errorf("this machine has no kernels for %q", e.options.ISA)
	}
	return k, nil
}

func (e *Executor) open() error {
	C.omp_set_num_threads(C.int(e.options.Threads))
	k, err := e.kernels(graph.Float32)
	if err != nil {
		return err
	}
	if err := status(C.gt_engine_create(&e.engine, k.block), "creating an engine"); err != nil {
		return err
	}
	for a := range e.arenas {
		size := e.plan.Parameters.Size
		if graph.Arena(a) == graph.Statistics {
			size = e.plan.Statistics.Size
		}
		if e.arenas[a], err = allocate(4*size, graph.Arena(a).String()); err != nil {
			return err
		}
	}
	if e.sums, err = allocate(16, "sums"); err != nil {
		return err
	}
	_, err = e.program(e.options.Batch, false)
	return err
}

// reserve makes one of the executor's blocks at least so large. Programs hold pointers into it: when it has to grow they
// are all made anew.
func (e *Executor) reserve(b *block, bytes int, what string) error {
	if b.bytes >= bytes && b.at != nil {
		return nil
	}
	e.forget()
	b.free()
	var err error
	*b, err = allocate(bytes, what)
	return err
}

func (e *Executor) forget() {
	for k, p := range e.programs {
		p.free()
		delete(e.programs, k)
	}
}

// program returns the program for a number of samples.
func (e *Executor) program(samples int, inference bool) (*program, error) {
	k := key{samples, inference}
	if p := e.programs[k]; p != nil {
		return p, nil
	}
	plan := e.plan
	if inference || samples != e.plan.Batch {
		var err error
		if plan, err = e.source(samples, inference); err != nil {
			return nil, err
		}
	}
	p, err := e.lower(plan)
	if err != nil {
		return nil, err
	}
	e.programs[k] = p
	return p, nil
}

// Layouts returns the order of the arenas.
func (e *Executor) Layouts() (parameters, statistics *graph.Layout) {
	return &e.plan.Parameters, &e.plan.Statistics
}

// Plan returns the plan for training on Options.Batch samples.
func (e *Executor) Plan() *graph.Plan { return e.plan }

// Arena returns the arena itself: it is host memory.
func (e *Executor) Arena(a graph.Arena) []float32 { return e.arenas[a].floats() }

// Pull does nothing.
func (e *Executor) Pull(graph.Arena) error { return nil }

// Push does nothing.
func (e *Executor) Push(graph.Arena) error { return nil }

// load copies a batch to where the program reads it; the loss takes its labels for indices.
func (p *program) load(b *graph.Batch) error {
	if err := p.plan.Fits(b); err != nil {
		return err
	}
	in := p.plan.Inputs
	C.memcpy(p.address(in.Images), unsafe.Pointer(&b.Images[0]), C.size_t(in.Images.Bytes()))
	C.memcpy(p.address(in.Labels), unsafe.Pointer(&b.Labels[0]), C.size_t(in.Labels.Bytes()))
	C.memcpy(p.address(in.Weights), unsafe.Pointer(&b.Weights[0]), C.size_t(in.Weights.Bytes()))
	*(*float32)(p.address(in.Divisor)) = b.Divisor
	return nil
}

func (e *Executor) metrics(b *graph.Batch) graph.Metrics {
	sums := unsafe.Slice((*float64)(e.sums.at), 2)
	m := graph.Metrics{Loss: sums[0], Errors: sums[1]}
	for _, w := range b.Weights[:b.N] {
		m.Count += float64(w)
	}
	return m
}

// Step runs a training step.
func (e *Executor) Step(b *graph.Batch, u graph.Update, x graph.Exchange) (graph.Result, error) {
	return graph.StepInParts(e, b, u, x)
}

// Gradients runs the forward and the backward pass.
func (e *Executor) Gradients(b *graph.Batch, x graph.Exchange) (graph.Metrics, error) {
	return e.gradients(b, x, nil)
}

func (e *Executor) gradients(b *graph.Batch, x graph.Exchange, seconds []float64) (m graph.Metrics, err error) {
	if b.N == 0 {
		clear(e.Arena(graph.Gradients))
		return m, e.plan.RunEmpty(e.Arena(graph.Statistics), x)
	}
	err = e.do(func() error {
		p, err := e.program(b.N, false)
		if err != nil {
			return err
		}
		if err := p.load(b); err != nil {
			return err
		}
		from := 0
		if x != nil {
			for _, bucket := range p.plan.Buckets {
				to := p.start[bucket.Ready]
				if err := p.run(from, to, x, seconds); err != nil {
					return err
				}
				from = to
				x.Ready(bucket, e.metrics(b)) // the forward pass, which left them, is behind every bucket
			}
		}
		if err := p.run(from, p.end, x, seconds); err != nil {
			return err
		}
		m = e.metrics(b)
		return nil
	})
	return m, err
}

// SumSquares is the squared norm of the gradient arena.
func (e *Executor) SumSquares() (sum float64, err error) {
	err = e.do(func() error {
		g := e.arenas[graph.Gradients]
		sum = float64(C.gt_sum_squares((*C.float)(g.at), C.size_t(g.bytes/4), C.int(e.options.Threads)))
		return nil
	})
	return sum, err
}

// Update applies the learner's rule to the parameters.
func (e *Executor) Update(u graph.Update) error {
	scale := C.float(1)
	if u.Clip > 0 {
		squares, err := e.SumSquares()
		if err != nil {
			return err
		}
		scale = C.float(u.Scale(math.Sqrt(squares)))
	}
	arena := func(a graph.Arena) *C.float { return (*C.float)(e.arenas[a].at) }
	n, threads := C.size_t(e.plan.Parameters.Size), C.int(e.options.Threads)
	return e.do(func() error {
		switch u.Rule {
		case graph.SGD, graph.Momentum:
			a := C.gt_sgd{n: n, threads: threads, rate: C.float(u.Rate), momentum: C.float(u.Momentum), gain: C.float(u.Gain),
				l2: C.float(u.L2), scale: scale, w: arena(graph.Parameters), g: arena(graph.Gradients)}
			if u.Rule == graph.Momentum {
				a.m = arena(graph.FirstMoment)
			}
			if u.Nesterov {
				a.nesterov = 1
			}
			C.gt_sgd_update(&a)
		case graph.Adam:
			a := C.gt_adam{n: n, threads: threads, rate: C.float(u.Rate), beta1: C.float(u.Beta1), beta2: C.float(u.Beta2),
				epsilon: C.float(u.Epsilon), gain: C.float(u.Gain), l2: C.float(u.L2), scale: scale, bias1: C.float(bias(u.Beta1, u.Step)),
				bias2: C.float(bias(u.Beta2, u.Step)), w: arena(graph.Parameters), m: arena(graph.FirstMoment),
				v: arena(graph.SecondMoment), g: arena(graph.Gradients)}
			C.gt_adam_update(&a)
		default:
			return fmt.Errorf("no update rule %d", u.Rule)
		}
		return nil
	})
}

// Evaluate runs the forward pass with the running statistics.
func (e *Executor) Evaluate(b *graph.Batch, logits []float32) (m graph.Metrics, err error) {
	if b.N == 0 {
		return m, nil
	}
	err = e.do(func() error {
		p, err := e.program(b.N, true)
		if err != nil {
			return err
		}
		if err := p.load(b); err != nil {
			return err
		}
		if err := p.run(0, p.end, nil, nil); err != nil {
			return err
		}
		m = e.metrics(b)
		if logits != nil {
			t := p.plan.Logits
			copy(logits, unsafe.Slice((*float32)(p.address(t)), t.Shape.Values()))
		}
		return nil
	})
	return m, err
}

// Profile runs the forward and the backward pass as Gradients does, and returns the seconds of each operation of Plan.
// The batch has Options.Batch samples.
func (e *Executor) Profile(b *graph.Batch) ([]float64, error) {
	if b.N != e.plan.Batch {
		return nil, fmt.Errorf("profile takes %d samples, not %d", e.plan.Batch, b.N)
	}
	p := e.programs[key{b.N, false}]
	if p == nil {
		return nil, errors.New("the plan has no program")
	}
	calls := make([]float64, p.end)
	if _, err := e.gradients(b, nil, calls); err != nil {
		return nil, err
	}
	ops := make([]float64, len(e.plan.Ops))
	for i := range ops {
		for _, s := range calls[p.start[i]:p.start[i+1]] {
			ops[i] += s
		}
	}
	return ops, nil
}

// Close frees the executor's memory and ends its thread.
func (e *Executor) Close() error {
	err := e.do(func() error {
		e.forget()
		for a := range e.arenas {
			e.arenas[a].free()
		}
		for _, b := range []*block{&e.activation, &e.scratch, &e.inputs, &e.sums} {
			b.free()
		}
		C.gt_engine_destroy(e.engine)
		return nil
	})
	close(e.calls)
	return err
}

// status turns oneDNN's status into an error.
func status(s C.int, doing string) error {
	if s == 0 {
		return nil
	}
	why := map[C.int]string{1: "out of memory", 2: "invalid arguments", 3: "not supported on this machine", 5: "runtime error", 6: "not required"}[s]
	if why == "" {
		why = "unknown"
	}
	return fmt.Errorf("oneDNN: %s: %s (status %d)", doing, why, int(s))
}
