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
	Second, First string // who: the one that was stopped, and the one executed before it
	Writes, Wrote bool   // whether the second writes, and whether the first wrote
	Between       Between
}

// Between is what the two of a Conflict are.
type Between uint8

// Two operations, two blocks of a launch, or two warps of a block.
const (
	Operations Between = iota
	Blocks
	Warps
)

func (e *Conflict) Error() string { return e.Second + " " + e.what() }

func (e *Conflict) what() string {
	by := "read by"
	if e.Wrote {
		by = "written by"
	}
	missing := [...]string{"no stream, event or graph orders the two", "no fence with an atomic orders the blocks", "no barrier orders the warps"}
	return fmt.Sprintf("%s bytes %d to %d of %s, %s %s: %s", verb(e.Writes), e.Start, e.End-1, e.Memory, by, e.First, missing[e.Between])
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
