package cpu

// #include <stdlib.h>
// #include "calls.h"
// #include "onednn.h"
// #include "program.h"
import "C"

import (
	"fmt"
	"unsafe"

	"gotrain/graph"
)

// program is a plan made ready to run: calls in C memory.
type program struct {
	e          *Executor
	plan       *graph.Plan
	calls      *C.gt_program
	start      []int // index of the first call of each operation, and one more
	end        int   // of the calls before the update
	cuts       []cut // in order
	primitives []*C.gt_primitive
	winograd   []*graph.Op // the convolutions and gradients of them that are done by Winograd's method
	workspaces []block
	inputs     map[*graph.Tensor]int // offsets in the executor's inputs
}

func (p *program) free() {
	C.gt_program_destroy(p.calls)
	for _, q := range p.primitives {
		C.gt_primitive_destroy(q)
	}
	for i := range p.workspaces {
		p.workspaces[i].free()
	}
}

// run runs the calls [from, to), with an exchange at each cut among them.
func (p *program) run(from, to int, x graph.Exchange, seconds []float64) error {
	for _, c := range p.cuts {
		if from < c.at && c.at < to {
			p.runCalls(from, c.at, seconds)
			if err := c.run(x); err != nil {
				return err
			}
			from = c.at
		}
	}
	p.runCalls(from, to, seconds)
	return nil
}

func (p *program) runCalls(from, to int, seconds []float64) {
	var s *C.double
	if seconds != nil {
		s = (*C.double)(unsafe.Pointer(&seconds[0]))
	}
	C.gt_program_run(p.calls, C.int(from), C.int(to), s)
}

// address says where a tensor lives.
func (p *program) address(t *graph.Tensor) unsafe.Pointer {
	e := p.e
	in := func(a graph.Arena, l *graph.Layout, name string) unsafe.Pointer {
		s, ok := l.Find(name)
		if !ok {
			return nil
		}
		return e.arenas[a].add(4 * s.Offset)
	}
	switch t.Role {
	case graph.Parameter:
		return in(graph.Parameters, &e.plan.Parameters, t.Name)
	case graph.ParameterGradient:
		return in(graph.Gradients, &e.plan.Parameters, t.Of.Name)
	case graph.Statistic:
		return in(graph.Statistics, &e.plan.Statistics, t.Name)
	case graph.Input:
		return e.inputs.add(p.inputs[t])
	}
	switch t {
	case p.plan.Loss:
		return e.sums.at
	case p.plan.Errors:
		return e.sums.add(8)
	}
	return e.activation.add(p.plan.Memory.Offset[t.ID])
}

// lowering turns the operations of a plan into calls. Operations share one block of scratch memory; how large it has to be
// is known when all of them have been seen, so that their calls are emitted after that.
type lowering struct {
	*program
	kernels *C.gt_kernels
	threads C.int
	scratch int // bytes
	emit    []func() error
	spaces  map[*graph.Tensor]unsafe.Pointer // of max pooling's workspace, by its output
}

// lower makes the program of a plan.
func (e *Executor) lower(plan *graph.Plan) (*program, error) {
	l := &lowering{program: &program{e: e, plan: plan, calls: C.gt_program_create(), inputs: map[*graph.Tensor]int{}},
		threads: C.int(e.options.Threads), spaces: map[*graph.Tensor]unsafe.Pointer{}}
	if err := l.lower(); err != nil {
		l.free()
		return nil, err
	}
	return l.program, nil
}

func (l *lowering) lower() (err error) {
	p, e, plan := l.program, l.e, l.plan
	if l.kernels, err = e.kernels(plan.Precision); err != nil {
		return err
	}
	if err := l.blocks(); err != nil {
		return err
	}
	size := 0
	for _, t := range []*graph.Tensor{plan.Inputs.Images, plan.Inputs.Labels, plan.Inputs.Weights, plan.Inputs.Divisor} {
		p.inputs[t] = size
		size += (t.Bytes() + graph.Align - 1) / graph.Align * graph.Align
	}
	if err := e.reserve(&e.inputs, size, "the input"); err != nil {
		return err
	}
	if err := e.reserve(&e.activation, plan.Memory.Peak, "activations"); err != nil {
		return err
	}
	for _, o := range plan.Ops {
		emit, err := l.operation(o)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", o.Name, o.Kind, err)
		}
		l.emit = append(l.emit, emit)
	}
	if err := e.reserve(&e.scratch, l.scratch, "scratch"); err != nil {
		return err
	}
	for i, emit := range l.emit {
		p.start = append(p.start, int(C.gt_program_length(p.calls)))
		if emit != nil {
			if err := emit(); err != nil {
				return fmt.Errorf("%s: %s: %w", plan.Ops[i].Name, plan.Ops[i].Kind, err)
			}
		}
	}
	p.end = int(C.gt_program_length(p.calls))
	p.start = append(p.start, p.end)
	return nil
}

// blocks refuses activations whose channels do not fill the blocks of the kernels.
func (l *lowering) blocks() error {
	for _, t := range l.plan.Tensors {
		if t.Role == graph.Intermediate && len(t.Shape) == 4 && t.Shape[1]%int(l.kernels.block) != 0 {
			return fmt.Errorf("%s: %d channels: this processor's kernels take a multiple of %d", t.Name, t.Shape[1], int(l.kernels.block))
		}
	}
	return nil
}

// need asks for scratch memory in the operation that is being lowered, behind `at` bytes of it, and returns where the next
// piece may start.
func (l *lowering) need(at, bytes int) int {
	end := (at + bytes + graph.Align - 1) / graph.Align * graph.Align
	l.scratch = max(l.scratch, end)
	return end
}

// own notes a primitive to be freed with the program.
func (l *lowering) own(q *C.gt_primitive) { l.primitives = append(l.primitives, q) }

// bind gives a primitive the places of its operands, its scratchpad among them, and appends it to the program.
func (l *lowering) bind(q *C.gt_primitive, scratchpad int, at map[C.int]unsafe.Pointer) error {
	if n := C.gt_primitive_bytes(q, C.GT_SCRATCHPAD); n > 0 {
		at[C.GT_SCRATCHPAD] = l.e.scratch.add(scratchpad)
	}
	for operand := C.int(0); operand <= C.GT_SCRATCHPAD; operand++ {
		if m := at[operand]; m != nil {
			if err := status(C.gt_primitive_bind(q, operand, m), "binding an operand"); err != nil {
				return err
			}
		}
	}
	C.gt_program_call(l.calls, (*[0]byte)(C.gt_primitive_run), unsafe.Pointer(q))
	return nil
}

func shape(t *graph.Tensor) C.gt_shape {
	return C.gt_shape{n: C.int(t.Shape[0]), c: C.int(t.Shape[1]), h: C.int(t.Shape[2]), w: C.int(t.Shape[3])}
}
