package emulator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"gotrain/cuda/emulator/ptx"
)

// view is memory as one operation sees it. It is the ptx.Memory of a launch.
type view struct {
	machine  *machine
	order    *order
	op       *op
	firstSet uint32 // sets from here on contain the operation

	parallel bool // blocks run in parallel, so that words have to be locked
	locks    *[64]sync.Mutex

	mu      sync.Mutex // guards the rest
	blocks  []blockState
	tickets map[uint64]*ticket
	unions  map[uint32]uint32 // by the identifier that was there before
	causes  []error
}

func (m *machine) view(o *op) *view {
	return &view{machine: m, order: &m.order, op: o, firstSet: m.order.nextSet()}
}

// union is the set of the operation and those of an identifier.
func (v *view) union(id uint32) uint32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if u, ok := v.unions[id]; ok {
		return u
	}
	u := v.order.union(id, v.op)
	if v.unions == nil {
		v.unions = map[uint32]uint32{}
	}
	v.unions[id] = u
	return u
}

// run executes a kernel.
func (m *machine) run(o *op) error {
	v := m.view(o)
	l := o.launch
	v.parallel = m.options.Workers > 1
	v.locks = new([64]sync.Mutex)
	v.tickets = map[uint64]*ticket{}
	v.blocks = make([]blockState, min(l.Grid.X*l.Grid.Y*l.Grid.Z, maxBlocks))
	_, err := o.function.kernel.Run(ptx.Config{
		Grid: ptx.Dim(l.Grid), Block: ptx.Dim(l.Block), Shared: l.Shared, Params: l.Params,
		Memory: v, Workers: m.options.Workers, Unchecked: m.options.Loose,
	})
	var f *ptx.Fault
	if !errors.As(err, &f) {
		return err
	}
	for _, c := range v.causes {
		if reason(c) == f.What {
			return &located{f, c}
		}
	}
	return f
}

// reason is what a fault says of its cause.
func reason(err error) string {
	switch e := err.(type) {
	case *AccessError:
		return e.What
	case *Conflict:
		return e.what()
	}
	return err.Error()
}

// object gives the interpreter an objection to a lane's access and keeps its cause.
func (v *view) object(lane int, cause error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.causes = append(v.causes, cause)
	return &ptx.AccessError{Lane: lane, What: reason(cause)}
}

// Access checks a warp's access and serves the lanes that are in the first lane's allocation.
func (v *view) Access(x *ptx.Access) error {
	lane := bits.TrailingZeros32(x.Mask)
	a, first, wrong := v.machine.allocs.find(x.Address[lane], x.Size, v.op, x.Kind != ptx.Read)
	if wrong != "" {
		return v.object(lane, &AccessError{v.op.String(), wrong})
	}
	x.Base, x.Data, x.Served = a.base, a.data, 0
	even, next := true, first // whether the lanes' bytes lie one behind the other
	for m := x.Mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		off := x.Address[l] - a.base
		if off > uint64(a.size-x.Size) {
			if x.Address[l]>>numberShift == a.base>>numberShift {
				_, _, wrong := v.machine.allocs.find(x.Address[l], x.Size, v.op, x.Kind != ptx.Read)
				return v.object(l, &AccessError{v.op.String(), wrong})
			}
			continue
		}
		x.Served |= 1 << l
		even = even && int(off) == next
		next += x.Size
	}
	if v.machine.options.Loose {
		return nil
	}
	block := x.Block % len(v.blocks)
	b := &v.blocks[block]
	if len(b.acquire) > 0 {
		v.settle(b, b.acquire)
		b.acquire = b.acquire[:0]
	}
	if x.Kind == ptx.Write {
		b.fenced = false
	}
	by := makeStamp(block, x.Epoch+b.time, x.Warp)
	if even && x.Kind != ptx.Atomic {
		return v.touch(a, first, next, x, lane, by)
	}
	for m := x.Served; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		at := int(x.Address[l] - a.base)
		if x.Kind == ptx.Read && !v.parallel && x.Size <= 1<<a.shadow.shift {
			if c := &a.shadow.cells[at>>a.shadow.shift]; c.r == v.op.id && c.rb == by {
				continue // as read finds, only faster
			}
		}
		if err := v.touch(a, at, at+x.Size, x, l, by); err != nil {
			return err
		}
	}
	return nil
}

// page is the number of bytes that one lock guards, as a shift.
const page = 12

// touch checks and notes the access of bytes [at, end) of an allocation by lanes from the given one on.
func (v *view) touch(a *allocation, at, end int, x *ptx.Access, lane int, by stamp) error {
	for from := at; from < end; {
		to := end
		if v.parallel {
			to = min(end, (from>>page+1)<<page)
		}
		w, begin, word := v.touchPage(a, from, to, x.Kind, by)
		if w != nil {
			return v.object(lane+(begin-at)/x.Size, v.cause(a, w, begin, begin+word, x.Kind, by))
		}
		from = to
	}
	return nil
}

