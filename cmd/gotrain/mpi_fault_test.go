package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestALostWorkerEndsTheJobWhichContinues kills and stops processes in the middle of an epoch. The first that is left tells of
// it; where the machine has too much to do, another one may be faster.
func TestALostWorkerEndsTheJobWhichContinues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, c := range []struct {
		name      string
		processes int
		rank      int
		signal    syscall.Signal
		timeout   time.Duration
		says      string
	}{
		{"killed", 4, 2, syscall.SIGKILL, 60 * time.Second,
			`worker 0 has waited [0-9.]+s in step [0-9]+, bucket [0-9]+, (sending gradients|receiving aggregates), for worker 2 \(host %s\), which does not answer; the same command continues the run from its last checkpoint`},
		{"killed, the first", 4, 0, syscall.SIGKILL, 60 * time.Second,
			`worker 1 has waited [0-9.]+s in step [0-9]+, bucket [0-9]+, (sending gradients|receiving aggregates), for worker 0 \(host %s\), which does not answer; the same command continues the run from its last checkpoint`},
		{"stopped", 4, 2, syscall.SIGSTOP, 3 * time.Second,
			`worker [01] waited 3(\.[0-9])?s in step [0-9]+, bucket [0-9]+, (sending gradients|receiving aggregates), for worker 2 \(host %s\), which is dead, stopped, cut off or too slow; the same command continues the run from its last checkpoint; raise distributed.timeout \(3s\) where an exchange may take longer`},
		{"stopped, with two workers", 2, 1, syscall.SIGSTOP, 3 * time.Second,
			`worker [01] waited 3(\.[0-9])?s in step [0-9]+, bucket [0-9]+, (sending gradients|receiving aggregates), for workers 2 \(host %s\) and 3 \(host %[1]s\), which are dead, stopped, cut off or too slow; the same command continues the run from its last checkpoint; raise distributed.timeout \(3s\) where an exchange may take longer`},
		{"stopped, the first", 4, 0, syscall.SIGSTOP, 3 * time.Second,
			`worker 1 waited 3(\.[0-9])?s in step [0-9]+, bucket [0-9]+, (sending gradients|receiving aggregates), for worker 0 \(host %s\), which is dead, stopped, cut off or too slow; the same command continues the run from its last checkpoint; raise distributed.timeout \(3s\) where an exchange may take longer`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, args := t.TempDir(), shared("distributed.timeout="+c.timeout.String(), "checkpoint.everyMinibatches=10")
			j := mpiexec(t, dir, c.processes, args...)
			e := j.run(t, 23, func() { syscall.Kill(j.process(t, c.rank), c.signal) })
			t.Logf("ended after %v", e.took)
			host, _ := os.Hostname()
			e.lost(t, c.timeout, fmt.Sprintf(c.says, host))
			continued(t, dir, c.processes, args)
		})
	}
}

// lost checks how a job ends that has lost a worker: in time, with one message, and with no process left.
func (e ended) lost(t *testing.T, timeout time.Duration, says string) {
	t.Helper()
	if e.status == 0 || e.took > timeout+5*time.Second || len(e.left) > 0 {
		t.Errorf("exit status %d after %v, processes left: %v", e.status, e.took, e.left)
	}
	e.says(t, says)
}

// says checks that the processes together say one thing, a pattern, and nothing else.
func (e ended) says(t *testing.T, pattern string) {
	t.Helper()
	said := regexp.MustCompile(`(?m)^gotrain: .*`).FindAllString(e.log, -1)
	if len(said) != 1 || !regexp.MustCompile(`^gotrain: `+pattern+`$`).MatchString(said[0]) {
		t.Errorf("says\n%s\nwant\ngotrain: %s\nall of it was\n%s", strings.Join(said, "\n"), pattern, e.log)
	}
}

// TestASignalStopsAllProcessesAtOneStep sends signals to mpiexec, which passes them on, and to one process of it.
func TestASignalStopsAllProcessesAtOneStep(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	const stopped = `Stopped behind epoch [123], minibatch [0-9]+: the same command continues from there`
	for _, c := range []struct {
		name      string
		processes int
		rank      int // -1: mpiexec
		signal    syscall.Signal
		more      string
	}{
		{"SIGUSR1 to mpiexec", 4, -1, syscall.SIGUSR1, ""},
		{"SIGUSR1 to the first", 4, 0, syscall.SIGUSR1, ""},
		{"SIGUSR1 to another", 4, 3, syscall.SIGUSR1, ""},
		{"SIGUSR1 to one with two workers", 2, 1, syscall.SIGUSR1, ""},
		{"SIGUSR1 to another, with block momentum", 4, 1, syscall.SIGUSR1, "distributed.blockMomentum.blockSize=64"},
		{"SIGTERM to mpiexec", 4, -1, syscall.SIGTERM, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, args := t.TempDir(), shared()
			if c.more != "" {
				args = append(args, "distributed.bits=32", c.more)
			}
			if c.signal == syscall.SIGTERM { // which mpiexec passes on a second later
				args = append(args, "learner.maxEpochs=30")
			}
			j := mpiexec(t, dir, c.processes, args...)
			e := j.run(t, 25, func() {
				pid := j.Process.Pid
				if c.rank >= 0 {
					pid = j.process(t, c.rank)
				}
				syscall.Kill(pid, c.signal)
			})
			t.Logf("ended after %v", e.took)
			if e.status == 0 || e.took > 10*time.Second || len(e.left) > 0 {
				t.Errorf("exit status %d after %v, processes left: %v", e.status, e.took, e.left)
			}
			if c.signal == syscall.SIGUSR1 { // after a SIGTERM, mpiexec gives them a second only
				e.says(t, "interrupted")
				if n := len(regexp.MustCompile(`(?m)^`+stopped+`$`).FindAllString(e.log, -1)); n != 1 {
					t.Errorf("says %d times where it has stopped:\n%s", n, e.log)
				}
				contains(t, "the record", read(t, filepath.Join(runDir(t, dir), "run.json")), `"interrupted"`)
				continued(t, dir, c.processes, args)
				return
			}
			j = mpiexec(t, dir, c.processes, args...)
			if e = j.run(t, 3, func() { syscall.Kill(j.Process.Pid, syscall.SIGUSR1) }); !continues.MatchString(e.log) {
				t.Errorf("the run does not say from where it continues:\n%s", e.log)
			}
		})
	}
}
