package group_test

import (
	"testing"
	"time"

	. "gotrain/distributed/group"
)

func TestTheEnvironmentTellsOfAJob(t *testing.T) {
	for _, c := range []struct {
		env        map[string]string
		rank, size int
		ok         bool
	}{
		{nil, 0, 0, false},
		{map[string]string{"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}, 3, 4, true},
		{map[string]string{"PMI_RANK": "0", "PMI_SIZE": "2"}, 0, 2, true},
		{map[string]string{"PMIX_RANK": "1", "SLURM_STEP_NUM_TASKS": "8"}, 1, 8, true},
		{map[string]string{"PMIX_RANK": "1"}, 1, 0, true},
		{map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, 0, 0, false}, // a batch script's own shell
	} {
		rank, size, ok := LaunchedBy(func(name string) string { return c.env[name] })
		if rank != c.rank || size != c.size || ok != c.ok {
			t.Errorf("%v: %d, %d, %v", c.env, rank, size, ok)
		}
	}
}

func TestABinaryWithoutMPIRefusesToJoin(t *testing.T) {
	if Built {
		t.Skip("built with MPI")
	}
	const remedy = ": install MPI with its headers (apt-get install openmpi-bin libopenmpi-dev), and build again (make build)"
	for _, c := range []struct{ variable, want string }{
		{"GOTRAIN_NOTHING", "this binary is built without MPI" + remedy},
		{"PMI_RANK", "this binary is built without MPI, and mpiexec has started it" + remedy},
	} {
		t.Setenv(c.variable, "0")
		if _, err := Join(4, time.Second); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if Version() != "" {
		t.Errorf("version %q", Version())
	}
}
