package group

import (
	"fmt"
	"time"
	"unsafe"
)

// member is a worker's place in the hub of its process.
type member struct {
	hub   *hub
	index int
}

func (m *member) Rank() int         { return m.hub.first + m.index }
func (m *member) Size() int         { return m.hub.size }
func (m *member) Abort(cause error) { m.hub.fail(cause) }

func (m *member) Exchange(tag Tag, send, recv [][]byte) error {
	h := m.hub
	if err := m.valid(tag, send, recv); err != nil {
		return err
	}
	copy(recv[m.Rank()], send[m.Rank()])
	if cause := h.failed(); cause != nil {
		return cause
	}
	b := h.board(tag)
	o := &b.ops[m.index]
	if !o.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("worker %d makes two exchanges at once in %v: what they send could not be told apart", m.Rank(), tag)
	}
	m.post(b, o, tag, send, recv)
	if err := m.wait(b, o); err != nil {
		return err // o stays busy: a remote that hangs may still touch it
	}
	o.pins.Unpin()
	o.busy.Store(false)
	return nil
}

// valid checks what a mistake in the program could get wrong.
func (m *member) valid(tag Tag, send, recv [][]byte) error {
	if n := m.Size(); len(send) != n || len(recv) != n {
		return fmt.Errorf("%v: worker %d sends to %d workers and receives from %d; the group has %d", tag, m.Rank(), len(send), len(recv), n)
	}
	if s, r := len(send[m.Rank()]), len(recv[m.Rank()]); s != r {
		return mismatch(tag, m.Rank(), m.Rank(), s, r)
	}
	if m.hub.remote != nil {
		return m.hub.remote.check(tag)
	}
	return nil
}

func mismatch(tag Tag, from, to, sent, wanted int) error {
	return fmt.Errorf("%v: worker %d sends %d bytes to worker %d, which expects %d", tag, from, sent, to, wanted)
}

// post puts up the member's messages, and copies those whose other side is there.
func (m *member) post(b *board, o *op, tag Tag, send, recv [][]byte) {
	h := m.hub
	o.left.Store(1) // finished below, so that nobody signals before all are posted
	o.matches, o.messages = o.matches[:0], o.messages[:0]
	b.mu.Lock()
	o.tag, o.since = tag, time.Now()
	for peer := range h.size {
		if peer == m.Rank() {
			continue
		}
		j := peer - h.first
		if j < 0 || j >= h.local {
			o.sendAway(peer, send[peer], true)
			o.sendAway(peer, recv[peer], false)
			continue
		}
		o.meet(&b.cells[m.index*h.local+j], peer, send[peer], true)
		o.meet(&b.cells[j*h.local+m.index], peer, recv[peer], false)
	}
	b.mu.Unlock()

	if len(o.messages) > 0 {
		for i := range o.messages {
			o.pins.Pin(unsafe.SliceData(o.messages[i].buf))
		}
		h.remote.post(o)
	}
	for i := range o.matches {
		c := &o.matches[i]
		with := c.with.rank
		if len(c.dst) != len(c.src) {
			from, to := with, o.rank
			if c.sent {
				from, to = to, from
			}
			h.fail(mismatch(tag, from, to, len(c.src), len(c.dst)))
		}
		copy(c.dst, c.src)
		c.with.finish(o.rank)
		o.finish(with)
		*c = match{}
	}
}

// meet puts one side of a message into its cell, or takes the other side out of it.
func (o *op) meet(c *cell, peer int, buf []byte, send bool) {
	if len(buf) == 0 {
		return
	}
	o.expect(peer)
	switch {
	case c.op == nil:
		*c = cell{o, buf}
		return
	case send:
		o.matches = append(o.matches, match{with: c.op, dst: c.buf, src: buf, sent: true})
	default:
		o.matches = append(o.matches, match{with: c.op, dst: buf, src: c.buf})
	}
	*c = cell{}
}

// sendAway lists a message with a worker of another process.
func (o *op) sendAway(peer int, buf []byte, send bool) {
	if len(buf) > 0 {
		o.expect(peer)
		o.messages = append(o.messages, message{op: o, peer: peer, buf: buf, send: send})
	}
}

// wait returns when all messages of an exchange are finished, or when the group has failed and nobody touches them any more.
func (m *member) wait(b *board, o *op) error {
	h := m.hub
	if o.left.Add(-1) == 0 {
		return h.failed() // lengths that differ
	}
	o.timer.Reset(h.timeout)
	var lost *LostError
	slept := false
	for {
		select {
		case <-o.done:
			o.timer.Stop()
			return h.failed()
		case <-h.aborted:
			o.timer.Stop()
			m.withdraw(b, o)
			return h.cause
		case <-o.timer.C:
			if late := time.Since(o.since) - h.timeout; lost == nil && !slept && late > grace/3 {
				slept = true // this process itself was stopped, for a while
				o.timer.Reset(min(h.timeout, rest))
				continue
			}
			if lost == nil {
				// Where this process was stopped, its messages have come, but nobody has looked.
				lost = h.lost(o, nil, nil)
				if h.remote != nil {
					h.remote.call()
				}
				o.timer.Reset(grace)
				continue
			}
			missing := o.missing()
			if len(missing) == 0 {
				continue // the last message has come with the alarm
			}
			if other, ok := h.waiting(h.absent); ok {
				other.After -= grace // as it was at the alarm
				lost = other
			} else {
				lost.miss(missing, h.hosts) // they are there, and too slow
			}
			h.fail(lost)
			m.withdraw(b, o)
			return h.cause
		}
	}
}

// grace is how much longer than the time limit an exchange waits before it blames others: for them to answer a roll call.
const grace = 300 * time.Millisecond

// rest is how much longer an exchange waits whose own process was stopped: the others may have been stopped with it, or may
// be about to end it.
const rest = 2 * time.Second

// withdraw takes back the messages of a failed exchange, and waits for those that are being copied.
func (m *member) withdraw(b *board, o *op) {
	h := m.hub
	back := int32(1) // left is kept above 0 until all are counted
	o.left.Add(1)
	b.mu.Lock()
	for j := range h.local {
		for _, c := range []*cell{&b.cells[m.index*h.local+j], &b.cells[j*h.local+m.index]} {
			if c.op == o {
				*c = cell{}
				back++
			}
		}
	}
	b.mu.Unlock()
	if len(o.messages) > 0 {
		if !h.remote.stop() {
			return
		}
		for i := range o.messages {
			if !o.messages[i].done {
				back++
			}
		}
	}
	if o.left.Add(-back) > 0 {
		<-o.done
	}
}
