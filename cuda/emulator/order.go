package emulator

import "sync"

// clock is a vector clock: for each chain of operations, how many of it come before. A chain is a stream, or a path through a graph,
// so that its operations are ordered among themselves.
type clock []uint32

// join makes c come after o too.
func (c *clock) join(o clock) {
	for len(*c) < len(o) {
		*c = append(*c, 0)
	}
	for i, n := range o {
		(*c)[i] = max((*c)[i], n)
	}
}

// covers says whether the n-th operation of a chain comes before.
func (c clock) covers(chain int, n uint32) bool { return chain < len(c) && c[chain] >= n }

// order knows of any two operations whether one comes before the other. Operations have identifiers in the order in which they were
// given, from 1. Those that the host has waited for come before whatever is given now, and are forgotten.
type order struct {
	ops    []*op
	base   uint32   // identifier of ops[0]
	chains []uint32 // operations of each chain
	host   clock    // what the host has waited for

	mu      sync.Mutex // guards the sets while a kernel's blocks run in parallel
	sets    []set
	setBase uint32 // identifier of sets[0], without setBit
}

// set is several operations that nothing orders and that have read the same word. It has an identifier like an operation's.
type set struct {
	members []uint32
	last    uint32 // the largest of them
}

const setBit = 1 << 31

// chain starts a chain.
func (r *order) chain() int {
	r.chains = append(r.chains, 0)
	return len(r.chains) - 1
}

// add puts an operation behind others, and behind what the host has waited for.
func (r *order) add(o *op, after ...*op) {
	if r.base == 0 {
		r.base = 1
	}
	o.id = r.base + uint32(len(r.ops))
	r.ops = append(r.ops, o)
	o.clock = append(make(clock, 0, len(r.chains)), r.host...)
	for _, a := range after {
		o.clock.join(a.clock)
	}
	r.chains[o.chain]++
	o.n = r.chains[o.chain]
	for len(o.clock) <= o.chain {
		o.clock = append(o.clock, 0)
	}
	o.clock[o.chain] = o.n
}

// before says whether the operation or all of the set with an identifier come before o.
func (r *order) before(id uint32, o *op) bool { return r.unordered(id, o) == nil }

// unordered finds an operation among those of an identifier that does not come before o.
func (r *order) unordered(id uint32, o *op) *op {
	if id&setBit == 0 {
		if id < r.base {
			return nil
		}
		if p := r.ops[id-r.base]; !o.clock.covers(p.chain, p.n) {
			return p
		}
		return nil
	}
	for _, m := range r.members(id) {
		if p := r.unordered(m, o); p != nil {
			return p
		}
	}
	return nil
}

// members are the operations of an identifier.
func (r *order) members(id uint32) []uint32 {
	if id&setBit == 0 {
		return []uint32{id}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if id &^= setBit; id >= r.setBase {
		return r.sets[id-r.setBase].members
	}
	return nil
}

// nextSet is the identifier that the next set gets.
func (r *order) nextSet() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return setBit | r.setBase + uint32(len(r.sets))
}

// union makes a set of o and those of an identifier that do not come before it.
func (r *order) union(id uint32, o *op) uint32 {
	s := set{last: o.id}
	for _, m := range r.members(id) {
		if r.unordered(m, o) != nil {
			s.members = append(s.members, m)
			s.last = max(s.last, m)
		}
	}
	s.members = append(s.members, o.id)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets = append(r.sets, s)
	return setBit | r.setBase + uint32(len(r.sets)) - 1
}

// wait puts whatever is given from now on behind some operations, and forgets those that come before everything that is still to be
// executed.
func (r *order) wait(these ...*op) {
	for _, o := range these {
		r.host.join(o.clock)
	}
	floor := append(clock(nil), r.host...)
	for _, p := range r.ops {
		if p.done {
			continue
		}
		for i := range floor {
			if i < len(p.clock) {
				floor[i] = min(floor[i], p.clock[i])
			} else {
				floor[i] = 0
			}
		}
	}
	n := 0
	for n < len(r.ops) && r.ops[n].done && floor.covers(r.ops[n].chain, r.ops[n].n) {
		n++
	}
	if n == 0 {
		return
	}
	r.ops = append([]*op(nil), r.ops[n:]...)
	r.base += uint32(n)
	n = 0
	for n < len(r.sets) && r.sets[n].last < r.base {
		n++
	}
	r.sets = append([]set(nil), r.sets[n:]...)
	r.setBase += uint32(n)
}
