package emulator

import "gotrain/cuda/emulator/ptx"

// Blocks of a launch are ordered by atomics only, as in the pattern of the last block: each block writes its part, executes a fence,
// and counts itself on a ticket; the block that counts last reads all parts. A block's atomic behind its fence releases what the block
// did before; an atomic with a fence before or behind it acquires what other blocks released by atomics on the same word, and what they
// had acquired themselves.

// blockState is a block of a launch. Only the goroutine that runs the block changes it.
type blockState struct {
	time    uint32 // releases; barriers come on top
	fenced  bool   // nothing was written since the last fence
	knows   map[*ticket]int
	acquire []*ticket // atomics that are under way, to be acquired with the block's next access
	relaxed []*ticket // atomics without a fence, to be acquired with the next fence
}

// ticket is a word that atomics count on.
type ticket struct {
	released int // atomics that released, of all blocks
	blocks   map[int]*releases
	knows    map[*ticket]int // what releasing blocks knew
}

// releases are the atomics of one block on a ticket.
type releases struct {
	at    []int    // numbers of the releases among the ticket's
	times []uint32 // of the block at each
	loose bool     // the last atomic released nothing
}

// count notes that a block's atomic counts on a word.
func (v *view) count(address uint64, block int, by stamp) {
	b := &v.blocks[block]
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.tickets[address]
	if t == nil {
		t = &ticket{blocks: map[int]*releases{}, knows: map[*ticket]int{}}
		v.tickets[address] = t
	}
	r := t.blocks[block]
	if r == nil {
		r = &releases{}
		t.blocks[block] = r
	}
	if r.loose = !b.fenced; r.loose {
		b.relaxed = append(b.relaxed, t)
		return
	}
	r.at = append(r.at, t.released)
	r.times = append(r.times, timeOf(by))
	t.released++
	for other, n := range b.knows {
		t.knows[other] = max(t.knows[other], n)
	}
	b.time++
	b.acquire = append(b.acquire, t)
}

// settle acquires tickets. Their releases are counted now and not at the atomic, which may have happened after other blocks' that
// were noted later.
func (v *view) settle(b *blockState, tickets []*ticket) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if b.knows == nil {
		b.knows = map[*ticket]int{}
	}
	for _, t := range tickets {
		for other, n := range t.knows {
			b.knows[other] = max(b.knows[other], n)
		}
		b.knows[t] = max(b.knows[t], t.released)
	}
}

// Fence is a fence of a block, by ptx.Memory.
func (v *view) Fence(block int) {
	if v.blocks == nil {
		return
	}
	b := &v.blocks[block]
	b.fenced = true
	if len(b.relaxed) > 0 {
		v.settle(b, b.relaxed)
		b.relaxed = nil
	}
}

// behind says whether an access comes behind another one of the same word in the same launch.
func (v *view) behind(first, second stamp, a *allocation, cell int) bool {
	if first>>blockShift == second>>blockShift { // or else they are of one warp, or a barrier is between them
		return first&severalWarp == second&severalWarp || timeOf(first) != timeOf(second) || timeOf(first) == maxTime
	}
	block := int(second >> blockShift)
	b := &v.blocks[block]
	if b.knows == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case first == several:
		return v.everybody(b)
	case first == atomics:
		for other, r := range v.tickets[a.base+uint64(cell)<<a.shadow.shift].blocks {
			if other != block && (r.loose || !b.has(other, r.times[len(r.times)-1])) {
				return false
			}
		}
		return true
	}
	return b.has(int(first>>blockShift), timeOf(first))
}

// has says whether a block knows of what another did until a time.
func (b *blockState) has(other int, time uint32) bool {
	for t, n := range b.knows {
		r := t.blocks[other]
		if r == nil {
			continue
		}
		for i := len(r.at) - 1; i >= 0 && r.times[i] >= time; i-- {
			if r.at[i] < n {
				return true
			}
		}
	}
	return false
}

// everybody says whether a block knows of a release of every other block: then what several blocks have read can be written.
func (v *view) everybody(b *blockState) bool {
	for other := range v.blocks {
		if o := &v.blocks[other]; o != b && !b.has(other, 0) {
			return false
		}
	}
	return true
}

var _ ptx.Memory = (*view)(nil)