// touchPage is touch for bytes of one page. What is wrong comes with the byte where it begins, and the size of the word there.
func (v *view) touchPage(a *allocation, at, end int, k ptx.AccessKind, by stamp) (*wrong, int, int) {
	if v.parallel {
		l := &v.locks[(a.base>>numberShift+uint64(at)>>page)%uint64(len(v.locks))]
		l.Lock()
		for k != ptx.Read && !a.shadow.fits(at, end, a.size) {
			l.Unlock()
			v.split(a, at, end)
			l.Lock()
		}
		defer l.Unlock()
	} else if k != ptx.Read && !a.shadow.fits(at, end, a.size) {
		a.shadow = a.shadow.split(at, end, a.size, v.op, v.firstSet)
	}
	s := a.shadow
	from, to := at>>s.shift, (end+1<<s.shift-1)>>s.shift
	var w *wrong
	switch k {
	case ptx.Read:
		w = v.read(a, from, to, by)
	case ptx.Write:
		w = v.write(a, from, to, by)
	case ptx.Atomic:
		if w = v.atomic(a, from, to, by); w == nil {
			v.count(a.base+uint64(at), int(by>>blockShift), by)
		}
	}
	if w == nil {
		return nil, 0, 0
	}
	return w, (from + w.cell) << s.shift, 1 << s.shift
}

// split makes an allocation's words smaller while blocks run in parallel.
func (v *view) split(a *allocation, at, end int) {
	for i := range v.locks {
		v.locks[i].Lock()
		defer v.locks[i].Unlock()
	}
	if !a.shadow.fits(at, end, a.size) {
		a.shadow = a.shadow.split(at, end, a.size, v.op, v.firstSet)
	}
}

// cause tells what is wrong.
func (v *view) cause(a *allocation, w *wrong, at, end int, k ptx.AccessKind, by stamp) error {
	if w.unwritten {
		return &AccessError{v.op.String(), fmt.Sprintf("reads bytes %d to %d of %s, which nothing wrote", at, end-1, a)}
	}
	c := &Conflict{Memory: a.String(), Start: at, End: end, Writes: k != ptx.Read, Wrote: w.wrote}
	if w.first != v.op.id {
		c.Second, c.First = v.op.String(), v.order.unordered(w.first, v.op).String()
		return c
	}
	grid, block := ptx.Dim(v.op.launch.Grid), int(by>>blockShift)
	if w.by>>blockShift == by>>blockShift {
		c.Between = Warps
		c.Second = fmt.Sprintf("warp %d of block %s of %s", by&severalWarp, blockAt(grid, block), v.op)
		c.First = fmt.Sprintf("warp %d", w.by&severalWarp)
		if w.by&severalWarp == severalWarp {
			c.First = "several warps"
		}
		return c
	}
	c.Between = Blocks
	c.Second = fmt.Sprintf("block %s of %s", blockAt(grid, block), v.op)
	switch w.by {
	case several:
		c.First = "several blocks"
	case atomics:
		c.First = "other blocks' atomics"
	default:
		c.First = fmt.Sprintf("block %s", blockAt(grid, int(w.by>>blockShift)))
	}
	return c
}

// blockAt is the place in a grid with a linear index.
func blockAt(d ptx.Dim, i int) ptx.Dim {
	return ptx.Dim{X: i % d.X, Y: i / d.X % d.Y, Z: i / d.X / d.Y}
}

// span checks and notes that an operation that is no kernel accesses bytes.
func (v *view) span(address uint64, bytes int, k ptx.AccessKind) ([]byte, error) {
	a, at, wrong := v.machine.allocs.find(address, bytes, v.op, k != ptx.Read)
	if wrong != "" {
		return nil, &AccessError{v.op.String(), wrong}
	}
	if a.shadow != nil {
		if w, begin, word := v.touchPage(a, at, at+bytes, k, 0); w != nil {
			return nil, v.cause(a, w, begin, min(begin+word, a.size), k, 0)
		}
	}
	return a.data[at : at+bytes], nil
}

func (m *machine) copy(o *op) error {
	v := m.view(o)
	from, err := v.span(uint64(o.from), o.bytes, ptx.Read)
	if err != nil {
		return err
	}
	to, err := v.span(uint64(o.to), o.bytes, ptx.Write)
	if err != nil {
		return err
	}
	copy(to, from)
	return nil
}

func (m *machine) fill(o *op) error {
	to, err := m.view(o).span(uint64(o.to), o.bytes, ptx.Write)
	if err != nil {
		return err
	}
	for i := 0; i < len(to); i += 4 {
		binary.LittleEndian.PutUint32(to[i:], o.value)
	}
	return nil
}
