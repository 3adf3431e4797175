package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotrain/distributed/group/grouptest"
)

// shared is the short training by four workers, at 1 bit unless more says otherwise.
func shared(more ...string) []string {
	return append(slices.Concat(short, []string{"threads=1", "distributed.workers=4", "distributed.bits=1"}), more...)
}

// job is a job of mpiexec that trains in dir.
type job struct {
	*exec.Cmd
	token string // in the environment of its processes
}

// mpiexec makes a job of so many processes with the same arguments. An entry ":" in args begins those of more processes, as
// mpiexec has it: options of mpiexec, the program, arguments.
func mpiexec(t *testing.T, dir string, processes int, args ...string) job {
	t.Helper()
	grouptest.Skip(t)
	j := job{exec.Command("mpiexec"), fmt.Sprintf("JOB=%d-%d", os.Getpid(), time.Now().UnixNano())}
	j.Args = slices.Concat(j.Args, grouptest.Arguments(), []string{"-n", strconv.Itoa(processes), binary}, args)
	j.Dir, j.Env = dir, append(environment(), j.token)
	return j
}

// process finds the number of one of the job's processes.
func (j job) process(t *testing.T, rank int) int {
	t.Helper()
	for _, pid := range grouptest.Running(j.token) {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && strings.Contains(string(environ), fmt.Sprintf("\x00OMPI_COMM_WORLD_RANK=%d\x00", rank)) {
			return pid
		}
	}
	t.Errorf("no process of rank %d", rank)
	return 0
}

// ended is what a job has left.
type ended struct {
	result
	took time.Duration // since what was done to it
	left []int         // processes that run a second after mpiexec has ended
}

// run runs the job to its end, and does something to it when so many minibatches have been trained, if it is not nil.
func (j job) run(t *testing.T, minibatches int, do func()) ended {
	t.Helper()
	const limit = 90 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var out, log strings.Builder
	j.Stdout = &out
	pipe, err := j.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	if err := j.Start(); err != nil {
		t.Fatal(err)
	}
	defer context.AfterFunc(ctx, func() {
		t.Errorf("the job has not ended within %v", limit)
		for _, pid := range grouptest.Running(j.token) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})()
	for lines, seen := bufio.NewScanner(pipe), 0; lines.Scan(); {
		fmt.Fprintln(&log, lines.Text())
		if strings.Contains(lines.Text(), "]-Minibatch[") {
			if seen++; seen == minibatches && do != nil {
				since = time.Now()
				do()
			}
		}
	}
	j.Wait()
	e := ended{result: result{out.String(), log.String(), j.ProcessState.ExitCode()}, took: time.Since(since)}
	for range 20 {
		if e.left = grouptest.Running(j.token); len(e.left) == 0 {
			return e
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, pid := range e.left {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return e
}

// alone trains with all workers in one process, once for each arguments, and returns the model.
func alone(t *testing.T, args []string) []byte {
	t.Helper()
	key := strings.Join(args, " ")
	models.Lock()
	defer models.Unlock()
	if models.of[key] == nil {
		dir := t.TempDir()
		gotrain(t, dir, args...).want(t, 0)
		models.of[key] = model(t, dir)
	}
	return models.of[key]
}

var models = struct {
	sync.Mutex
	of map[string][]byte
}{of: map[string][]byte{}}

// continued runs the same command again, and compares the model with that of an undisturbed training.
func continued(t *testing.T, dir string, processes int, args []string) {
	t.Helper()
	e := mpiexec(t, dir, processes, args...).run(t, 0, nil)
	e.want(t, 0)
	if !continues.MatchString(e.log) {
		t.Errorf("the run does not say from where it continues:\n%s", e.log)
	}
	if string(model(t, dir)) != string(alone(t, args)) {
		t.Error("model.safetensors differs from an undisturbed run's")
	}
}

func TestProcessesAndWorkersInThemTrainTheSameModel(t *testing.T) {
	for _, more := range [][]string{
		{"distributed.bits=32"},
		{"distributed.bits=1"},
		{"distributed.bits=4", "distributed.doubleBuffering=true"},
		{"distributed.bits=1*1:32"},
		{"distributed.bits=1", "distributed.warmStart.samples=100", "distributed.warmStart.mode=single"},
		{"distributed.bits=1", "network.batchNorm.sync=true"},
		{"distributed.bits=32", "distributed.blockMomentum.blockSize=64"},
	} {
		t.Run(strings.Join(more, " "), func(t *testing.T) {
			args := shared(append(more, "learner.epochSize=320", "learner.maxEpochs=2", "checkpoint.everyMinibatches=0")...)
			for _, processes := range []int{4, 2, 1} {
				dir := t.TempDir()
				mpiexec(t, dir, processes, args...).run(t, 0, nil).want(t, 0)
				if string(model(t, dir)) != string(alone(t, args)) {
					t.Errorf("%d processes train another model than one with 4 workers", processes)
				}
			}
		})
	}
}
