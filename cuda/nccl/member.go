package nccl

/*
#include "api.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"gotrain/cuda/driver"
)

// Member is one process's place in a communicator. All members make the same calls in the same order, each from one goroutine
// at a time; Abort can be called from any.
//
// What a stream is given runs when all members have come to it. When one does not come, the kernels of the others wait for ever:
// Wait has a time limit, after which the communicator is aborted, and its kernels end.
type Member struct {
	library    *Library
	device     driver.Native
	rank, size int
	limit      time.Duration
	comm       C.ncclComm_t

	mu      sync.Mutex
	aborted error // why no more calls are made
}

// Message is memory of the device that goes to another member, or is filled by one.
type Message struct {
	Peer  int // the other's rank
	At    driver.Pointer
	Bytes int
}

// TimeoutError is that of a call which the other members have not come to.
type TimeoutError struct {
	Rank  int    // who waited
	What  string // for what
	Limit time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("worker %d waited %v for %s: another is dead, stopped, cut off or too slow; the same command continues the run from its last checkpoint; "+
		"raise distributed.timeout where an exchange may take longer; NCCL_DEBUG=INFO in the environment tells more", e.Rank, e.Limit, e.What)
}

// Join waits for the other members, but not longer than the limit, which holds for all that is waited for later too. The device
// is a driver.Native, and no other member's. After a *TimeoutError NCCL goes on waiting on a thread of its own: the process has
// to end.
func (l *Library) Join(d driver.Device, rank, size int, id []byte, limit time.Duration) (*Member, error) {
	native, ok := d.(driver.Native)
	switch {
	case !ok:
		return nil, fmt.Errorf("NCCL runs between GPUs, and %s is emulated: set distributed.transport to auto, local or mpi", d.Info().Name)
	case len(id) != idBytes:
		return nil, fmt.Errorf("the ID of a communicator has %d bytes, not %d", idBytes, len(id))
	case rank < 0 || rank >= size:
		return nil, fmt.Errorf("there is no rank %d of %d", rank, size)
	}
	m := &Member{library: l, device: native, rank: rank, size: size, limit: limit}
	var unique C.ncclUniqueId
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&unique)), idBytes), id)
	type joined struct {
		comm C.ncclComm_t
		err  error
	}
	done := make(chan joined, 1)
	go func() {
		var j joined
		j.err = native.With(func() error {
			return l.check("ncclCommInitRank", C.call_ncclCommInitRank(l.api, &j.comm, C.int(size), unique, C.int(rank)), nil)
		})
		done <- j
	}()
	select {
	case j := <-done:
		m.comm = j.comm
		if j.err != nil {
			return nil, fmt.Errorf("worker %d of %d joining: %w", rank, size, j.err)
		}
		return m, nil
	case <-time.After(limit):
		return nil, &TimeoutError{Rank: rank, What: fmt.Sprintf("all %d workers to join NCCL", size), Limit: limit}
	}
}

func (m *Member) Rank() int { return m.rank }
func (m *Member) Size() int { return m.size }

// AllReduce replaces float32 values by their sums over all members.
func (m *Member) AllReduce(at driver.Pointer, count int, s driver.Stream) error {
	return m.give("summing", s, func(stream C.uintptr_t) (string, C.ncclResult_t) {
		return "ncclAllReduce", C.gotrain_nccl_sum(m.library.api, m.comm, stream, C.uint64_t(at), C.size_t(count))
	})
}

// AllGather fills memory with the parts of all members, one after the other, bytes each. This member's part is there already.
func (m *Member) AllGather(at driver.Pointer, bytes int, s driver.Stream) error {
	return m.give("gathering", s, func(stream C.uintptr_t) (string, C.ncclResult_t) {
		return "ncclAllGather", C.gotrain_nccl_gather(m.library.api, m.comm, stream, C.uint64_t(at), C.size_t(bytes), C.int(m.rank))
	})
}

// Exchange sends and receives several messages at once. For each that is sent there is one received by the peer, of the same
// length; several between two members come in order.
func (m *Member) Exchange(send, receive []Message, s driver.Stream) error {
	messages := make([]C.struct_gotrain_nccl_message, 0, len(send)+len(receive))
	for i, list := range [][]Message{send, receive} {
		for _, x := range list {
			if x.Peer < 0 || x.Peer >= m.size {
				return fmt.Errorf("worker %d exchanging: there is no worker %d of %d", m.rank, x.Peer, m.size)
			}
			if x.Bytes > 0 {
				messages = append(messages, C.struct_gotrain_nccl_message{at: C.uint64_t(x.At), bytes: C.size_t(x.Bytes), peer: C.int(x.Peer), send: C.int(1 - i)})
			}
		}
	}
	if len(messages) == 0 {
		return nil
	}
	return m.give("exchanging", s, func(stream C.uintptr_t) (string, C.ncclResult_t) {
		var call *C.char
		rc := C.gotrain_nccl_exchange(m.library.api, m.comm, stream, &messages[0], C.int(len(messages)), &call)
		return C.GoString(call), rc
	})
}

// give lets a stream have what f calls for. The first exchange between two members connects them, for which f may wait.
func (m *Member) give(what string, s driver.Stream, f func(C.uintptr_t) (string, C.ncclResult_t)) error {
	native, ok := s.(driver.NativeStream)
	if !ok {
		return fmt.Errorf("worker %d %s: the stream is not one of a GPU", m.rank, what)
	}
	return m.limited(what, func() error {
		return m.device.With(func() error {
			call, rc := f(C.uintptr_t(native.Handle()))
			return m.library.check(call, rc, m.comm)
		})
	})
}

// Wait waits for an event behind exchanges of a stream. It fails with a *TimeoutError, or with what NCCL has found of the
// network meanwhile, and then no more exchanges are possible.
func (m *Member) Wait(e driver.Event) error { return m.limited("exchanging", e.Synchronize) }

// limited runs f, but aborts when it takes too long. f ends then, and so does what streams wait for.
func (m *Member) limited(what string, f func() error) error {
	m.mu.Lock()
	err := m.aborted
	m.mu.Unlock()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	late := time.NewTimer(m.limit)
	defer late.Stop()
	look := time.NewTicker(max(m.limit/100, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("worker %d %s: %w", m.rank, what, err)
			}
			return nil
		case <-look.C:
			if err := m.failed(what); err != nil {
				m.Abort(err)
				return err
			}
		case <-late.C:
			err := &TimeoutError{Rank: m.rank, What: what + " with all workers", Limit: m.limit}
			m.Abort(err)
			return err
		}
	}
}

// failed asks for what NCCL's own threads have found: a lost connection.
func (m *Member) failed(what string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.aborted != nil {
		return m.aborted
	}
	var found C.ncclResult_t
	err := m.library.check("ncclCommGetAsyncError", C.call_ncclCommGetAsyncError(m.library.api, m.comm, &found), m.comm)
	if err == nil && found != C.ncclInProgress {
		err = m.library.check("NCCL's network", found, m.comm)
	}
	if err != nil {
		return fmt.Errorf("worker %d %s: %w", m.rank, what, err)
	}
	return nil
}

// Abort ends what this member waits for, and keeps it from exchanging any more; the cause is the error of further calls.
func (m *Member) Abort(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.aborted != nil {
		return
	}
	m.aborted = cause
	m.device.With(func() error { // nothing can be done about a failure
		C.call_ncclCommAbort(m.library.api, m.comm)
		return nil
	})
}

// Close waits for what streams were given, within the limit, and leaves the communicator. Graphs that hold exchanges have to be
// freed before.
func (m *Member) Close() error {
	m.mu.Lock()
	closed := m.aborted != nil
	m.aborted = cmp.Or(m.aborted, fmt.Errorf("worker %d has left NCCL", m.rank)) // from here on, nobody may touch the communicator
	m.mu.Unlock()
	if closed {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		done <- m.device.With(func() error {
			return m.library.check("ncclCommDestroy", C.call_ncclCommDestroy(m.library.api, m.comm), nil)
		})
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("worker %d leaving: %w", m.rank, err)
		}
		return nil
	case <-time.After(m.limit):
		return &TimeoutError{Rank: m.rank, What: "leaving with all workers", Limit: m.limit}
	}
}
