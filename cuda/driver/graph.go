package driver

/*
#include "api.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// BeginCapture captures without regard to threads: streams of other devices join on threads of their own, and other streams
// go on working meanwhile.
func (s *stream) BeginCapture() error {
	return s.give("cuStreamBeginCapture_v2", func() C.CUresult {
		return C.call_cuStreamBeginCapture_v2(s.device.api, s.handle, C.CU_STREAM_CAPTURE_MODE_RELAXED)
	})
}

type graph struct {
	device     *device
	handle     C.CUgraph
	executable C.CUgraphExec
	nodes      int
}

// EndCapture instantiates what was captured.
func (s *stream) EndCapture() (Graph, error) {
	d := s.device
	g := &graph{device: d}
	err := d.do(func() error {
		if err := d.check("cuStreamEndCapture", C.call_cuStreamEndCapture(d.api, s.handle, &g.handle), s.String()); err != nil {
			if g.handle != nil {
				C.call_cuGraphDestroy(d.api, g.handle)
			}
			return err
		}
		r := resource{kind: graphs, handle: unsafe.Pointer(g.handle)}
		d.left[r] = true
		what := fmt.Sprintf("the graph captured by %v", s)
		var nodes C.size_t
		err := d.check("cuGraphGetNodes", C.call_cuGraphGetNodes(d.api, g.handle, nil, &nodes), what)
		if err == nil {
			g.nodes = int(nodes)
			what += fmt.Sprintf(", of %d nodes", g.nodes)
			err = d.check("cuGraphInstantiateWithFlags", C.call_cuGraphInstantiateWithFlags(d.api, &g.executable, g.handle, 0), what)
		}
		if err != nil {
			d.free(r)
			return err
		}
		d.left[resource{kind: executables, handle: unsafe.Pointer(g.executable)}] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Run gives the stream a graph. It need not be of the stream's device.
func (s *stream) Run(of Graph) error {
	g, ok := of.(*graph)
	if !ok {
		return fmt.Errorf("%v: the graph is not one of this driver", s)
	}
	return s.give("cuGraphLaunch", func() C.CUresult { return C.call_cuGraphLaunch(s.device.api, g.executable, s.handle) })
}

func (g *graph) Nodes() int { return g.nodes }

func (g *graph) Free() error {
	return g.device.do(func() error {
		executable, captured := resource{kind: executables, handle: unsafe.Pointer(g.executable)}, resource{kind: graphs, handle: unsafe.Pointer(g.handle)}
		if !g.device.left[executable] {
			return fmt.Errorf("a graph of %v was freed before", g.device)
		}
		if err := g.device.free(executable); err != nil {
			return err
		}
		return g.device.free(captured)
	})
}
