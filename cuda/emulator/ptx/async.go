package ptx

import "math/bits"

// copies are a warp's cp.async that are not waited for. The bytes are read from global memory when the copy is issued and reach
// shared memory when the thread that issued it waits for it: in between, nobody may touch them there.
type copies struct {
	list    []copying
	commits [32]uint32 // groups committed by each lane
}

type copying struct {
	lane  uint8
	n     uint8
	at    uint32 // in shared memory
	group uint32
	data  [16]byte
}

func (c *copies) reset() {
	c.list = c.list[:0]
	c.commits = [32]uint32{}
}

// cp.async.{ca,cg}.shared.global [to], [from], n{, bytes to read}; commit_group; wait_group n; wait_all.
func (b *builder) cp(mods []string, args []operand) error {
	if len(mods) < 2 || mods[0] != "async" {
		return b.this()
	}
	in := inst{kind: stepwise, step: stepCommit}
	switch mods[1] {
	case "commit_group":
		b.emit(in)
		return b.want(args, 0)
	case "wait_all":
		in.step, in.sub = stepWaitCopies, 1
		b.emit(in)
		return b.want(args, 0)
	case "wait_group":
		in.step = stepWaitCopies
		if len(args) != 1 || args[0].kind != isNumber {
			return b.this()
		}
		in.offset = int64(args[0].integer)
		b.emit(in)
		return nil
	case "ca", "cg":
	default:
		return b.this()
	}
	if len(mods) < 4 || mods[2] != "shared" && mods[2] != "shared::cta" || mods[3] != "global" {
		return b.this()
	}
	for _, m := range mods[4:] {
		if m != "L2::64B" && m != "L2::128B" && m != "L2::256B" {
			return b.this()
		}
	}
	if len(args) < 3 || len(args) > 4 || args[2].kind != isNumber {
		return b.this()
	}
	in.size = uint8(args[2].integer)
	if n := in.size; n != 16 && (mods[1] == "cg" || n != 4 && n != 8) {
		return b.errorf("cp.async of %d bytes: %s", args[2].integer, b.at.text)
	}
	// to, and then from, as instructions of their own would have them
	to := inst{space: shared}
	if err := b.addressOf(args[0], &to); err != nil {
		return err
	}
	from := inst{space: global}
	if err := b.addressOf(args[1], &from); err != nil {
		return err
	}
	bytes := b.constant(uint64(in.size), 32)
	if len(args) == 4 {
		var err error
		if bytes, err = b.source(args[3], 32); err != nil {
			return err
		}
	}
	b.granule(4)
	in.step = func(w *warp, in *inst, m uint32) { w.copy(&to, &from, bytes, m, int(in.size)) }
	b.emit(in)
	return nil
}

func (w *warp) copy(to, from *inst, bytes int32, m uint32, n int) {
	w.sharedAddresses(to, m, n)
	reads := (*[32]uint32)(w.at(bytes))
	index := [32]int{}
	whole := uint32(0)
	c := &w.copies
	for r := m; r != 0; r &= r - 1 {
		l := bits.TrailingZeros32(r) & 31
		if reads[l] > uint32(n) {
			w.fail(l, "cp.async of %d bytes reads %d", n, reads[l])
		}
		if int(reads[l]) == n {
			whole |= 1 << l
		}
		index[l] = len(c.list)
		c.list = append(c.list, copying{lane: uint8(l), n: uint8(n), at: w.where[l], group: c.commits[l]})
	}
	if s := w.block.shadow; s != nil {
		s.write(w, m, n, pendingWrite)
	}
	if whole != 0 {
		w.global(from, whole, n, Read, func(lanes uint32, data []byte, base uint64, at *[32]uint64) {
			for r := lanes; r != 0; r &= r - 1 {
				l := bits.TrailingZeros32(r) & 31
				copy(c.list[index[l]].data[:n], data[at[l]-base:])
			}
		})
	}
	// parts are read byte by byte; the rest is zeros, and an address of which nothing is read can be anything
	for r := m &^ whole; r != 0; r &= r - 1 {
		l := bits.TrailingZeros32(r) & 31
		for i := range int(reads[l]) {
			part := *from
			part.offset += int64(i)
			w.global(&part, 1<<l, 1, Read, func(_ uint32, data []byte, base uint64, at *[32]uint64) {
				c.list[index[l]].data[i] = data[at[l]-base]
			})
		}
	}
}

func stepCommit(w *warp, _ *inst, m uint32) {
	for r := m; r != 0; r &= r - 1 {
		w.copies.commits[bits.TrailingZeros32(r)&31]++
	}
}

// stepWaitCopies ends the copies of all groups but the last n, or of all and of those that are in no group.
func stepWaitCopies(w *warp, in *inst, m uint32) {
	c := &w.copies
	kept := c.list[:0]
	for i := range c.list {
		e := &c.list[i]
		if m>>e.lane&1 == 0 || in.sub == 0 && int64(e.group)+in.offset >= int64(c.commits[e.lane]) {
			kept = append(kept, *e)
			continue
		}
		copy(w.block.shared[e.at:e.at+uint32(e.n)], e.data[:e.n])
		if s := w.block.shadow; s != nil {
			s.land(w, int(e.lane), e.at, int(e.n))
		}
	}
	c.list = kept
}
