package quantizer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// resnet20 is the columns of ResNet-20's weights on CIFAR, in backward order and without what is dense.
func resnet20() (columns []Column, size int) {
	add := func(out, rows int) {
		for range out {
			columns = append(columns, Column{Offset: int32(size), Rows: int32(rows)})
			size += rows
		}
	}
	add(10, 64)
	for range 5 {
		add(64, 576)
	}
	add(64, 288)
	for range 5 {
		add(32, 288)
	}
	add(32, 144)
	for range 6 {
		add(16, 144)
	}
	add(16, 27)
	return columns, size
}

// repeated is the columns again and again until the arena has that many values.
func repeated(columns []Column, size, least int) ([]Column, int) {
	all, n := []Column{}, 0
	for ; n < least; n += size {
		for _, c := range columns {
			all = append(all, Column{Offset: c.Offset + int32(n), Rows: c.Rows})
		}
	}
	return all, n
}

// BenchmarkQuantizer reports GB/s of bytes touched (read plus written), those of a memcpy that touches as many on the same
// memory, measured in turns with it, and the ratio. Of
// both it takes the fastest turn, since other programs slow down some.
func BenchmarkQuantizer(b *testing.B) {
	columns, size := resnet20()
	many, manySize := repeated(columns, size, 25_000_000)
	for _, v := range vectorizations() {
		b.Run(fmt.Sprintf("%v/cached", v), func(b *testing.B) { benchmarkArena(b, v, columns, size) })
		b.Run(fmt.Sprintf("%v/large", v), func(b *testing.B) { benchmarkArena(b, v, many, manySize) })
	}
}

func benchmarkArena(b *testing.B, v vectorized, columns []Column, size int) {
	r := rand.New(rand.NewPCG(1, 2))
	gradient := fill(size, func(int) float32 { return float32(r.NormFloat64()) })
	residual, next, values := make([]float32, size), make([]float32, size), make([]float32, size)
	copyFrom, copyTo := make([]byte, 8*size), make([]byte, 8*size)
	for i := range copyFrom { // memory that was never written is one page
		copyFrom[i], copyTo[i] = 1, 1
	}
	for i := range size {
		next[i], values[i] = 1, 1
	}
	for _, bits := range []int{1, 2, 4, 8, 16} {
		f := Format{Bits: bits, ZeroThreshold: true}
		mean := Format{Bits: bits}
		wire := make([]byte, f.Bytes(columns))
		type benchmark struct {
			name  string
			bytes int // touched, beside the message
			run   func()
		}
		all := []benchmark{
			{"encode", 12 * size, func() { v.encode(f, columns, gradient, residual, residual, wire) }},
			{"encode-apart", 12 * size, func() { v.encode(f, columns, gradient, residual, next, wire) }},
			{"decode", 4 * size, func() { v.decode(f, columns, wire, values, false) }},
			{"add", 8 * size, func() { v.decode(f, columns, wire, values, true) }},
		}
		if bits == 1 { // each column is read once more, from the nearest cache
			all = append(all, benchmark{"encode-mean", 12 * size, func() { v.encode(mean, columns, gradient, residual, residual, wire) }},
				benchmark{"encode-mean-apart", 12 * size, func() { v.encode(mean, columns, gradient, residual, next, wire) }})
		}
		for _, c := range all {
			b.Run(fmt.Sprintf("bits=%d/%s", bits, c.name), func(b *testing.B) {
				touched := c.bytes + len(wire)
				ours, copies := time.Hour, time.Hour
				half := touched / 2
				c.run()
				for b.Loop() {
					start := time.Now()
					c.run()
					middle := time.Now()
					memcpy(copyTo[:half], copyFrom[:half])
					ours = min(ours, middle.Sub(start))
					copies = min(copies, time.Since(middle))
				}
				rate := func(d time.Duration) float64 { return float64(touched) / float64(d.Nanoseconds()) }
				b.ReportMetric(rate(ours), "GB/s")
				b.ReportMetric(rate(copies), "memcpyGB/s")
				b.ReportMetric(rate(ours)/rate(copies), "ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
