//go:build mpi

package group

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Built tells whether MPI is built into this binary. The compiler and the linker must be told where it lies: tools/mpi.sh
// does.
const Built = true

// Version is what the MPI in this binary says of itself, "" without.
func Version() string {
	var text [256]C.char
	if C.gotrain_mpi_version(&text[0], C.int(len(text))) != 0 {
		return ""
	}
	line, _, _ := strings.Cut(C.GoString(&text[0]), "\n")
	line, _, _ = strings.Cut(line, ",")
	return strings.TrimSpace(line)
}

// engine carries messages with MPI. One goroutine, on a thread of its own, makes all calls: it posts what exchanges hand over,
// and looks with short sleeps for what is done.
type engine struct {
	c   *C.struct_gotrain_mpi
	hub *hub

	mu     sync.Mutex
	queue  []*op  // to post
	order  order  // what the goroutine is to do next, beside
	roll   bool   // the goroutine is to call the roll
	here   []bool // by process: has answered the last roll call
	exited error  // of finalize; set before stopped is closed

	stopped chan struct{} // closed when messages are not touched any more
	end     chan struct{} // receives when the process is to end
}

type order uint8

const (
	carry    order = iota // messages
	halt                  // leave all messages as they are
	finalize              // leave the job
)

// join starts MPI on the engine's thread.
func join(workers int, timeout time.Duration) (*Job, error) {
	e := &engine{c: (*C.struct_gotrain_mpi)(C.calloc(1, C.sizeof_struct_gotrain_mpi)), stopped: make(chan struct{}), end: make(chan struct{}, 1)}
	joined := make(chan error, 1)
	go e.run(workers, timeout, joined)
	limit := max(timeout, time.Minute) // other hosts may still be starting
	select {
	case err := <-joined:
		if err != nil {
			return nil, err
		}
	case <-time.After(limit):
		return nil, fmt.Errorf("not all processes have joined within %s", seconds(limit))
	}
	return &Job{hub: e.hub, link: e, rank: int(e.c.rank), size: int(e.c.size), hosts: int(e.c.hosts), onHost: int(e.c.local_size), here: int(e.c.local_rank)}, nil
}

// run is the engine's goroutine.
func (e *engine) run(workers int, timeout time.Duration, joined chan<- error) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	e.c.workers = C.int(workers)
	if C.gotrain_mpi_init(e.c) != 0 {
		joined <- e.error()
		return
	}
	size := int(e.c.size)
	e.here = make([]bool, size)
	e.here[e.c.rank] = true
	local := max(1, workers/size) // Join refuses a remainder
	e.hub = newHub(workers, int(e.c.rank)*local, local, timeout)
	e.hub.remote = e
	names := unsafe.Slice(e.c.names, size*C.MPI_NAME)
	for w := range workers {
		e.hub.hosts = append(e.hub.hosts, C.GoString(&names[min(w/local, size-1)*C.MPI_NAME]))
	}
	joined <- nil

	if e.carry() == finalize {
		if C.gotrain_mpi_finalize(e.c) != 0 {
			e.exited = e.error()
		}
		close(e.stopped)
		return
	}
	close(e.stopped)
	<-e.end
	C.gotrain_mpi_abort()
	runtime.KeepAlive(e) // and all memory that MPI has the address of
}

func (e *engine) error() error { return errors.New(C.GoString(&e.c.error[0])) }

// carry posts messages and finishes them, until it is told to do something else.
func (e *engine) carry() order {
	var (
		slots  []*message // that MPI holds, by slot; nil: free
		free   []int
		queue  []*op
		active int
	)
	for {
		e.mu.Lock()
		queue, e.queue = e.queue, queue[:0]
		next, roll := e.order, e.roll
		e.roll = false
		e.mu.Unlock()
		if roll {
			C.gotrain_mpi_call(e.c)
			e.hear()
		}
		if next == halt { // who fails for a reason of its own is not lost
			C.gotrain_mpi_leaving(e.c)
		}
		if next == halt || next == finalize && active+len(queue) == 0 {
			return next
		}
		for _, o := range queue {
			for i := range o.messages {
				if len(free) == 0 {
					n := len(slots)
					slots = append(slots, make([]*message, max(64, n))...)
					C.gotrain_mpi_grow(e.c, C.int(len(slots)))
					for s := len(slots) - 1; s >= n; s-- {
						free = append(free, s)
					}
				}
				slot := free[len(free)-1]
				if err := e.start(&o.messages[i], slot); err != nil {
					e.hub.fail(err)
					continue
				}
				free = free[:len(free)-1]
				slots[slot] = &o.messages[i]
				active++
			}
		}
		n := int(C.gotrain_mpi_wait(e.c, C.int(active)))
		if n < 0 {
			e.hub.fail(e.error())
			continue // the exchanges under way will order a halt
		}
		e.hear()
		for i, slot := range unsafe.Slice(e.c.done, n) {
			e.finish(slots[slot], i)
			slots[slot] = nil
			free = append(free, int(slot))
		}
		active -= n
	}
}

