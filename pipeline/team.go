package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"gotrain/configs"
	"gotrain/cuda/nccl"
	"gotrain/distributed"
	"gotrain/distributed/group"
	"gotrain/internal/cores"
)

// team is the workers of this process, and their way to those of other processes.
type team struct {
	job     *group.Job     // nil: there is one process
	members []group.Member // the workers of this process, in order
	workers int            // of all processes
	timeout time.Duration  // of an exchange
	step    int64          // for messages
	link    *nccl.Member   // of the one worker of this process to those of the others; nil: not by NCCL
	nccl    string         // its version
}

// localWorkers is the most workers of one process alone: what they exchange through grows with their square.
const localWorkers = 512

// joinTeam brings the configuration's workers together: those of this process alone, or under mpiexec those of all.
func joinTeam(cfg *configs.Config) (*team, error) {
	d := cfg.Distributed
	_, processes, launched := group.Launched()
	switch {
	case (d.Transport == "mpi" || d.Transport == "nccl") && !launched:
		return nil, usage("%s: distributed.transport: %s: mpiexec has not started this process: start it as mpiexec -n %d gotrain ..., or write auto",
			cfg.Origin("distributed.transport"), d.Transport, d.Workers)
	case d.Transport == "local" && launched && processes > 1:
		return nil, usage("%s: distributed.transport: local: mpiexec has started %d processes, and local workers are in one: write auto, or start it without mpiexec",
			cfg.Origin("distributed.transport"), processes)
	case (!launched || d.Transport == "local") && d.Workers > localWorkers:
		return nil, usage("%s: distributed.workers: %d: one process can have %d: start several under mpiexec, or write fewer",
			cfg.Origin("distributed.workers"), d.Workers, localWorkers)
	case !launched || d.Transport == "local":
		return &team{members: group.Local(d.Workers, d.Timeout), workers: d.Workers, timeout: d.Timeout}, nil
	}
	job, err := group.Join(d.Workers, d.Timeout)
	if err != nil {
		return nil, &UsageError{err}
	}
	return &team{job: job, members: job.Members(), workers: d.Workers, timeout: d.Timeout}, nil
}

// tellWaiting says which workers this process waits for when it is told to end in the middle of an exchange: where mpiexec
// ends it because another process has died, that names the one.
func (t *team) tellWaiting(ctx context.Context, w io.Writer) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if t.job == nil || !errors.Is(context.Cause(ctx), ErrTerminated) {
			return
		}
		time.Sleep(200 * time.Millisecond) // an exchange that runs as it should is over by then
		if waiting, ok := t.job.Waiting(); ok {
			fmt.Fprintln(w, "gotrain:", waiting)
		}
	})
}

// leads says whether this process has the first worker: it writes the run's folder and speaks for all.
func (t *team) leads() bool { return t.members[0].Rank() == 0 }

// host is the number of workers on this host.
func (t *team) host() int {
	if t.job == nil {
		return t.workers
	}
	return len(t.members) * t.job.LocalSize()
}

// before is the number of workers on this host that are in processes before this one.
func (t *team) before() int {
	if t.job == nil {
		return 0
	}
	return len(t.members) * t.job.LocalRank()
}

// hosts is the number of hosts.
func (t *team) hosts() int {
	if t.job == nil {
		return 1
	}
	return t.job.Hosts()
}

func (t *team) String() string {
	if t.nccl != "" {
		return t.places() + ", " + t.nccl
	}
	return t.places()
}

// places says where the workers are.
func (t *team) places() string {
	switch {
	case t.workers == 1:
		return "1 worker"
	case t.job == nil:
		return fmt.Sprintf("%d workers in this process", t.workers)
	case t.host()*t.hosts() != t.workers:
		return fmt.Sprintf("%d workers on %d hosts, %s", t.workers, t.hosts(), group.Version())
	}
	if t.hosts() == 1 {
		return fmt.Sprintf("%d workers on this host, %s", t.workers, group.Version())
	}
	return fmt.Sprintf("%d workers, %d on each of %d hosts, %s", t.workers, t.host(), t.hosts(), group.Version())
}

// each runs f for every worker of this process at the same time. When one fails, the exchanges of the others fail too, unless
// all workers of all processes come to the same.
func (t *team) each(f func(i int, m group.Member) error) error {
	if len(t.members) == 1 {
		return f(0, t.members[0])
	}
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for i, m := range t.members {
		wg.Go(func() {
			if err := f(i, m); err != nil {
				once.Do(func() { first = err })
				if !errors.As(err, new(*distributed.NotFiniteError)) {
					m.Abort(err)
				}
			}
		})
	}
	wg.Wait()
	return first
}

// control is the tag of exchanges between steps.
func (t *team) control() group.Tag { return group.Tag{Phase: group.Control, Step: t.step} }

// close leaves the team after all has gone well.
func (t *team) close() error {
	if t.job == nil {
		return nil
	}
	return t.job.Close()
}

// fail says why, and where that is to be mended, and ends all processes, this one too.
func (t *team) fail(w io.Writer, err error) {
	where := ""
	if !errors.As(err, new(*group.LostError)) && !errors.As(err, new(*DivergedError)) {
		host, e := os.Hostname()
		if e != nil {
			host = "an unknown host"
		}
		where = fmt.Sprintf("worker %d on %s: ", t.members[0].Rank(), host)
	}
	t.job.Fail(err, func() { fmt.Fprintf(w, "gotrain: %s%v\n", where, err) })
}

// threads are the CPU threads of each worker, as many on all hosts: those that the host with the fewest cores for its workers
// has for one.
func (t *team) threads(cfg *configs.Config) (int, error) { return t.least(threadsFor(cfg, t.host())) }

// threadsFor are the CPU threads of a worker, of which so many share this host.
func threadsFor(cfg *configs.Config, workers int) int {
	if cfg.Threads > 0 {
		return cfg.Threads
	}
	return max(1, cores.Usable()/workers)
}
