// Package cuda runs compiled plans on GPUs: the workers of one process are a Fleet, each with a device, and each an executor of
// package graph. A step becomes launches of package kernels on three streams of every worker (compute, copy, exchange), captured
// into a graph when it is first met and run again after that. Where the fleet aggregates gradients by itself (see Aggregator),
// the step of all workers is one graph, and gradients never leave the devices; with any other graph.Exchange (over MPI, with
// double buffering) they travel through pinned memory of the host while the backward pass goes on.
//
// It knows nothing of what launches compute, which is package kernels' business, and runs on any driver.Driver: on GPUs, or on
// package emulator's. Sums are made in one order, that of the workers where they are several, so that two runs agree to the bit.
//
// Convolutions can be another Provider's: cuDNN's, for those that ChooseConvolutions has found to be faster so.
//
// Images of odd channel counts and all other activations lie as [N][H][W][C] with C padded to a multiple of 8, arenas as on the
// CPU. What changes from step to step (the batch, the learner's rule) is written to a pinned block of the worker's, which the
// step's graph copies to its device.
package cuda

import (
	"errors"
	"fmt"
	"sync"

	"gotrain/cuda/driver"
	"gotrain/graph"
)

// Options set up a fleet.
type Options struct {
	Workers int   // of this process; 0: one
	Devices []int // that the workers take in turn; empty: all that there are
	Batch   int   // the number of samples of most of a worker's batches: their plan is made first
	TF32    bool  // float32 convolutions multiply in tf32
	Eager   bool  // launch everything anew in each step, to test that graphs change nothing

	// Provider computes convolutions too; nil: package kernels alone does. It computes those that are Chosen and that it can: where
	// Chosen is nil, all, and it is an error where it cannot.
	Provider Provider
	Chosen   *Choices

	// Resident, where not nil, is the training set. Each device holds it, and a step takes Batch.Plan instead of Batch.Images.
	// Evaluate takes images: it sees other sets too.
	Resident *graph.Resident
}

// Fleet is the workers of a process.
type Fleet struct {
	driver  driver.Driver
	options Options
	source  graph.Source
	plan    *graph.Plan // for training on Options.Batch samples; its layouts are those of all others
	devices []*device
	workers []*Executor
	staged  bool               // some devices do not reach each other: what workers send goes through pinned memory of the host
	steps   map[fleetKey]*work // of all workers together

	mu      sync.Mutex // guards what follows
	calls   []*call    // of workers that have come to the step
	here    int
	open    int // executors that are not closed
	aborted error
}

// NewFleet makes executors for the network that source compiles.
func NewFleet(d driver.Driver, source graph.Source, o Options) (*Fleet, error) {
	o.Workers, o.Batch = max(o.Workers, 1), max(o.Batch, 1)
	if len(o.Devices) == 0 {
		for i := range d.Devices() {
			o.Devices = append(o.Devices, i)
		}
	}
	if len(o.Devices) == 0 {
		return nil, fmt.Errorf("%s has no device", d)
	}
	plan, err := source(o.Batch, false)
	if err != nil {
		return nil, err
	}
	f := &Fleet{driver: d, options: o, source: source, plan: plan, steps: map[fleetKey]*work{}, calls: make([]*call, o.Workers)}
	if err := f.start(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fleet) start() error {
	opened := map[int]*device{}
	for i := range f.options.Workers {
		number := f.options.Devices[i%len(f.options.Devices)]
		if opened[number] == nil {
			d, err := openDevice(f.driver, number, f.options.Resident)
			if d != nil {
				f.devices = append(f.devices, d)
			}
			if err != nil {
				return err
			}
			opened[number] = d
			if f.options.Provider != nil {
				if err := d.startProvider(f.options.Provider); err != nil {
					return err
				}
			}
		}
	}
	for _, d := range f.devices {
		for _, other := range f.devices {
			if d == other {
				continue
			}
			err := d.EnablePeer(other.Device)
			if errors.Is(err, driver.ErrNoPeer) {
				f.staged = true
			} else if err != nil {
				return fmt.Errorf("letting device %d reach device %d: %w", d.number, other.number, err)
			}
		}
	}
	for i := range f.options.Workers {
		e := &Executor{fleet: f, index: i, device: opened[f.options.Devices[i%len(f.options.Devices)]], programs: map[key]*program{}}
		f.workers = append(f.workers, e)
		f.open++
		if err := e.start(); err != nil {
			return err
		}
	}
	return nil
}

// Executor is that of a worker.
func (f *Fleet) Executor(worker int) *Executor { return f.workers[worker] }

// Fleet is that of the worker.
func (e *Executor) Fleet() *Fleet { return e.fleet }

// Workers is the number of workers.
func (f *Fleet) Workers() int { return len(f.workers) }

// Close frees all. The executors do it when the last of them is closed.
func (f *Fleet) Close() error {
	f.Abort(errors.New("the fleet is closed"))
	for k, w := range f.steps {
		w.free()
		delete(f.steps, k)
	}
	for _, e := range f.workers {
		e.forget()
	}
	var errs []error
	for _, d := range f.devices {
		if err := d.Close(); err != nil {
			errs = append(errs, fmt.Errorf("closing device %d: %w", d.number, err))
		}
	}
	f.devices = nil
	return errors.Join(errs...)
}

// Close closes the fleet when all of its executors are closed.
func (e *Executor) Close() error {
	f := e.fleet
	f.mu.Lock()
	last := false
	if !e.closed {
		e.closed = true
		f.open--
		last = f.open == 0
	}
	f.mu.Unlock()
	if last {
		return f.Close()
	}
	return nil
}

// align rounds bytes up to what tensors are aligned to.
func align(bytes int) int { return (bytes + graph.Align - 1) / graph.Align * graph.Align }

var _ graph.Executor = (*Executor)(nil)
