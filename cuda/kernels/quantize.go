package kernels

import (
	"encoding/binary"
	"fmt"
	"slices"

	"gotrain/cuda/driver"
	"gotrain/distributed/quantizer"
)

// Table tells the quantizer's kernels of columns and of where their pieces lie in messages. Its zero value is empty.
type Table struct{ entries []entry }

// entry is a column of the table in device memory: int32 offset, rows, word of the message; the message times 2, with 1 more where the
// column goes as it is.
type entry struct{ offset, rows, word, message int }

// most is the number of values up to which a column is left whole where it has no sums: a warp takes an entry.
const most = 1024

// Add adds columns whose pieces follow each other in a message from byte `wire` on, and returns their length in bytes. A multiple of 4 it
// must be. Where columns of several messages are in one table, message says which; where one buffer holds all of them, as for encoding, it
// is 0 and wire counts from the buffer's start.
func (t *Table) Add(f quantizer.Format, columns []quantizer.Column, wire, message int) (bytes int) {
	for _, c := range columns {
		t.add(c, f.Bits, wire+bytes, message)
		bytes += f.Bytes([]quantizer.Column{c})
	}
	return bytes
}

// AddArena adds columns that are read from arenas of other workers themselves, by Decode with 32 bits: no message is made.
func (t *Table) AddArena(columns []quantizer.Column, message int) {
	for _, c := range columns {
		t.add(c, 32, 4*int(c.Offset), message)
	}
}

func (t *Table) add(c quantizer.Column, bits, wire, message int) {
	if wire%4 != 0 {
		panic(fmt.Sprintf("kernels: a column's piece begins at byte %d: words have 4", wire))
	}
	e := entry{int(c.Offset), int(c.Rows), wire / 4, 2 * message}
	if c.Dense || bits == 32 {
		bits = 32
		if c.Dense {
			e.message++
		}
	}
	for bits >= 16 && e.rows > most {
		head := e
		head.rows = most
		t.entries = append(t.entries, head)
		e.offset, e.rows, e.word = e.offset+most, e.rows-most, e.word+most*bits/32
	}
	t.entries = append(t.entries, e)
}

// Len is the number of entries.
func (t *Table) Len() int { return len(t.entries) }

// Bytes is the table for device memory, aligned to 16 there, the longest columns first.
func (t *Table) Bytes() []byte {
	sorted := slices.Clone(t.entries)
	slices.SortStableFunc(sorted, func(a, b entry) int { return b.rows - a.rows })
	var b []byte
	for _, e := range sorted {
		for _, v := range []int{e.offset, e.rows, e.word, e.message} {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
	}
	return b
}

// columns is a grid of a warp for each of n columns, or fewer that go on to others.
func (s *Set) columns(n int) driver.Dim {
	return driver.Dim{X: max(1, min(ceil(n, threads/32), 16*max(1, s.info.Multiprocessors))), Y: 1, Z: 1}
}

// Encode quantizes v = gradient + residual for all columns of a table, into wire: one launch for a bucket. It does what
// quantizer.Format.Encode does, to the bit: next is residual or another arena; residual and next may be 0 with 32 bits. bad is a
// word that was set to -1: it becomes the least offset of what is not finite, as distributed's headers have it.
//
// It reads gradient and residual twice (three times where the threshold or the step takes a sum of its own), from cache but for the
// first, and writes next once: memory bounds it, at 12 bytes a value. A column is one warp's, so that a few columns of a hundred thousand
// values, which no channel has, are bound by its latency, which is of the order of a microsecond for 256 values.
func (s *Set) Encode(f quantizer.Format, t *Table, table, gradient, residual, next, wire, bad driver.Pointer) driver.Launch {
	name := fmt.Sprintf("encode_%d", f.Bits)
	if f.Bits == 1 && !f.ZeroThreshold {
		name += "_mean"
	}
	return s.launch(name, s.columns(t.Len()), threads, table, t.Len(), gradient, residual, next, wire, bad)
}

// Decode decodes all columns of a table from count messages, adds them in their order, and writes the sums to the arena values. messages
// is a table of pointers; a column's messages are that of its entry and those behind it. With count 1 it just decodes.
//
// It reads the messages and writes values once: memory bounds it, at 4 bytes a value and the messages' bytes.
func (s *Set) Decode(f quantizer.Format, t *Table, table, messages driver.Pointer, count int, values driver.Pointer) driver.Launch {
	return s.launch(fmt.Sprintf("decode_%d", f.Bits), s.columns(t.Len()), threads, table, t.Len(), messages, count, values)
}

// PutHeaders writes a header before each of several messages in a buffer, when result, stop (a word) and bad are known; words, int32, say
// where. A header has 32 bytes, see package distributed.
func (s *Set) PutHeaders(result, stop, bad, words driver.Pointer, messages int, wire driver.Pointer) driver.Launch {
	return s.launch("put_headers", flat(messages), threads, result, stop, bad, words, messages, wire)
}
