package distributed

import (
	"gotrain/distributed/quantizer"
	"gotrain/graph"
)

// bucket is a range of the gradient arena that is exchanged at one time. Each worker owns a piece of it.
type bucket struct {
	index      int
	begin, end int
	pieces     []piece // by worker
}

// piece is what one worker owns of a bucket: the columns whose sums it makes. Who owns which column depends on nothing but
// their sizes, so that it stays when the number of bits changes.
type piece struct {
	columns []quantizer.Column
	runs    []quantizer.Column // the same values in as few columns as possible, for formats that know no columns
}

// table is how a format sees a piece.
func (p piece) table(f quantizer.Format) []quantizer.Column {
	if f.Bits == 32 {
		return p.runs
	}
	return p.columns
}

// scattered is what a worker sends to the owners, and gathered what it sends of its sums.
func (b *bucket) scattered(f quantizer.Format, rank int) (n int) {
	for owner, p := range b.pieces {
		if owner != rank {
			n += headerBytes + f.Bytes(p.table(f))
		}
	}
	return n
}

func (b *bucket) gathered(f quantizer.Format, rank int) int {
	p := b.pieces[rank]
	if len(p.columns) == 0 {
		return 0
	}
	return (len(b.pieces) - 1) * (flagBytes + f.Bytes(p.table(f)))
}

// most is what the worker sends that has most to send.
func (b *bucket) most(f quantizer.Format) (scattered, gathered int) {
	for rank := range b.pieces {
		scattered, gathered = max(scattered, b.scattered(f, rank)), max(gathered, b.gathered(f, rank))
	}
	return scattered, gathered
}

// buckets joins the plan's buckets to ones of at least so many bytes, and gives each worker its pieces. Owners take turns
// over the whole arena, bucket by bucket.
func buckets(l *graph.Layout, plan []graph.Bucket, bytes, size, workers int) []*bucket {
	all := columns(l, size)
	var out []*bucket
	begin := 0
	for i, p := range plan {
		last := i == len(plan)-1
		if !last && (bytes == 0 || (p.End-begin)*4 < bytes) {
			continue
		}
		b := &bucket{index: len(out), begin: begin, end: p.End}
		n := 0
		for n < len(all) && int(all[n].Offset) < b.end {
			n++
		}
		b.pieces = share(all[:n], workers)
		out, all, begin = append(out, b), all[n:], p.End
	}
	return out
}

// columns cuts the arena into columns: a weight [out][...] into its output channels, or into runs of so many values;
// vectors (batch norm, biases) are few, matter much, and stay as they are.
func columns(l *graph.Layout, size int) []quantizer.Column {
	var all []quantizer.Column
	for _, s := range l.Slots {
		n := s.Shape.Values()
		if len(s.Shape) < 2 {
			all = append(all, quantizer.Column{Offset: int32(s.Offset), Rows: int32(n), Dense: true})
			continue
		}
		rows := n / s.Shape[0]
		if size > 0 {
			rows = size
		}
		for at := 0; at < n; at += rows {
			all = append(all, quantizer.Column{Offset: int32(s.Offset + at), Rows: int32(min(rows, n-at))})
		}
	}
	return all
}

// share deals consecutive columns out to the workers, so that each gets about as many values.
func share(all []quantizer.Column, workers int) []piece {
	total := 0
	for _, c := range all {
		total += int(c.Rows)
	}
	pieces := make([]piece, workers)
	before := 0
	for _, c := range all {
		// the owner is the one in whose share the middle of the column lies
		owner := min((2*before+int(c.Rows))*workers/(2*max(total, 1)), workers-1)
		pieces[owner].columns = append(pieces[owner].columns, c)
		before += int(c.Rows)
	}
	for i := range pieces {
		pieces[i].runs = runs(pieces[i].columns)
	}
	return pieces
}

// runs joins columns that follow each other.
func runs(columns []quantizer.Column) (out []quantizer.Column) {
	for _, c := range columns {
		if n := len(out); n > 0 && out[n-1].Offset+out[n-1].Rows == c.Offset {
			out[n-1].Rows += c.Rows
			continue
		}
		out = append(out, quantizer.Column{Offset: c.Offset, Rows: c.Rows})
	}
	return out
}
