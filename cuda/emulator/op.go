package emulator

import (
	"fmt"
	"time"

	"gotrain/cuda/driver"
)

// kind is what an operation does.
type kind uint8

const (
	kernel kind = iota
	copying
	filling
)

// work is what a stream is given: a launch, a copy or a fill.
type work struct {
	kind     kind
	device   *device
	stream   string // the name of the stream that was given it
	launch   driver.Launch
	function *function
	to, from driver.Pointer
	bytes    int
	value    uint32 // of a fill
}

// String says what is done, without where.
func (w *work) String() string {
	switch w.kind {
	case kernel:
		return "kernel " + w.function.name
	case copying:
		return fmt.Sprintf("copy of %d bytes", w.bytes)
	}
	return fmt.Sprintf("fill of %d bytes", w.bytes)
}

// op is one execution of work.
type op struct {
	*work
	id    uint32
	n     uint32 // the number in its chain, from 1
	chain int
	clock clock
	count int // the number among what its stream was given, from 1; of a node: its number in the graph, from 0
	graph *Graph
	run   int // of the graph, from 1

	after []*op // not needed once done
	done  bool
	end   time.Duration
}

// String names the operation so that it can be found in a program.
func (o *op) String() string {
	if o.graph != nil {
		return fmt.Sprintf("%s (node %d of graph %d, run %d, from stream %s of device %d)",
			o.work, o.count, o.graph.number, o.run, o.stream, o.device.number)
	}
	return fmt.Sprintf("%s (operation %d of stream %s of device %d)", o.work, o.count, o.stream, o.device.number)
}

// give hands an operation over that comes after others.
func (m *machine) give(o *op, after []*op) {
	m.order.add(o, after...)
	for _, a := range after {
		if !a.done {
			o.after = append(o.after, a)
		}
	}
	m.pending++
}

// drain executes everything, so that no more than a limited number of operations waits.
func (m *machine) drain(call string) error {
	if m.pending < queued {
		return nil
	}
	var first error
	for _, o := range append([]*op(nil), m.order.ops...) {
		if err := m.execute(call, o); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// finish executes operations and what has to come before them; the host has waited for them then.
func (m *machine) finish(call string, ops []*op) error {
	var first error
	for _, o := range ops {
		if err := m.execute(call, o); err != nil && first == nil {
			first = err
		}
	}
	m.order.wait(ops...)
	return first
}

// execute executes an operation behind those that have to come before it. The error is that of the first that went wrong.
func (m *machine) execute(call string, o *op) error {
	var first error
	for stack := []*op{o}; len(stack) > 0; {
		top := stack[len(stack)-1]
		if len(top.after) > 0 {
			next := top.after[0]
			top.after = top.after[1:]
			if !next.done {
				stack = append(stack, next)
			}
			continue
		}
		stack = stack[:len(stack)-1]
		if top.done {
			continue
		}
		if err := m.perform(call, top); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// perform executes an operation whose turn has come. Operations of a device that was stopped are passed over.
func (m *machine) perform(call string, o *op) error {
	o.done, o.after = true, nil
	m.pending--
	o.end = m.busy
	if o.device.stopped != nil || o.device.opened == 0 {
		return nil
	}
	start := time.Now()
	var err error
	switch o.kind {
	case kernel:
		err = m.run(o)
	case copying:
		err = m.copy(o)
	case filling:
		err = m.fill(o)
	}
	m.busy += time.Since(start)
	o.end = m.busy
	if err == nil {
		return nil
	}
	o.device.stopped = err
	return &Stopped{Driver: failed(call, codeOf(err), o.String()), Cause: err}
}
