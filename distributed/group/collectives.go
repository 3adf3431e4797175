package group

import (
	"encoding/binary"
	"unsafe"
)

// AllGather sends every member's bytes to all: recv[i], of the length that worker i sends, is filled from worker i's send.
func AllGather(m Member, tag Tag, send []byte, recv [][]byte) error {
	to := make([][]byte, m.Size())
	for i := range to {
		to[i] = send
	}
	return m.Exchange(tag, to, recv)
}

// Broadcast fills b on all members from the root's; it has one length everywhere.
func Broadcast(m Member, tag Tag, root int, b []byte) error {
	send, recv := make([][]byte, m.Size()), make([][]byte, m.Size())
	if m.Rank() == root {
		for i := range send {
			if i != root {
				send[i] = b
			}
		}
	} else {
		recv[root] = b
	}
	return m.Exchange(tag, send, recv)
}

// BroadcastBytes returns the root's b on all members, which need not know its length.
func BroadcastBytes(m Member, tag Tag, root int, b []byte) ([]byte, error) {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(b)))
	if err := Broadcast(m, tag, root, length[:]); err != nil {
		return nil, err
	}
	if m.Rank() != root {
		b = make([]byte, binary.LittleEndian.Uint64(length[:]))
	}
	return b, Broadcast(m, tag, root, b)
}

// Barrier returns when all members have called it.
func Barrier(m Member, tag Tag) error {
	mark, recv := []byte{1}, make([][]byte, m.Size())
	from := make([]byte, m.Size())
	for i := range recv {
		recv[i] = from[i : i+1]
	}
	return AllGather(m, tag, mark, recv)
}

// short is the number of bytes up to which AllReduce sends all values to all workers: one exchange takes half the time of two
// where messages are small.
const short = 2048

// AllReduce replaces values, as many on each member, by their sums over the workers. A sum runs in worker order, ((v0 + v1) +
// v2) + ..., on every transport: the bits do not depend on where the workers are. Long vectors go in two exchanges: parts to
// the workers that own them, sums to all.
func AllReduce(m Member, tag Tag, values []float32) error {
	n := m.Size()
	if n == 1 || len(values) == 0 {
		return nil
	}
	if 4*len(values) <= short {
		return sum(m, tag, values, func(int) []float32 { return values })
	}
	part := func(owner int) []float32 { return values[len(values)*owner/n : len(values)*(owner+1)/n] }
	if err := sum(m, tag, part(m.Rank()), part); err != nil {
		return err
	}
	recv := make([][]byte, n)
	for i := range recv {
		if i != m.Rank() {
			recv[i] = raw(part(i))
		}
	}
	send := make([][]byte, n)
	for i := range send {
		if i != m.Rank() {
			send[i] = raw(part(m.Rank()))
		}
	}
	return m.Exchange(tag, send, recv)
}

// sum sends send(i) to each worker i, and fills total with the sum of what the workers send here.
func sum(m Member, tag Tag, total []float32, send func(worker int) []float32) error {
	n := m.Size()
	to, from := make([][]byte, n), make([][]byte, n)
	parts := make([][]float32, n)
	memory := make([]float32, n*len(total))
	for i := range n {
		parts[i] = memory[i*len(total) : (i+1)*len(total)]
		to[i], from[i] = raw(send(i)), raw(parts[i])
	}
	if err := m.Exchange(tag, to, from); err != nil {
		return err
	}
	copy(total, parts[0])
	for _, part := range parts[1:] {
		for i, v := range part {
			total[i] += v
		}
	}
	return nil
}

// raw is the memory of values: all machines of a group have one byte order.
func raw(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}
