package cuda

import (
	"fmt"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// program is a plan as launches.
type program struct {
	e        *Executor
	plan     *graph.Plan
	slot     slot
	place    placing
	tables   []driver.Pointer      // that packing reads
	pack     []driver.Launch       // weights, as convolutions want them
	images   []driver.Launch       // from the slot, or the resident set, to where the first operation reads them
	launches [][]driver.Launch     // by operation
	lent     map[int]*lent         // the convolutions that a provider computes, by operation; its launches come after
	norms    map[int]*kernels.Norm // the synchronized batch norms and their gradients, by operation

	alone *work   // the whole step of one worker, or an evaluation
	parts []*part // the forward and the backward pass, cut where gradients travel through the host
}

// placing is where tensors lie in a block of memory, in bytes.
type placing struct {
	offset []int // by ID; -1: elsewhere
	images int   // the images as the first operation reads them
	bytes  int
}

// arrange places a plan's tensors: as the plan does, or, where channels have to be padded, one behind the other.
func arrange(p *graph.Plan) placing {
	a := placing{offset: p.Memory.Offset, bytes: p.Memory.Peak}
	padded := false
	for _, t := range p.Tensors {
		padded = padded || p.Memory.Offset[t.ID] >= 0 && bytes(t) != t.Bytes()
	}
	if padded {
		a = placing{offset: make([]int, len(p.Tensors))}
		for _, t := range p.Tensors {
			a.offset[t.ID] = -1
			if p.Memory.Offset[t.ID] >= 0 {
				a.offset[t.ID] = a.bytes
				a.bytes += align(bytes(t))
			}
		}
	}
	a.images = align(a.bytes)
	a.bytes = a.images + bytes(p.Inputs.Images)
	return a
}

// bytes is the memory of a tensor on a device.
func bytes(t *graph.Tensor) int {
	if len(t.Shape) == 4 && t.Role != graph.Parameter && t.Role != graph.ParameterGradient {
		return kernels.ActivationBytes(t.Shape, t.DType)
	}
	return t.Bytes()
}

// program returns the program for a number of samples.
func (e *Executor) program(samples int, inference bool) (*program, error) {
	k := key{samples, inference}
	if p := e.programs[k]; p != nil {
		return p, nil
	}
	if samples == 0 {
		p := &program{e: e, slot: e.slotFor(nil)}
		if err := e.reserve(p, 0); err != nil {
			return nil, err
		}
		e.programs[k] = p
		return p, nil
	}
	plan := e.fleet.plan
	if inference || samples != plan.Batch {
		var err error
		if plan, err = e.fleet.source(samples, inference); err != nil {
			return nil, err
		}
	}
	p := &program{e: e, plan: plan, place: arrange(plan), norms: map[int]*kernels.Norm{}, lent: map[int]*lent{}}
	p.slot = e.slotFor(plan)
	// The first pass says how much memory the operations want.
	l := &lowering{program: p}
	err := l.lower()
	if err == nil {
		err = e.reserve(p, l.most)
	}
	if err == nil {
		p.images, p.launches, l.final = nil, nil, true
		err = l.lower()
	}
	if err == nil {
		err = p.warm()
	}
	if err != nil {
		p.free()
		return nil, err
	}
	e.programs[k] = p
	return p, nil
}

// reserve makes the worker's memory large enough for a program. Programs hold pointers into it: when some of it moves, all are
// made anew.
func (e *Executor) reserve(p *program, scratch int) error {
	packed, logits := 0, 0
	if p.plan != nil {
		_, _, _, packed = p.convolutions()
	}
	if p.plan != nil && p.plan.Inference {
		logits = p.plan.Logits.Bytes()
	}
	moved := false
	var err error
	for _, b := range []struct {
		*block
		bytes int
	}{{&e.inputs, p.slot.bytes}, {&e.activations, p.place.bytes}, {&e.scratch, scratch}, {&e.packed, packed}} {
		if err == nil {
			var m bool
			m, err = e.device.reserve(b.block, b.bytes)
			moved = moved || m
		}
	}
	for b, n := range map[*hostBlock]int{&e.slot: p.slot.bytes, &e.logits: logits} {
		if err == nil {
			var m bool
			m, err = e.device.reserveHost(b, n)
			moved = moved || m
		}
	}
	if moved || err != nil {
		e.fleet.forget() // before: its graphs hold what programs have lent
		e.forget()
	}
	return err
}

func (p *program) free() {
	for _, t := range p.tables {
		_ = p.e.device.Free(t)
	}
	if p.alone != nil {
		p.alone.free()
	}
	for _, x := range p.parts {
		x.work.free()
	}
	for _, c := range p.lent { // behind the graphs that they are in
		_ = c.Free()
	}
}

// lowering turns the operations of a plan into launches. Those of one operation after another use the same scratch memory.
type lowering struct {
	*program
	final  bool                  // memory is there; before, the launches are of no use
	most   int                   // bytes of scratch memory
	places map[*graph.Tensor]int // of packed weights, by weight
}

func (l *lowering) lower() error {
	if err := l.load(); err != nil {
		return err
	}
	if err := l.packWeights(); err != nil {
		return err
	}
	for _, o := range l.plan.Ops {
		launches, err := l.operation(o)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", o.Name, o.Kind, err)
		}
		l.launches = append(l.launches, launches)
	}
	return nil
}

// need asks for scratch memory in the operation that is being lowered.
func (l *lowering) need(bytes int) driver.Pointer {
	l.most = max(l.most, bytes)
	return l.e.scratch.at
}

// address says where a tensor lives.
func (p *program) address(t *graph.Tensor) driver.Pointer {
	e := p.e
	in := func(a graph.Arena, l *graph.Layout, name string) driver.Pointer {
		s, ok := l.Find(name)
		if !ok {
			panic("cuda: no place for " + name) // the compiler lays out all that there is
		}
		return e.arenas[a] + driver.Pointer(4*s.Offset)
	}
	switch t.Role {
	case graph.Parameter:
		return in(graph.Parameters, &e.fleet.plan.Parameters, t.Name)
	case graph.ParameterGradient:
		return in(graph.Gradients, &e.fleet.plan.Parameters, t.Of.Name)
	case graph.Statistic:
		return in(graph.Statistics, &e.fleet.plan.Statistics, t.Name)
	}
	switch t {
	case p.plan.Inputs.Images:
		return e.activations.at + driver.Pointer(p.place.images)
	case p.plan.Inputs.Labels:
		return e.inputs.at + driver.Pointer(p.slot.labels)
	case p.plan.Inputs.Weights:
		return e.inputs.at + driver.Pointer(p.slot.weights)
	case p.plan.Inputs.Divisor:
		return e.inputs.at + driver.Pointer(p.slot.divisor)
	}
	return e.activations.at + driver.Pointer(p.place.offset[t.ID])
}
