package emulator

import (
	"fmt"
	"strings"

	"gotrain/cuda/driver"
)

// capture is a graph in the making: what streams are given becomes nodes. It follows CUDA's rules: a stream joins by waiting for an
// event of the capture, all have to be joined back, and an illegal call makes the whole capture worthless.
type capture struct {
	origin  *stream
	streams []*stream
	nodes   []*node
	failed  error
	ended   bool
}

// node is work with the nodes that come before it.
type node struct {
	*work
	after []int
	chain int // of the instantiated graph
}

func (s *stream) BeginCapture() error {
	const call = "cuStreamBeginCapture_v2"
	s.device.machine.mu.Lock()
	defer s.device.machine.mu.Unlock()
	if err := s.usable(call); err != nil {
		return err
	}
	if s.capture != nil {
		return failed(call, illegalState, s.String()+" captures already")
	}
	s.capture = &capture{origin: s, streams: []*stream{s}}
	return nil
}

// add makes a node.
func (c *capture) add(w *work, after []int) int {
	c.nodes = append(c.nodes, &node{work: w, after: after})
	return len(c.nodes) - 1
}

// fail makes the capture worthless and returns the reason.
func (c *capture) fail(err error) error {
	if c.failed == nil {
		c.failed = err
	}
	return err
}

// join lets a stream wait for an event of a capture; dropped, it joins as if it had waited for an event before all nodes.
func (s *stream) join(call string, v *event, dropped bool) error {
	switch {
	case v.capture.ended:
		err := failed(call, capturedEvent, s.String()+": the event is in a capture that has ended")
		if s.capture != nil {
			return s.capture.fail(err)
		}
		return err
	case v.capture.failed != nil:
		return failed(call, captureInvalidated, fmt.Sprintf("%s: %v", s, v.capture.failed))
	case s.capture == nil:
		s.capture, s.nodes = v.capture, nil
		s.capture.streams = append(s.capture.streams, s)
	case s.capture != v.capture:
		err := failed(call, captureMerge, s.String())
		v.capture.fail(err)
		return s.capture.fail(err)
	}
	if !dropped {
		s.nodes = union(s.nodes, v.nodes)
	}
	return nil
}

func (s *stream) EndCapture() (driver.Graph, error) {
	const call = "cuStreamEndCapture"
	m := s.device.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	c := s.capture
	if c == nil {
		return nil, failed(call, illegalState, s.String()+" captures nothing")
	}
	if c.origin != s {
		return nil, c.fail(failed(call, captureUnmatched, fmt.Sprintf("%s: the capture began in %s", s, c.origin)))
	}
	loose := c.loose()
	for _, t := range c.streams {
		t.capture, t.nodes = nil, nil
	}
	c.ended = true
	if c.failed != nil {
		return nil, failed(call, captureInvalidated, fmt.Sprintf("%s: %v", s, c.failed))
	}
	if err := s.device.usable(call, s.String()); err != nil {
		return nil, err
	}
	if loose != "" {
		return nil, failed(call, captureUnjoined, fmt.Sprintf("%s does not wait for %s", s, loose))
	}
	return m.instantiate(c.nodes), nil
}

// loose names the streams whose last nodes the first stream does not come after.
func (c *capture) loose() string {
	joined := make([]bool, len(c.nodes))
	for _, n := range c.origin.nodes {
		joined[n] = true
	}
	for i := len(c.nodes) - 1; i >= 0; i-- {
		for _, a := range c.nodes[i].after {
			joined[a] = joined[a] || joined[i]
		}
	}
	var names []string
	for _, s := range c.streams {
		for _, n := range s.nodes {
			if !joined[n] {
				names = append(names, fmt.Sprintf("%s, which was given %s last", s, c.nodes[n].work))
				break
			}
		}
	}
	return strings.Join(names, ", nor for ")
}
