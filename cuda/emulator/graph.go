package emulator

import (
	"fmt"

	"gotrain/cuda/driver"
)

// Graph is a captured graph.
type Graph struct {
	machine *machine
	number  int // among the machine's graphs, from 1
	nodes   []*node
	last    []int // nodes that none comes after
	runs    int
	tail    []*op // the last nodes of the last run
	freed   bool
}

// Node describes a node of a graph.
type Node struct {
	Name   string // such as "kernel conv_forward_f32" or "copy of 512 bytes"
	Device int
	Stream string // that it was captured from
	After  []int  // nodes that come before it
}

// instantiate makes a graph of captured nodes. Its chains are paths: each node goes on the path of a node before it, if that has not
// been gone on with.
func (m *machine) instantiate(nodes []*node) *Graph {
	m.graphs++
	g := &Graph{machine: m, number: m.graphs, nodes: nodes}
	on := make([]bool, len(nodes))    // gone on with
	inner := make([]bool, len(nodes)) // some node comes after it
	for _, n := range nodes {
		n.chain = -1
		for _, a := range n.after {
			inner[a] = true
			if n.chain < 0 && !on[a] {
				n.chain, on[a] = nodes[a].chain, true
			}
		}
		if n.chain < 0 {
			n.chain = m.order.chain()
		}
	}
	for i := range nodes {
		if !inner[i] {
			g.last = append(g.last, i)
		}
	}
	return g
}

// Nodes is the number of nodes.
func (g *Graph) Nodes() int { return len(g.nodes) }

// Describe tells the graph's nodes in the order in which they were captured.
func (g *Graph) Describe() []Node {
	all := make([]Node, len(g.nodes))
	for i, n := range g.nodes {
		all[i] = Node{Name: n.String(), Device: n.device.number, Stream: n.stream, After: append([]int(nil), n.after...)}
	}
	return all
}

// Free lets the graph go. A run that was given to a stream goes on.
func (g *Graph) Free() error {
	g.machine.mu.Lock()
	defer g.machine.mu.Unlock()
	if g.freed {
		return failed("cuGraphExecDestroy", invalidValue, fmt.Sprintf("graph %d was freed before", g.number))
	}
	g.freed = true
	return nil
}

// Run gives the stream a graph: its nodes come after what the stream was given and after the graph's run before, and otherwise only
// after each other. Given to a stream that captures, it becomes nodes of the capture.
func (s *stream) Run(graph driver.Graph) error {
	const call = "cuGraphLaunch"
	m := s.device.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(call); err != nil {
		return err
	}
	g, ok := graph.(*Graph)
	if !ok || g.machine != m || g.freed {
		return failed(call, invalidHandle, s.String()+": the graph was freed or is another driver's")
	}
	if len(g.nodes) == 0 {
		return nil
	}
	if s.capture != nil {
		first := len(s.capture.nodes)
		for _, n := range g.nodes {
			after := s.nodes
			if len(n.after) > 0 {
				after = shift(n.after, first)
			}
			s.capture.add(n.work, after)
		}
		s.nodes = shift(g.last, first)
		return nil
	}
	g.runs++
	s.count++
	ops := make([]*op, len(g.nodes))
	roots := union(s.tail, g.tail)
	for i, n := range g.nodes {
		o := &op{work: n.work, chain: n.chain, count: i, graph: g, run: g.runs}
		after := roots
		if len(n.after) > 0 {
			after = pick(ops, n.after)
		}
		m.give(o, after)
		ops[i] = o
	}
	g.tail = pick(ops, g.last)
	s.tail = g.tail
	return m.drain(call)
}

func shift(nodes []int, by int) []int {
	moved := make([]int, len(nodes))
	for i, n := range nodes {
		moved[i] = n + by
	}
	return moved
}

func pick(ops []*op, at []int) []*op {
	some := make([]*op, len(at))
	for i, n := range at {
		some[i] = ops[n]
	}
	return some
}
