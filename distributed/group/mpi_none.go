//go:build !mpi

package group

import (
	"errors"
	"time"
)

// Built tells whether MPI is built into this binary.
const Built = false

// Version is what the MPI in this binary says of itself, "" without.
func Version() string { return "" }

func join(int, time.Duration) (*Job, error) { return nil, errors.ErrUnsupported }
