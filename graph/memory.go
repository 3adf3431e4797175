package graph

import (
	"cmp"
	"slices"
)

// Align is the alignment of every tensor in an arena or a memory plan, in bytes: a cache line, and a vector of AVX-512.
const Align = 64

func align(n int) int { return (n + Align - 1) / Align * Align }

// Memory is where intermediates and outputs live: offsets into one block of memory.
type Memory struct {
	Offset []int // of each tensor, by ID, in bytes; -1 for those that live elsewhere
	Peak   int   // bytes of the block
	Live   int   // the largest sum of sizes that are live at one operation: no plan can do with less
	Total  int   // what it would be without reuse
}

// span is a piece of memory in use from one operation to another, held by one tensor or by several in turn.
type span struct {
	bytes, from, to, offset int
	tensors                 []*Tensor
}

// planMemory gives tensors that are never live together the same memory. A result takes over the memory of an operand
// that is read for the last time, where the operation can work in place. The rest is placed by decreasing size at the
// lowest offset that is free throughout its span (greedy by size: Pisarchyk and Lee, "Efficient Memory Management for
// Deep Neural Net Inference", 2020).
func (g *Graph) planMemory() Memory {
	last := map[*Tensor]int{}
	for i, o := range g.Ops {
		for _, t := range o.In {
			last[t] = i
		}
		for _, t := range o.Out {
			last[t] = max(last[t], i)
		}
	}
	held := map[*Tensor]*span{}
	var spans []*span
	m := Memory{Offset: make([]int, len(g.Tensors))}
	for i := range m.Offset {
		m.Offset[i] = -1
	}
	for i, o := range g.Ops {
		taken := map[int]bool{}
		shared := map[int]*span{}
		for _, p := range o.inPlace() {
			out, in := o.Out[p[0]], o.In[p[1]]
			s := held[in]
			if s == nil || shared[p[0]] != nil || taken[p[1]] || in.Role != Intermediate || in.Bytes() != out.Bytes() || s.to != i {
				continue
			}
			if slices.Index(o.In, in) != p[1] { // the same tensor twice
				continue
			}
			shared[p[0]], taken[p[1]] = s, true
		}
		for k, t := range o.Out {
			if t.Role != Intermediate && t.Role != Output {
				continue
			}
			to := last[t]
			if t.Role == Output {
				to = len(g.Ops)
			}
			m.Total += align(t.Bytes())
			s := shared[k]
			if s == nil {
				s = &span{bytes: align(t.Bytes()), from: i}
				spans = append(spans, s)
			}
			s.to = to
			s.tensors = append(s.tensors, t)
			held[t] = s
		}
	}
	change := make([]int, len(g.Ops)+2) // of the bytes that are live, from one operation to the next
	for _, s := range spans {
		change[s.from] += s.bytes
		change[s.to+1] -= s.bytes
	}
	live := 0
	for i := range g.Ops {
		live += change[i]
		m.Live = max(m.Live, live)
	}
	order := slices.Clone(spans)
	slices.SortStableFunc(order, func(a, b *span) int { return cmp.Compare(b.bytes, a.bytes) })
	var placed []*span // by offset
	for _, s := range order {
		for _, p := range placed {
			if p.to < s.from || s.to < p.from {
				continue
			}
			if p.offset >= s.offset+s.bytes {
				break
			}
			s.offset = max(s.offset, p.offset+p.bytes)
		}
		at, _ := slices.BinarySearchFunc(placed, s, func(a, b *span) int { return cmp.Compare(a.offset, b.offset) })
		placed = slices.Insert(placed, at, s)
		m.Peak = max(m.Peak, s.offset+s.bytes)
		for _, t := range s.tensors {
			m.Offset[t.ID] = s.offset
		}
	}
	return m
}
