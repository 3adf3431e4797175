package draw

import (
	"cmp"
	"slices"

	"gotrain/graph"
)

// track is one of the columns of operations.
type track int

const (
	forwardMain track = iota
	forwardSide
	backwardMain
	backwardSide
	tracks
)

func (t track) side() bool     { return t == forwardSide || t == backwardSide }
func (t track) backward() bool { return t >= backwardMain }

// cell is a place in the grid of rows and tracks.
type cell struct {
	row int
	track
}

// box is an operation in a drawing. The boxes of one cell share its width.
type box struct {
	cell
	op          *graph.Op
	slot, slots int // from the left
}

// edge is a tensor on its way from its producer to a reader.
type edge struct{ from, to *box }

// band is a range of rows, both ends included, under one name; times is how many equal blocks it stands for.
type band struct {
	name            string
	from, to, times int
}

// bar is a bucket of gradients, or several in succession that one drawn block stands for, beside the rows whose gradients
// it holds. Rows may belong to several buckets, whose bars then stand in lanes side by side.
type bar struct {
	first, last int // buckets
	from, to    int // rows
	lane        int
}

// layout is where everything goes: a row for each layer of the forward pass, with the operations of its backward pass in
// the same row.
//
// The main tracks hold the longest path through the forward pass, so that the row of any operation is the length of the
// longest path to it, and a side branch always fits beside the piece of the main track that it bypasses.
type layout struct {
	rows    int
	boxes   []*box
	edges   []edge
	groups  []band // stages, stem and head
	blocks  []band // of stages
	buckets []bar
}

// arrange lays out a plan. Runs of equal blocks are drawn once.
func arrange(p *graph.Plan, o Options) *layout {
	a := &arrangement{plan: p, notes: o.Notes, producer: map[*graph.Tensor]*graph.Op{}, boxes: map[*graph.Op]*box{}, cells: map[cell][]*box{}}
	a.placeForward()
	a.placeBackward()
	a.fillCells()
	a.collapse()
	return a.layout()
}

// arrangement is the state of arrange.
type arrangement struct {
	plan     *graph.Plan
	notes    map[*graph.Op]string
	producer map[*graph.Tensor]*graph.Op
	boxes    map[*graph.Op]*box // of all operations but Aggregate and Apply
	cells    map[cell][]*box
	main     []*graph.Op // the longest path, by row
	blocks   []band      // before collapsing
	drawn    []int       // for each row, the one that is drawn in its place: itself, or an equal block's
}

func (a *arrangement) placeForward() {
	p := a.plan
	before := map[*graph.Op]*graph.Op{} // the predecessor on the longest path
	for _, o := range p.Ops[:p.Forward] {
		b := &box{op: o, cell: cell{0, forwardSide}}
		for _, t := range o.In {
			if from := a.producer[t]; from != nil && a.boxes[from].row >= b.row {
				b.row, before[o] = a.boxes[from].row+1, from
			}
		}
		for _, t := range o.Out {
			a.producer[t] = o
		}
		a.boxes[o] = b
	}
	last := a.producer[p.Loss]
	a.main = make([]*graph.Op, a.boxes[last].row+1)
	for o := last; o != nil; o = before[o] {
		a.boxes[o].track = forwardMain
		a.main[a.boxes[o].row] = o
	}
}

func (a *arrangement) placeBackward() {
	p := a.plan
	layers := map[string]*graph.Op{}
	for _, o := range p.Ops[:p.Forward] {
		layers[o.Name] = o
	}
	for _, o := range p.Ops[p.Forward:p.Backward] {
		layer := layers[o.Name]
		if o.Kind == graph.Add { // the sum of gradients of a tensor belongs to the tensor's producer
			layer = a.producer[o.Out[0].Of]
		}
		b := &box{op: o, cell: cell{0, backwardMain}}
		if layer != nil {
			b.row = a.boxes[layer].row
			if a.boxes[layer].track.side() {
				b.track = backwardSide
			}
		}
		a.boxes[o] = b
		for _, t := range o.Out {
			a.producer[t] = o
		}
	}
}

// fillCells orders the boxes of each cell: what carries the gradient on is to the left, what ends in a parameter's
// gradient to the right.
func (a *arrangement) fillCells() {
	for _, o := range a.plan.Ops[:a.plan.Backward] {
		b := a.boxes[o]
		a.cells[b.cell] = append(a.cells[b.cell], b)
	}
	for at, boxes := range a.cells {
		if at.backward() {
			slices.Reverse(boxes)
			slices.SortStableFunc(boxes, func(a, b *box) int { return cmp.Compare(ends(a.op), ends(b.op)) })
		}
		for i, b := range boxes {
			b.slot, b.slots = i, len(boxes)
		}
	}
}

// ends is 1 for an operation whose every result is a parameter's gradient.
func ends(o *graph.Op) int {
	for _, t := range o.Out {
		if t.Role != graph.ParameterGradient {
			return 0
		}
	}
	return 1
}

// layout numbers the rows that are drawn, and collects what is in them.
func (a *arrangement) layout() *layout {
	l := &layout{}
	var groups []string
	number := make([]int, len(a.main))
	for r, o := range a.main {
		if a.drawn[r] == r {
			number[r] = l.rows
			l.rows++
			groups = append(groups, group(o.Name))
		}
	}
	shown := map[*graph.Op]*box{}
	for _, o := range a.plan.Ops[:a.plan.Backward] {
		b := a.boxes[o]
		if a.drawn[b.row] == b.row {
			l.boxes = append(l.boxes, b)
		}
		shown[o] = a.cells[cell{a.drawn[b.row], b.track}][b.slot]
	}
	for _, b := range l.boxes {
		b.row = number[b.row]
	}
	l.edges = a.edges(shown)
	l.groups = joinSingles(bands(groups))
	for _, b := range a.blocks {
		if a.drawn[b.from] == b.from {
			l.blocks = append(l.blocks, band{b.name, number[b.from], number[b.to], b.times})
		}
	}
	l.placeBuckets(a.plan, shown)
	return l
}

// edges lists which operation hands which its result, activations and their gradients, each pair once. Activations that
// the backward pass reads again are left out: they lead to the same row.
func (a *arrangement) edges(shown map[*graph.Op]*box) []edge {
	var edges []edge
	seen := map[edge]bool{}
	for _, o := range a.plan.Ops[:a.plan.Backward] {
		for _, t := range o.In {
			from := a.producer[t]
			if from == nil || o.Phase == graph.Backward && t.Of == nil {
				continue
			}
			e := edge{shown[from], shown[o]}
			// An edge between blocks that are drawn as one would run against the stream.
			against := e.from.row >= e.to.row
			if o.Phase == graph.Backward {
				against = e.from.row < e.to.row || e.from.row == e.to.row && e.from.slot <= e.to.slot
			}
			if !against && !seen[e] {
				seen[e] = true
				edges = append(edges, e)
			}
		}
	}
	return edges
}
