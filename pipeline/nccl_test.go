package pipeline

import (
	"testing"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator"
)

// posing is an emulator that says it is none.
type posing struct{ driver.Driver }

func (posing) Emulated() bool { return false }

func TestNCCLIsRefusedWhereItCannotBe(t *testing.T) {
	emulated := emulator.New(emulator.Options{})
	gpus := posing{emulated}
	for _, c := range []struct {
		name    string
		gpus    driver.Driver
		members int
		more    []string
		want    string // "": it can be
	}{
		{"a worker a process", gpus, 1, nil, ""},
		{"no GPU", nil, 1, nil, "NCCL runs between GPUs, and there is none that can be used: device: cuda says why; or write auto or mpi"},
		{"emulated GPUs", emulated, 1, nil, "NCCL runs between GPUs, and these are emulated: write auto or mpi"},
		{"several workers a process", gpus, 2, nil,
			"with NCCL each worker has a process and a GPU of its own, and mpiexec has started 2 processes for 4 workers: start it as mpiexec -n 4 gotrain ..., or write auto or mpi"},
		{"double buffering", gpus, 1, []string{"distributed.doubleBuffering=true"},
			"with distributed.doubleBuffering gradients go through the host's memory: set it to false, or write auto or mpi"},
		{"block momentum", gpus, 1, []string{"distributed.blockMomentum.blockSize=1000"},
			"with distributed.blockMomentum models go through the host's memory: set blockSize to 0, or write auto or mpi"},
	} {
		err := whyNotNCCL(small(t, t.TempDir(), append(c.more, "distributed.workers=4")...), c.gpus, c.members)
		if c.want != "" {
			demand(t, c.name, err, c.want)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestNCCLWithoutMpiexecIsRefused(t *testing.T) {
	const arg = "distributed.transport=nccl"
	_, err := try(small(t, t.TempDir(), arg, "device=auto", "distributed.workers=2"), nil)
	demand(t, arg, err, "argument distributed.transport=nccl: distributed.transport: nccl: mpiexec has not started this process: start it as mpiexec -n 2 gotrain ..., or write auto")
}
