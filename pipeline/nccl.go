package pipeline

import (
	"bytes"
	"errors"
	"fmt"

	"gotrain/configs"
	"gotrain/cuda"
	"gotrain/cuda/driver"
	"gotrain/cuda/nccl"
	"gotrain/distributed/group"
)

// ncclName is what a version of it begins with.
const ncclName = "NCCL "

// joinNCCL lets NCCL exchange the gradients of several processes' GPUs, where the configuration wants or allows it and it can. MPI, which
// brings the processes together, stays for everything between steps.
func (r *run) joinNCCL() error {
	transport, origin := r.cfg.Distributed.Transport, r.cfg.Origin("distributed.transport")
	if r.team.job == nil || r.team.workers == 1 || transport == "mpi" {
		return nil
	}
	library, why, err := r.openNCCL()
	switch {
	case err != nil:
		return err
	case why != nil && transport == "nccl":
		return r.team.followed(usage("%s: distributed.transport: nccl: %v", origin, why))
	case why != nil:
		if r.device.gpus != nil && !r.device.gpus.Emulated() {
			r.say.printf("distributed.transport: auto: gradients go through the hosts' memory and MPI, not by NCCL: %v", why)
		}
		return nil
	}
	var id []byte
	if err := r.team.agree(&id, func() (err error) {
		id, err = library.NewID()
		return err
	}); err != nil {
		return err
	}
	m, device := r.team.members[0], r.workers[0].exec.(*cuda.Executor).Device()
	if err := r.team.together(func() (err error) {
		r.team.link, err = library.Join(device, m.Rank(), m.Size(), id, r.team.timeout)
		return err
	}); err != nil {
		return fmt.Errorf("%s: distributed.transport: %s: %w; write mpi to go on without NCCL", origin, transport, err)
	}
	r.team.nccl = library.String()
	return nil
}

// openNCCL loads NCCL, or says why the processes cannot use it; all come to the same. err is of the processes' talk.
func (r *run) openNCCL() (l *nccl.Library, why, err error) {
	if why := whyNotNCCL(r.cfg, r.device.gpus, len(r.team.members)); why != nil {
		return nil, why, nil
	}
	why = r.team.together(func() (err error) {
		l, err = nccl.Open()
		return err
	})
	if why != nil && !Told(why) {
		return nil, nil, why
	}
	if why == nil {
		why, err = r.sharedGPU()
	}
	return l, why, err
}

// whyNotNCCL says what of a process keeps it from NCCL, as it does all others.
func whyNotNCCL(cfg *configs.Config, gpus driver.Driver, members int) error {
	d := cfg.Distributed
	switch {
	case gpus == nil:
		return errors.New("NCCL runs between GPUs, and there is none that can be used: device: cuda says why; or write auto or mpi")
	case gpus.Emulated():
		return errors.New("NCCL runs between GPUs, and these are emulated: write auto or mpi")
	case members > 1:
		return fmt.Errorf("with NCCL each worker has a process and a GPU of its own, and mpiexec has started %d processes for %d workers: start it as mpiexec -n %d gotrain ..., or write auto or mpi",
			d.Workers/members, d.Workers, d.Workers)
	case d.DoubleBuffering:
		return errors.New("with distributed.doubleBuffering gradients go through the host's memory: set it to false, or write auto or mpi")
	case !aggregates(cfg):
		return errors.New("with distributed.blockMomentum models go through the host's memory: set blockSize to 0, or write auto or mpi")
	}
	return nil
}

// sharedGPU says which workers have one GPU together, which NCCL refuses; why is nil where each has its own.
func (r *run) sharedGPU() (why, err error) {
	m := r.team.members[0]
	own := make([]byte, 64)
	copy(own, r.workers[0].exec.(*cuda.Executor).Device().Info().UUID)
	all := rows(m.Size(), len(own))
	if err := group.AllGather(m, r.team.control(), own, all); err != nil {
		return nil, err
	}
	for b := range all {
		for a := range b {
			if bytes.Equal(all[a], all[b]) {
				return fmt.Errorf("with NCCL each worker has a GPU of its own, and workers %d and %d share one: start no more processes on a host than it has GPUs, or write auto or mpi", a, b), nil
			}
		}
	}
	return nil, nil
}

// outside tells the job of a step whose gradients do not go by MPI. finished takes the step's error, and returns one that names who
// is missing, where NCCL fails or waits too long because somebody is: it cannot tell who.
func (t *team) outside() (finished func(error) error) {
	if t.link == nil {
		return func(err error) error { return err }
	}
	end := t.job.Outside(t.step)
	return func(err error) error {
		defer end()
		var failed *nccl.Error
		if !errors.As(err, new(*nccl.TimeoutError)) && !errors.As(err, &failed) {
			return err
		}
		var cause error
		if failed != nil {
			cause = failed
		}
		if lost := t.job.Lost(cause); lost != nil {
			return lost
		}
		return err
	}
}
