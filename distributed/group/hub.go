package group

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// hub joins the members of this process with each other through memory and, where there is a remote, with those of other
// processes. Workers first to first+local-1 are here.
type hub struct {
	size, first, local int
	timeout            time.Duration
	remote             remote   // nil where all workers are in this process
	hosts              []string // names of each worker's; nil where all workers are in this process

	mu     sync.RWMutex
	boards map[place]*board

	abort   sync.Once
	cause   error         // set before aborted is closed
	aborted chan struct{} // closed when the group has failed
}

// remote carries messages to and from other processes.
type remote interface {
	check(tag Tag) error // whether the exchange can be told from others
	post(o *op)          // starts o's messages; each is finished once
	stop() bool          // returns when nobody touches the memory of messages any more; false: it may still be touched

	call()                    // the roll: asks all processes to answer, and forgets earlier answers
	present(process int) bool // whether it has answered
}

// place is what tells exchanges apart that are under way at one time.
type place struct {
	phase  Phase
	bucket int
}

// board is where the local members meet for the exchanges of one place. It is kept for the next step, so that an exchange
// allocates nothing.
type board struct {
	mu    sync.Mutex
	cells []cell // [from][to]: what the first of both has put there
	ops   []op   // of each local member
}

// cell holds one side of a message, its sender's buffer or its receiver's, until the other side comes and copies.
type cell struct {
	op  *op
	buf []byte
}

// op is an exchange of one member. One op serves all exchanges of its member and place: they follow each other.
type op struct {
	rank     int
	tag      Tag       // guarded by the board's mutex, as is since
	since    time.Time // when it began
	busy     atomic.Bool
	left     atomic.Int32   // messages that are not finished, and one more until all are posted
	open     []atomic.Int32 // those with each worker
	done     chan struct{}  // receives when left becomes 0
	timer    *time.Timer
	matches  []match        // messages to copy
	messages []message      // messages to and from other processes
	pins     runtime.Pinner // of messages in Go memory, while the remote holds their addresses
}

// match is a message of which both sides are there.
type match struct {
	with     *op // of the worker that came first
	dst, src []byte
	sent     bool // by the worker that came second
}

// message goes to or comes from another process.
type message struct {
	op   *op
	peer int // worker
	send bool
	buf  []byte
	done bool // belongs to remote until it has stopped
}

func newHub(size, first, local int, timeout time.Duration) *hub {
	return &hub{size: size, first: first, local: local, timeout: timeout,
		boards: map[place]*board{}, aborted: make(chan struct{})}
}

func (h *hub) members() []Member {
	all := make([]Member, h.local)
	for i := range all {
		all[i] = &member{h, i}
	}
	return all
}

// board returns the meeting place of a tag.
func (h *hub) board(tag Tag) *board {
	at := place{tag.Phase, tag.Bucket}
	h.mu.RLock()
	b := h.boards[at]
	h.mu.RUnlock()
	if b != nil {
		return b
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if b = h.boards[at]; b != nil {
		return b
	}
	b = &board{cells: make([]cell, h.local*h.local), ops: make([]op, h.local)}
	for i := range b.ops {
		o := &b.ops[i]
		o.rank = h.first + i
		o.open = make([]atomic.Int32, h.size)
		o.done = make(chan struct{}, 1)
		o.timer = time.NewTimer(time.Hour)
		o.timer.Stop()
	}
	h.boards[at] = b
	return b
}

// fail ends the group; the first cause counts.
func (h *hub) fail(cause error) {
	h.abort.Do(func() {
		h.cause = cause
		close(h.aborted)
	})
}

// failed returns the cause for which the group has failed, nil where it has not.
func (h *hub) failed() error {
	select {
	case <-h.aborted:
		return h.cause
	default:
		return nil
	}
}

// waiting tells of the exchange that has waited longest, of those that wait for anybody who is missed.
func (h *hub) waiting(missed func(workers []int) []int) (longest *LostError, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, b := range h.boards {
		b.mu.Lock()
		for i := range b.ops {
			o := &b.ops[i]
			if !o.busy.Load() {
				continue
			}
			if missing := missed(o.missing()); len(missing) > 0 && (!ok || time.Since(o.since) > longest.After) {
				longest, ok = h.lost(o, missing, nil), true
			}
		}
		b.mu.Unlock()
	}
	return longest, ok
}

// absent are the workers of those processes of some workers that have not answered a roll call, whichever of them was waited for:
// long messages go to one worker at a time. The others wait too, and are not to blame.
func (h *hub) absent(workers []int) (all []int) {
	if h.remote == nil {
		return workers
	}
	for _, w := range workers {
		process := w / h.local
		for i := range h.local {
			if other := process*h.local + i; !h.remote.present(process) && !slices.Contains(all, other) {
				all = append(all, other)
			}
		}
	}
	return all
}

// lost tells of an exchange that waits for others; the caller knows that tag and since do not change.
func (h *hub) lost(o *op, missing []int, cause error) *LostError {
	e := &LostError{Rank: o.rank, Tag: o.tag, After: time.Since(o.since), Limit: h.timeout, Cause: cause}
	e.miss(missing, h.hosts)
	return e
}

// expect counts one more message with a worker.
func (o *op) expect(worker int) {
	o.open[worker].Add(1)
	o.left.Add(1)
}

// finish counts one message with a worker as done.
func (o *op) finish(worker int) {
	o.open[worker].Add(-1)
	if o.left.Add(-1) == 0 {
		o.done <- struct{}{}
	}
}

func (o *op) missing() []int {
	var all []int
	for i := range o.open {
		if o.open[i].Load() > 0 {
			all = append(all, i)
		}
	}
	return all
}
