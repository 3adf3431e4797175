package distributed

import (
	"gotrain/distributed/quantizer"
	"gotrain/graph"
)

// Bucket is a range of the gradient arena that is exchanged at one time. Each worker owns a piece of it.
type Bucket struct {
	Index      int
	Begin, End int     // values of the arena
	Pieces     []Piece // by worker
}

// Piece is what one worker owns of a bucket: the columns whose sums it makes. Who owns which column depends on nothing but
// their sizes, so that it stays when the number of bits changes.
type Piece struct {
	Columns []quantizer.Column
	Runs    []quantizer.Column // the same values in as few columns as possible, for formats that know no columns
}

// Table is how a format sees a piece.
func (p Piece) Table(f quantizer.Format) []quantizer.Column {
	if f.Bits == 32 {
		return p.Runs
	}
	return p.Columns
}

// scattered is what a worker sends to the owners, and gathered what it sends of its sums.
func (b *Bucket) scattered(f quantizer.Format, rank int) (n int) {
	for owner, p := range b.Pieces {
		if owner != rank {
			n += headerBytes + f.Bytes(p.Table(f))
		}
	}
	return n
}

func (b *Bucket) gathered(f quantizer.Format, rank int) int {
	p := b.Pieces[rank]
	if len(p.Columns) == 0 {
		return 0
	}
	return (len(b.Pieces) - 1) * (flagBytes + f.Bytes(p.Table(f)))
}

// most is what the worker sends that has most to send.
func (b *Bucket) most(f quantizer.Format) (scattered, gathered int) {
	for rank := range b.Pieces {
		scattered, gathered = max(scattered, b.scattered(f, rank)), max(gathered, b.gathered(f, rank))
	}
	return scattered, gathered
}

// Buckets joins the plan's buckets to ones of at least Settings.BucketBytes, and gives each worker its pieces. Owners take
// turns over the whole arena, bucket by bucket.
func Buckets(l *graph.Layout, plan []graph.Bucket, s Settings, workers int) []*Bucket {
	all, bytes := columns(l, s.Columns), s.BucketBytes
	var out []*Bucket
	begin := 0
	for i, p := range plan {
		last := i == len(plan)-1
		if !last && (bytes == 0 || (p.End-begin)*4 < bytes) {
			continue
		}
		b := &Bucket{Index: len(out), Begin: begin, End: p.End}
		n := 0
		for n < len(all) && int(all[n].Offset) < b.End {
			n++
		}
		b.Pieces = share(all[:n], workers)
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
func share(all []quantizer.Column, workers int) []Piece {
	total := 0
	for _, c := range all {
		total += int(c.Rows)
	}
	pieces := make([]Piece, workers)
	before := 0
	for _, c := range all {
		// the owner is the one in whose share the middle of the column lies
		owner := min((2*before+int(c.Rows))*workers/(2*max(total, 1)), workers-1)
		pieces[owner].Columns = append(pieces[owner].Columns, c)
		before += int(c.Rows)
	}
	for i := range pieces {
		pieces[i].Runs = runs(pieces[i].Columns)
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
