package ptx

import (
	"encoding/binary"
	"math/bits"
)

// sharedAddresses are the addresses of m's lanes in shared memory, checked, in w.where.
func (w *warp) sharedAddresses(in *inst, m uint32, n int) {
	size, bad := uint64(len(w.block.shared)), uint64(0)
	last := size - uint64(n) // huge if n is larger, but then so is the difference below
	mask := uint64(n - 1)
	if m == full && in.wideBase && addAddresses(&w.where, w.at(in.a), uint64(in.offset), mask, last) {
		return
	}
	if in.wideBase {
		base := (*[32]uint64)(w.at(in.a))
		for r := m; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r) & 31
			a := base[l] + uint64(in.offset)
			bad |= a&mask | (a|(last-a))>>63
			w.where[l] = uint32(a)
		}
	} else {
		base := (*[32]uint32)(w.at(in.a))
		for r := m; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r) & 31
			a := base[l] + uint32(in.offset)
			bad |= uint64(a)&mask | (last-uint64(a))>>63
			w.where[l] = a
		}
	}
	if bad != 0 || last > size {
		w.badShared(in, m, n)
	}
}

// badShared names the lane whose address is bad, or takes addresses of the generic space.
func (w *warp) badShared(in *inst, m uint32, n int) {
	size := uint64(len(w.block.shared))
	for r := m; r != 0; r &= r - 1 {
		l := bits.TrailingZeros32(r) & 31
		a := w.address(in, l)
		if a>>56<<56 == sharedWindow {
			a -= sharedWindow
		}
		if a&uint64(n-1) != 0 {
			w.fail(l, "shared address %#x is not aligned to %d bytes", a, n)
		}
		if a > size || size-a < uint64(n) {
			w.fail(l, "%d bytes at shared address %#x are outside of the block's %d", n, a, size)
		}
		w.where[l] = uint32(a)
	}
}

// moveShared copies between shared memory and registers.
func (w *warp) moveShared(in *inst, m uint32, write bool) {
	data := w.block.shared
	if in.size != 4 || in.wide {
		at := &w.access.Address
		for i, a := range w.where {
			at[i] = uint64(a)
		}
		w.move(in, m, data, 0, at, write)
		return
	}
	for i, slot := range in.more {
		reg := (*[32]uint32)(w.at(slot))
		skip := uint32(4 * i)
		if write {
			for r := m; r != 0; r &= r - 1 {
				l := bits.TrailingZeros32(r) & 31
				binary.LittleEndian.PutUint32(data[w.where[l]+skip:], reg[l])
			}
			continue
		}
		for r := m; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r) & 31
			reg[l] = binary.LittleEndian.Uint32(data[w.where[l]+skip:])
		}
	}
}
