package draw

import (
	"slices"

	"gotrain/graph"
)

// lanes is how many bars of buckets have room side by side: a block that is drawn for many can have one bucket that began
// before it, many within it, and one that goes on after it.
const lanes = 3

// placeBuckets finds the rows of each bucket, joins those that one drawn block stands for, and gives each bar the first
// lane in which it touches no other.
func (l *layout) placeBuckets(p *graph.Plan, shown map[*graph.Op]*box) {
	for i, r := range bucketRows(p, shown) {
		if last := len(l.buckets) - 1; last >= 0 && l.collapsed(r) >= 0 && l.collapsed(r) == l.collapsed(l.buckets[last]) {
			b := &l.buckets[last]
			b.last, b.from, b.to = i, min(b.from, r.from), max(b.to, r.to)
			continue
		}
		l.buckets = append(l.buckets, r)
	}
	for i := range l.buckets {
		b := &l.buckets[i]
		taken := [lanes]bool{}
		for _, other := range l.buckets[:i] {
			if b.from <= other.to && other.from <= b.to {
				taken[other.lane] = true
			}
		}
		b.lane = max(0, slices.Index(taken[:], false))
	}
}

// collapsed is the index of the block in whose rows a bar lies, if that block stands for several; else -1.
func (l *layout) collapsed(b bar) int {
	return slices.IndexFunc(l.blocks, func(k band) bool { return k.times > 1 && k.from <= b.from && b.to <= k.to })
}

// bucketRows gives a bar to each bucket, from the first to the last row with an operation whose gradients are in it.
func bucketRows(p *graph.Plan, shown map[*graph.Op]*box) []bar {
	offset := map[string]int{}
	for _, s := range p.Parameters.Slots {
		offset[s.Name] = s.Offset
	}
	bars := make([]bar, len(p.Buckets))
	for i := range bars {
		bars[i] = bar{first: i, last: i, from: -1}
	}
	for _, o := range p.Ops[:p.Backward] {
		for _, t := range o.Out {
			if t.Role != graph.ParameterGradient {
				continue
			}
			i := slices.IndexFunc(p.Buckets, func(b graph.Bucket) bool { return offset[t.Of.Name] < b.End })
			row := shown[o].row
			if bars[i].from < 0 {
				bars[i].from, bars[i].to = row, row
			}
			bars[i].from, bars[i].to = min(bars[i].from, row), max(bars[i].to, row)
		}
	}
	return bars
}
