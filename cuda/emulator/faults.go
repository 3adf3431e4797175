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
	by, missing := "read by", "no stream, event or graph orders the two"
	if e.Wrote {
		by = "written by"
	}
	if e.Blocks {
		missing = "no fence with an atomic orders blocks of a launch"
	}
	return fmt.Sprintf("%s bytes %d to %d of %s, %s %s: %s", verb(e.Writes), e.Start, e.End-1, e.Memory, by, e.First, missing)
}

func verb(writes bool) string {
	if writes {
		return "writes"
	}
	return "reads"
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
