package main

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"gotrain/distributed/group/grouptest"
)

// TestAHostThatIsCutOffEndsTheJobWhichContinues cuts links of virtual hosts in the middle of an epoch.
func TestAHostThatIsCutOffEndsTheJobWhichContinues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 seconds")
	}
	for _, c := range []struct {
		name string
		host int
		says string
	}{
		{"the third host", 2, `worker 0 waited 3(\.[0-9])?s in step [0-9]+, bucket [0-9]+, (sending gradients|receiving aggregates), ` +
			`for worker 2 \(host \S+\), which is dead, stopped, cut off or too slow; the same command continues the run from its last checkpoint; raise distributed.timeout \(3s\) where an exchange may take longer`},
		// The launcher and the run's folder are there.
		{"the first host", 0, `worker [0-3] waited 3(\.[0-9])?s in step [0-9]+, bucket [0-9]+, (sending gradients|receiving aggregates), ` +
			`for .*, which (is|are) dead, stopped, cut off or too slow; the same command continues the run from its last checkpoint; raise distributed.timeout \(3s\) where an exchange may take longer`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, args := t.TempDir(), shared("distributed.timeout=3s", "checkpoint.everyMinibatches=10")
			network := grouptest.NewNetwork(t, 4, "")
			j := onNetwork(t, network, dir, args)
			e := j.run(t, 23, func() {
				if err := network.Cut(c.host); err != nil {
					t.Error(err)
				}
			})
			t.Logf("ended after %v", e.took)
			e.lost(t, 3*time.Second, c.says)
			continued(t, dir, 4, args)
		})
	}
}

// onNetwork is mpiexec with one process on each host.
func onNetwork(t *testing.T, n *grouptest.Network, dir string, args []string) job {
	t.Helper()
	j := mpiexec(t, dir, 1, args...)
	words := slices.Concat(n.Mpiexec(nil), []string{binary}, args)
	c := exec.Command(words[0], words[1:]...)
	c.Dir, c.Env = j.Dir, j.Env
	return job{c, j.token}
}
