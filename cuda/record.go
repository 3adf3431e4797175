package cuda

import (
	"fmt"
	"slices"

	"gotrain/cuda/driver"
)

// lane is a stream of a worker.
type lane struct {
	driver.Stream
	device *device
	worker int
	name   string
}

func (l *lane) String() string {
	return fmt.Sprintf("%s stream of worker %d on device %d", l.name, l.worker, l.device.number)
}

// Node is one operation of a step: kernels that are launched together, a copy, or a fill.
type Node struct {
	Worker, Device int
	Stream         string // "compute", "copy" or "exchange"
	What           string // what it does, and for which layer or bucket
	After          []int  // the nodes that it waits for, by index, those of its own stream too
}

// recorder gives streams their work, and keeps the first error, after which it does nothing. It notes the work as nodes.
type recorder struct {
	dry    bool // only notes
	err    error
	events []driver.Event
	nodes  []Node
	last   map[*lane][]int // the nodes that a lane's next one comes after
}

func newRecorder() *recorder { return &recorder{last: map[*lane][]int{}} }

func (r *recorder) do(l *lane, what string, f func() error) {
	if r.err != nil || r.dry {
		return
	}
	if err := f(); err != nil {
		r.err = fmt.Errorf("%s, %s: %w", what, l, err)
	}
}

func (r *recorder) node(l *lane, what string, f func() error) {
	r.do(l, what, f)
	r.nodes = append(r.nodes, Node{Worker: l.worker, Device: l.device.number, Stream: l.name, What: what, After: r.last[l]})
	r.last[l] = []int{len(r.nodes) - 1}
}

func (r *recorder) launch(l *lane, what string, launches ...driver.Launch) {
	if len(launches) > 0 {
		r.node(l, what, func() error { return l.Launch(launches...) })
	}
}

func (r *recorder) copy(l *lane, what string, to, from driver.Pointer, bytes int) {
	if bytes > 0 {
		r.node(l, what, func() error { return l.Copy(to, from, bytes) })
	}
}

func (r *recorder) fill(l *lane, what string, to driver.Pointer, value uint32, words int) {
	if words > 0 {
		r.node(l, what, func() error { return l.Fill(to, value, words) })
	}
}

// mark is a point in a lane.
type mark struct {
	event driver.Event
	after []int
}

func (r *recorder) mark(l *lane) (m mark) {
	r.do(l, "recording an event", func() (err error) {
		if m.event, err = l.device.NewEvent(); err != nil {
			return err
		}
		r.events = append(r.events, m.event)
		return l.Record(m.event)
	})
	m.after = r.last[l]
	return m
}

// wait lets what comes next in a lane wait for marks.
func (r *recorder) wait(l *lane, marks ...mark) {
	for _, m := range marks {
		r.do(l, "waiting for an event", func() error { return l.Wait(m.event) })
		after := slices.Clone(r.last[l])
		for _, n := range m.after {
			if !slices.Contains(after, n) {
				after = append(after, n)
			}
		}
		r.last[l] = after
	}
}

// join lets a lane wait for all that other lanes have been given.
func (r *recorder) join(l *lane, others ...*lane) {
	for _, o := range others {
		r.wait(l, r.mark(o))
	}
}

func (r *recorder) free() {
	for _, e := range r.events {
		if err := e.Free(); err != nil && r.err == nil {
			r.err = err
		}
	}
	r.events = nil
}

// work is what streams are given again and again: as a graph that was captured once, or anew each time.
type work struct {
	origin *lane // forks to all others, and is joined by them
	record func(*recorder)
	nodes  []Node
	graph  driver.Graph
	eager  *recorder // of the last run
	pieces []*work   // that record starts
}

// capture prepares work.
func capture(origin *lane, eager bool, record func(*recorder)) (*work, error) {
	w := &work{origin: origin, record: record}
	if eager {
		return w, nil
	}
	if err := origin.BeginCapture(); err != nil {
		return nil, fmt.Errorf("capturing a graph, %s: %w", origin, err)
	}
	r := newRecorder()
	record(r)
	g, err := origin.EndCapture()
	r.free()
	if r.err != nil { // what went wrong first, and made the capture void
		if err == nil {
			_ = g.Free()
		}
		return nil, fmt.Errorf("capturing a graph: %w", r.err)
	}
	if err != nil {
		return nil, fmt.Errorf("capturing a graph, %s: %w", origin, err)
	}
	w.graph, w.nodes = g, r.nodes
	return w, nil
}

// start gives the work to the origin.
func (w *work) start() error {
	if w.graph != nil {
		return w.origin.Run(w.graph)
	}
	w.drop()
	w.eager = newRecorder()
	w.record(w.eager)
	w.nodes = w.eager.nodes
	return w.eager.err
}

// run is start, and waits for the end.
func (w *work) run() error {
	if err := w.start(); err != nil {
		return err
	}
	return w.origin.Synchronize()
}

// drop forgets the last run.
func (w *work) drop() {
	if w.eager != nil {
		w.eager.free()
		w.eager = nil
	}
}

func (w *work) free() {
	w.drop()
	freeAll(w.pieces)
	w.pieces = nil
	if w.graph != nil {
		_ = w.graph.Free()
		w.graph = nil
	}
}
