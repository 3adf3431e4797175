package group

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Job is this process' place in an MPI job, which mpiexec or the like has started. A process holds as many workers as each
// other one, with consecutive ranks.
type Job struct {
	hub                 *hub
	rank, size          int
	hosts, onHost, here int
	link                link
	closed              bool
	outside             atomic.Pointer[outside] // nil: there is none
}

// link is what a Job does with MPI beside exchanges.
type link interface {
	finalize(limit time.Duration) error
	abort() // does not return where all is well: MPI ends the process
}

// Launched tells whether this process was started as one of an MPI job, as which one and of how many, from what mpiexec, or
// srun, puts into the environment. It needs no MPI. A size of 0 is one that the environment does not tell.
func Launched() (rank, size int, ok bool) { return launched(os.Getenv) }

// The variables that tell a process its rank and the number of processes: Open MPI's; those of MPICH, Intel MPI and srun with
// PMI; those of PMIx, which has none for the size, where srun has.
var variables = []struct{ rank, size string }{
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"PMI_RANK", "PMI_SIZE"},
	{"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
}

func launched(getenv func(string) string) (rank, size int, ok bool) {
	for _, v := range variables {
		rank, err := strconv.Atoi(getenv(v.rank))
		if err != nil {
			continue
		}
		size, err := strconv.Atoi(getenv(v.size))
		if err != nil {
			size = 0
		}
		return rank, size, true
	}
	return 0, 0, false
}

// Join makes this process one of an MPI job, whose members are the workers. All processes call it, each once. An exchange that
// waits for longer than timeout fails.
//
// MPI is given a thread of its own, which alone calls it: Join may be called from any goroutine.
func Join(workers int, timeout time.Duration) (*Job, error) {
	if !Built {
		is := "this binary is built without MPI"
		if _, _, ok := Launched(); ok {
			is += ", and mpiexec has started it"
		}
		return nil, errors.New(is + ": install MPI with its headers (apt-get install openmpi-bin libopenmpi-dev), and build again (make build)")
	}
	// Refuse before MPI is started, if the number of processes is known: a process that has started it may not just leave.
	if _, size, ok := Launched(); ok && size > 0 {
		if err := divides(workers, size); err != nil {
			return nil, err
		}
	}
	j, err := join(workers, timeout)
	if err != nil {
		return nil, fmt.Errorf("joining the MPI job: %w", err)
	}
	if err := divides(workers, j.size); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// divides says why the workers cannot be shared by the processes.
func divides(workers, processes int) error {
	if workers%processes == 0 {
		return nil
	}
	var good []string
	for n := 1; n <= workers; n++ {
		if workers%n == 0 {
			good = append(good, strconv.Itoa(n))
		}
	}
	choice := good[len(good)-1]
	if len(good) > 1 {
		choice = strings.Join(good[:len(good)-1], ", ") + " or " + choice
	}
	return fmt.Errorf("%d workers cannot be shared evenly by the %d processes that mpiexec has started: start %s of them, "+
		"or set distributed.workers to a multiple of %d", workers, processes, choice, processes)
}

// Members returns the workers of this process.
func (j *Job) Members() []Member { return j.hub.members() }

// Rank is the number of this process, from 0.
func (j *Job) Rank() int { return j.rank }

// Hosts is the number of hosts that the processes run on.
func (j *Job) Hosts() int { return j.hosts }

// LocalSize is the number of processes on this host.
func (j *Job) LocalSize() int { return j.onHost }

// LocalRank is the number of this process among those on this host, from 0.
func (j *Job) LocalRank() int { return j.here }

// Waiting says which workers this process waits for, in which step and bucket, where they do not answer. It takes a moment,
// and is meant for a process that is told to end, which mpiexec does when another one dies. Of several processes that wait,
// the first alone has something to say; none has after a failure, which has been told.
func (j *Job) Waiting() (string, bool) {
	j.hub.remote.call()
	time.Sleep(grace)
	e, ok := j.hub.waiting(j.hub.absent)
	if !ok {
		e = j.lostOutside(nil)
		ok = e != nil
	}
	if !ok || !j.First() || j.hub.failed() != nil {
		return "", false
	}
	return e.waiting(), true
}

// First says whether this process is the first of those that have answered when somebody was missed: the one to tell of it.
func (j *Job) First() bool {
	for p := range j.rank {
		if j.hub.remote.present(p) {
			return false
		}
	}
	return true
}

// Close leaves the job after success; all processes call it, and it waits for them. Exchanges fail from now on.
func (j *Job) Close() error {
	if e, ok := j.hub.waiting(func(workers []int) []int { return workers }); ok {
		return fmt.Errorf("leaving the MPI job while an exchange is under way: worker %d, %v", e.Rank, e.Tag)
	}
	if cause := j.hub.failed(); cause != nil {
		return fmt.Errorf("leaving the MPI job after a failure: %w", cause)
	}
	j.hub.fail(errors.New("the MPI job is over"))
	if err := j.link.finalize(max(j.hub.timeout, 10*time.Second)); err != nil {
		return fmt.Errorf("leaving the MPI job: %w", err)
	}
	return nil
}

// Fail ends all processes of the job, this one too, with exit status 1, as far as MPI can; it does not return. Before it does,
// it calls tell. Where a worker is lost, several processes fail, and only the first of them tells, for that ends the others;
// they tell if it does not.
func (j *Job) Fail(cause error, tell func()) {
	j.hub.fail(cause)
	superviseEnd()
	if errors.As(cause, new(*LostError)) && !j.First() {
		time.Sleep(2 * time.Second)
	}
	tell()
	time.AfterFunc(2*time.Second, func() { os.Exit(1) }) // MPI hangs
	j.link.abort()
	os.Exit(1)
}
