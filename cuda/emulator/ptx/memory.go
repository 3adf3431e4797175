package ptx

import (
	"encoding/binary"
	"math/bits"
)

// addressOf decodes [base+offset].
func (b *builder) addressOf(o operand, in *inst) error {
	if o.kind != isAddress {
		return b.errorf("%s is not an address", o.text)
	}
	in.offset = o.offset
	switch {
	case o.base == nil:
		in.wideBase = true
		in.a = b.constant(0, 64)
	case o.base.kind == isRegister && o.base.reg.bits >= 32:
		in.wideBase = o.base.reg.bits == 64
		in.a = b.slot(o.base.reg)
	case o.base.kind == isSymbol:
		s := o.base.symbol
		in.wideBase = true
		slot, err := b.address(*o.base, 64)
		in.a = slot
		switch {
		case err != nil:
			return err
		case s.space == generic || in.space == s.space:
		case in.space == generic: // a variable's name stands for its address in its own space
			in.offset += int64(windows[s.space])
		default:
			return b.errorf("%s is in another state space", o.base.text)
		}
	default:
		return b.errorf("%s is not an address", o.text)
	}
	return nil
}

// ld{.space}{.vec}.type d, [a] and st{.space}{.vec}.type [a], b.
func (b *builder) ld(mods []string, args []operand) error { return b.memory(mods, args, false) }
func (b *builder) st(mods []string, args []operand) error { return b.memory(mods, args, true) }

func (b *builder) memory(mods []string, args []operand, store bool) error {
	if err := b.want(args, 2); err != nil {
		return err
	}
	in := inst{kind: stepwise, step: stepLoad, count: 1}
	if store {
		in.step = stepStore
		args = []operand{args[1], args[0]}
	}
	kind := ""
	for _, m := range mods {
		sp, isSpace := spaces[m]
		switch {
		case isSpace:
			in.space = sp
		case m == "v2":
			in.count = 2
		case m == "v4":
			in.count = 4
		case typeSizes[m] != 0:
			kind = m
		case m == "nc" || m == "volatile" || m == "relaxed" || m == "weak" || m == "acquire" || m == "release" || m == "gpu" ||
			m == "cta" || m == "sys" || m == "ca" || m == "cg" || m == "cs" || m == "cv" || m == "lu" || m == "wb" || m == "wt" ||
			m == "L1::no_allocate" || m == "L1::evict_last" || m == "L1::evict_first" || m == "L2::64B" || m == "L2::128B" || m == "L2::256B":
		default:
			return b.this()
		}
	}
	if kind == "" || int(in.count)*typeSizes[kind] > 16 || store && (in.space == constants || in.space == params) {
		return b.this()
	}
	in.size, in.signed = uint8(typeSizes[kind]), kind[0] == 's'
	parts := []operand{args[0]}
	if in.count > 1 {
		if parts = args[0].elements; args[0].kind != isVector || len(parts) != int(in.count) {
			return b.errorf("%s is not a vector of %d registers", args[0].text, in.count)
		}
	}
	for i, p := range parts {
		width := max(16, 8*int(in.size))
		if p.kind == isRegister { // which can be wider than what is loaded or stored
			width = max(width, p.reg.bits)
		}
		if i == 0 {
			in.wide = width == 64
		} else if in.wide != (width == 64) {
			return b.errorf("registers of one vector have different widths: %s", args[0].text)
		}
		find := b.target
		if store {
			find = b.source
		}
		slot, err := find(p, width)
		if err != nil {
			return err
		}
		in.more = append(in.more, slot)
	}
	if err := b.addressOf(args[1], &in); err != nil {
		return err
	}
	switch {
	case in.space == shared || in.space == generic:
		b.granule(int(in.size))
	case in.space == params && args[1].base != nil && args[1].base.kind == isSymbol:
		return b.parameter(args[1], in)
	}
	b.emit(in)
	return nil
}

// parameter is a load of a parameter by its name, which is the same for all lanes.
func (b *builder) parameter(from operand, in inst) error {
	n := int64(in.size) * int64(in.count)
	in.offset = int64(from.base.symbol.offset) + from.base.offset + from.offset
	if in.offset < 0 || in.offset+n > int64(b.k.paramBytes) || in.offset%n != 0 {
		return b.errorf("%s is not %d aligned bytes of the parameters", from.text, n)
	}
	in.step = stepLoadParameter
	b.emit(in)
	return nil
}