// start hands a message to MPI.
func (e *engine) start(msg *message, slot int) error {
	if len(msg.buf) > math.MaxInt32 {
		return fmt.Errorf("%v: a message of %d bytes, where MPI takes %d at most: set a smaller distributed.bucketSize", msg.op.tag, len(msg.buf), math.MaxInt32)
	}
	from, to, send := msg.peer, msg.op.rank, C.int(0)
	if msg.send {
		from, to, send = to, from, 1
	}
	code := C.gotrain_mpi_post(e.c, C.int(slot), unsafe.Pointer(unsafe.SliceData(msg.buf)), C.int(len(msg.buf)),
		C.int(msg.peer/e.hub.local), C.int(e.number(msg.op.tag, from, to)), send)
	if code != 0 {
		return e.hub.lost(msg.op, []int{msg.peer}, e.error())
	}
	return nil
}

// finish tells an exchange that a message is done, the i-th of those that have been found.
func (e *engine) finish(msg *message, i int) {
	var bytes C.int
	result := C.gotrain_mpi_result(e.c, C.int(i), &bytes)
	switch {
	case result == C.MESSAGE_LENGTH:
		e.hub.fail(fmt.Errorf("%v: worker %d sends more bytes to worker %d than the %d that it expects", msg.op.tag, msg.peer, msg.op.rank, len(msg.buf)))
	case result == C.MESSAGE_LOST:
		e.hub.fail(e.hub.lost(msg.op, []int{msg.peer}, e.error()))
	case !msg.send && int(bytes) != len(msg.buf):
		e.hub.fail(mismatch(msg.op.tag, msg.peer, msg.op.rank, int(bytes), len(msg.buf)))
	}
	msg.done = true
	msg.op.finish(msg.peer)
}

// number is MPI's tag of a message: it tells exchanges apart, and the workers of a process.
func (e *engine) number(tag Tag, from, to int) int {
	local := e.hub.local
	return ((tag.Bucket*int(phases)+int(tag.Phase))*local+from%local)*local + to%local
}

func (e *engine) check(tag Tag) error {
	local := e.hub.local
	if most := int(e.c.tag_limit)/(int(phases)*local*local) - 1; tag.Bucket > most {
		return fmt.Errorf("%v: this MPI can tell %d buckets apart where a process has %d workers: set a larger distributed.bucketSize", tag, most+1, local)
	}
	return nil
}

// hear takes over who has answered the last roll call.
func (e *engine) hear() {
	if e.c.heard == 0 {
		return
	}
	e.c.heard = 0
	e.mu.Lock()
	for p, there := range unsafe.Slice(e.c.present, len(e.here)) {
		e.here[p] = there != C.ABSENT
	}
	e.mu.Unlock()
}

func (e *engine) call() {
	e.mu.Lock()
	e.roll = true
	e.mu.Unlock()
	C.gotrain_mpi_wake(e.c)
}

func (e *engine) present(process int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.here[process]
}

func (e *engine) post(o *op) {
	e.mu.Lock()
	e.queue = append(e.queue, o)
	e.mu.Unlock()
	C.gotrain_mpi_wake(e.c)
}

func (e *engine) give(o order) {
	e.mu.Lock()
	if e.order == carry {
		e.order = o
	}
	e.mu.Unlock()
	C.gotrain_mpi_wake(e.c)
}

func (e *engine) stop() bool {
	e.give(halt)
	select {
	case <-e.stopped:
		return true
	case <-time.After(time.Second):
		return false
	}
}

func (e *engine) finalize(limit time.Duration) error {
	e.give(finalize)
	select {
	case <-e.stopped:
		return e.exited
	case <-time.After(limit):
		return fmt.Errorf("not all processes have come within %s", seconds(limit))
	}
}

func (e *engine) abort() {
	e.stop()
	select {
	case e.end <- struct{}{}:
	default:
	}
	select {} // MPI ends the process, or the caller's watchdog does
}
