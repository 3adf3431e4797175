package emulator

import (
	"errors"
	"fmt"

	"gotrain/cuda/emulator/ptx"
)

// AccessError is an access that memory does not allow: outside of its allocation, of memory that was freed, of a device that was not
// enabled, or a read of bytes that nothing wrote.
type AccessError struct {
	Operation string // the kernel, copy or fill
	What      string // what it did, such as "reads bytes 64 to 67 of weights, which nothing wrote"
}

func (e *AccessError) Error() string { return e.Operation + " " + e.What }

// Conflict is two accesses of the same bytes, one of them a write at least, that nothing orders.
type Conflict struct {
	Memory        string // the name of the allocation
	Start, End    int    // the bytes [Start, End) of it
	Second, First string // the operations, or the blocks of one launch: the one that was stopped, and the one executed before it
	Writes, Wrote bool   // whether the second writes, and whether the first wrote
	Blocks        bool   // whether they are blocks of one launch
}

func (e *Conflict) Error() string { return e.Second + " " + e.what() }

func (e *Conflict) what() string {
	s := fmt.Sprintf("%s bytes %d to %d of %s, which %s %s: no stream, event or graph orders the two",
		verb(e.Writes, "writes", "reads"), e.Start, e.End-1, e.Memory, e.First, verb(e.Wrote, "writes", "reads"))
	if e.Blocks {
		s = fmt.Sprintf("%s bytes %d to %d of %s, which %s %s: no fence with an atomic orders blocks of a launch",
			verb(e.Writes, "writes", "reads"), e.Start, e.End-1, e.Memory, e.First, verb(e.Wrote, "writes", "reads"))
	}
	return s
}

func verb(writes bool, write, read string) string {
	if writes {
		return write
	}
	return read
}

// located is a fault of a kernel with the Conflict or AccessError behind it.
type located struct {
	*ptx.Fault
	cause error
}

func (e *located) Unwrap() []error { return []error{e.Fault, e.cause} }

// codeOf is what a GPU would say where an operation went wrong, as far as it would notice at all.
func codeOf(err error) code {
	var access *AccessError
	if errors.As(err, &access) {
		return illegalAddress
	}
	return launchFailed
}