func stepLoadParameter(w *warp, in *inst, m uint32) {
	first := bits.TrailingZeros32(m) & 31
	for i, slot := range in.more {
		w.load(w.block.c.Params[in.offset+int64(i*int(in.size)):], in, slot, first)
		if in.wide {
			spread((*[32]uint64)(w.at(slot)), first, m)
		} else {
			spread((*[32]uint32)(w.at(slot)), first, m)
		}
	}
}

// spread gives a lane's value to those of m.
func spread[S uint32 | uint64](lanes *[32]S, from int, m uint32) {
	v := lanes[from]
	for i := range lanes {
		if m>>i&1 == 1 {
			lanes[i] = v
		}
	}
}

// granule notes how finely shared memory is accessed.
func (b *builder) granule(bytes int) {
	if g := b.k.granule; g == 0 || bytes < g {
		b.k.granule = min(bytes, 4)
	}
}

// address of a lane.
func (w *warp) address(in *inst, lane int) uint64 {
	if in.wideBase {
		return (*[32]uint64)(w.at(in.a))[lane] + uint64(in.offset)
	}
	return uint64((*[32]uint32)(w.at(in.a))[lane] + uint32(in.offset))
}

func stepLoad(w *warp, in *inst, m uint32)  { w.transfer(in, in.space, m, false) }
func stepStore(w *warp, in *inst, m uint32) { w.transfer(in, in.space, m, true) }

func (w *warp) transfer(in *inst, sp space, m uint32, write bool) {
	n := int(in.size) * int(in.count)
	switch sp {
	case global:
		kind := Read
		if write {
			kind = Write
		}
		w.global(in, m, n, kind, func(lanes uint32, data []byte, base uint64, at *[32]uint64) {
			w.move(in, lanes, data, base, at, write)
		})
	case shared:
		w.sharedAddresses(in, m, n)
		switch s := w.block.shadow; {
		case s == nil:
		case write:
			s.write(w, m, n, plainWrite)
		default:
			s.read(w, m, n)
		}
		w.moveShared(in, m, write)
	case local:
		w.bank(in, m, n, uint64(w.block.k.local), localWindow, "local", write)
	case constants:
		w.bank(in, m, n, uint64(len(w.block.k.module.constant)), constantWindow, "constant", write)
	case params:
		w.bank(in, m, n, uint64(len(w.block.c.Params)), paramWindow, "parameter", write)
	default:
		for m != 0 {
			first := spaceOf(w.address(in, bits.TrailingZeros32(m)))
			same := uint32(0)
			for r := m; r != 0; r &= r - 1 {
				if l := bits.TrailingZeros32(r); spaceOf(w.address(in, l)) == first {
					same |= 1 << l
				}
			}
			m &^= same
			w.transfer(in, first, same, write)
		}
	}
}

// bank is memory that is a lane's own, or that nobody writes.
func (w *warp) bank(in *inst, m uint32, n int, size, window uint64, name string, write bool) {
	at := &w.access.Address
	for r := m; r != 0; r &= r - 1 {
		l := bits.TrailingZeros32(r) & 31
		a := w.address(in, l)
		if a>>56<<56 == window {
			a -= window
		}
		switch {
		case a%uint64(n) != 0:
			w.fail(l, "%s address %#x is not aligned to %d bytes", name, a, n)
		case a > size || size-a < uint64(n):
			w.fail(l, "%d bytes at %#x are outside of the %d bytes of %s memory", n, a, size, name)
		case write && name != "local":
			w.fail(l, "%s memory cannot be written", name)
		}
		if name == "local" {
			a += uint64(l) * size
		}
		at[l] = a
	}
	data := w.local
	switch name {
	case "constant":
		data = w.block.k.module.constant
	case "parameter":
		data = w.block.c.Params
	}
	w.move(in, m, data, 0, at, write)
}

// global asks the Memory for the bytes of m's lanes, and has f use them.
func (w *warp) global(in *inst, m uint32, n int, kind AccessKind, f func(lanes uint32, data []byte, base uint64, at *[32]uint64)) {
	a := &w.access
	low := uint64(0)
	for r := m; r != 0; r &= r - 1 {
		l := bits.TrailingZeros32(r) & 31
		a.Address[l] = w.address(in, l)
		low |= a.Address[l]
	}
	if low&uint64(n-1) != 0 || low >= firstWindow {
		w.badGlobal(m, n, f, in, kind)
		return
	}
	w.ask(m, n, kind, f)
}

func (w *warp) ask(m uint32, n int, kind AccessKind, f func(lanes uint32, data []byte, base uint64, at *[32]uint64)) {
	a := &w.access
	a.Kind, a.Size, a.Block, a.Warp, a.Epoch = kind, n, w.block.index, w.index, w.block.epoch
	count := int64(bits.OnesCount32(m)) * int64(n)
	if kind != Write {
		w.block.stats.GlobalRead += count
	}
	if kind != Read {
		w.block.stats.Written += count
	}
	for m != 0 {
		a.Mask, a.Served = m, 0
		if err := w.block.c.Memory.Access(a); err != nil {
			w.failAccess(err, m)
		}
		served := a.Served & m
		if served == 0 {
			w.fail(bits.TrailingZeros32(m), "the memory serves no lane")
		}
		f(served, a.Data, a.Base, &a.Address)
		m &^= served
	}
}

// badGlobal names the lane whose address is bad, or has constants read, which .global variables with values are.
func (w *warp) badGlobal(m uint32, n int, f func(lanes uint32, data []byte, base uint64, at *[32]uint64), in *inst, kind AccessKind) {
	rest := m
	for r := m; r != 0; r &= r - 1 {
		l := bits.TrailingZeros32(r) & 31
		a := w.access.Address[l]
		switch {
		case a&uint64(n-1) != 0:
			w.fail(l, "global address %#x is not aligned to %d bytes", a, n)
		case spaceOf(a) == constants && kind != Atomic:
			rest &^= 1 << l
			defer w.transfer(in, constants, 1<<l, kind == Write)
		case a >= firstWindow:
			w.fail(l, "%#x is not a global address", a)
		}
	}
	if rest != 0 {
		w.ask(rest, n, kind, f)
	}
}

// move copies between memory and registers.
func (w *warp) move(in *inst, m uint32, data []byte, base uint64, at *[32]uint64, write bool) {
	if in.size == 4 && !in.wide {
		w.moveWords(in, m, data, base, at, write)
		return
	}
	for r := m; r != 0; r &= r - 1 {
		l := bits.TrailingZeros32(r) & 31
		p := data[at[l]-base:]
		for i, slot := range in.more {
			e := p[i*int(in.size):]
			if write {
				w.store(e, in.size, slot, in.wide, l)
			} else {
				w.load(e, in, slot, l)
			}
		}
	}
}

func (w *warp) moveWords(in *inst, m uint32, data []byte, base uint64, at *[32]uint64, write bool) {
	for i, slot := range in.more {
		reg := (*[32]uint32)(w.at(slot))
		skip := uint64(4 * i)
		if write {
			for r := m; r != 0; r &= r - 1 {
				l := bits.TrailingZeros32(r) & 31
				binary.LittleEndian.PutUint32(data[at[l]-base+skip:], reg[l])
			}
			continue
		}
		for r := m; r != 0; r &= r - 1 {
			l := bits.TrailingZeros32(r) & 31
			reg[l] = binary.LittleEndian.Uint32(data[at[l]-base+skip:])
		}
	}
}

func (w *warp) load(p []byte, in *inst, slot int32, lane int) {
	var v uint64
	switch in.size {
	case 1:
		if v = uint64(p[0]); in.signed {
			v = uint64(int64(int8(v)))
		}
	case 2:
		if v = uint64(binary.LittleEndian.Uint16(p)); in.signed {
			v = uint64(int64(int16(v)))
		}
	case 4:
		if v = uint64(binary.LittleEndian.Uint32(p)); in.signed {
			v = uint64(int64(int32(v)))
		}
	default:
		v = binary.LittleEndian.Uint64(p)
	}
	if in.wide {
		(*[32]uint64)(w.at(slot))[lane] = v
	} else {
		(*[32]uint32)(w.at(slot))[lane] = uint32(v)
	}
}

func (w *warp) store(p []byte, size uint8, slot int32, wide bool, lane int) {
	var v uint64
	if wide {
		v = (*[32]uint64)(w.at(slot))[lane]
	} else {
		v = uint64((*[32]uint32)(w.at(slot))[lane])
	}
	switch size {
	case 1:
		p[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(p, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(p, uint32(v))
	default:
		binary.LittleEndian.PutUint64(p, v)
	}
}
