package pipeline

import (
	"errors"
	"fmt"

	"gotrain/configs"
	"gotrain/cpu"
	"gotrain/cuda"
	"gotrain/cuda/driver"
	"gotrain/cuda/emulator"
	"gotrain/distributed"
	"gotrain/graph"
	"gotrain/internal/cores"
	"gotrain/readers"
)

// device is what a run computes on: the CPU, or GPUs, real or emulated.
type device struct {
	gpus  driver.Driver // nil: the CPU
	first int           // of the GPUs, that this process' first worker takes
	note  string        // what the user is to know of it; may be empty

	provider cuda.Provider // computes convolutions too; nil: gotrain's kernels alone do
	chosen   *cuda.Choices // which ones; nil: all
}

// chooseDevice opens the device of a configuration, for so many workers of this process, of which the first is worker number
// before on its host.
func chooseDevice(cfg *configs.Config, workers, before int) (d device, err error) {
	switch cfg.Device {
	case "cpu":
		return device{}, nil
	case "emulator":
		return device{gpus: emulator.New(emulator.Options{Devices: workers, Workers: cores.Usable()}),
			note: "device: emulator: there is no GPU in this: the CPU executes the GPU's kernels and checks every access, hundreds of times slower than device: cpu"}, nil
	}
	gpus, err := driver.Open()
	switch {
	case err == nil:
		d = device{gpus: gpus, first: before}
		return d, d.openProvider(cfg)
	case cfg.Device == "cuda":
		return d, usage("%s: device: cuda: %w", cfg.Origin("device"), err)
	case cfg.Precision == "tf32":
		return d, usage("%s: precision: tf32: is a format of GPUs, and this machine has none that can be used: %w", cfg.Origin("precision"), err)
	case cfg.Network.Convolution == "cudnn":
		return d, usage("%s: network.convolution: cudnn: runs on GPUs, and this machine has none that can be used: %w, and network.convolution: auto", cfg.Origin("network.convolution"), err)
	}
	if u := (*driver.Unavailable)(nil); errors.As(err, &u) && u.Reason == driver.NoLibrary {
		return device{note: "device: auto: the CPU, for there is no NVIDIA driver"}, nil
	}
	return device{note: fmt.Sprintf("device: auto: the CPU: %v", err)}, nil
}

// String names what computes: where it changes, so may the last bits of results.
func (d device) String() string {
	if d.gpus == nil {
		return cpu.Describe().String()
	}
	info, err := d.gpus.Info(d.first % d.gpus.Devices())
	if err != nil {
		return d.gpus.String()
	}
	text := info.Name
	if !d.gpus.Emulated() {
		text = fmt.Sprintf("%s (sm_%d%d), %s", info.Name, info.Major, info.Minor, d.gpus)
	}
	if d.provider != nil {
		text += ", " + d.provider.String()
	}
	return text
}

// executors makes what runs a network for so many workers, in batches of mostly so many samples. resident may be nil.
func (d device) executors(s graph.Source, cfg *configs.Config, workers, batch, threads int, resident *graph.Resident) (all []graph.Executor, err error) {
	if d.gpus != nil {
		o := cuda.Options{Workers: workers, Batch: batch, TF32: cfg.Precision == "tf32", Resident: resident, Provider: d.provider, Chosen: d.chosen}
		for i := range workers {
			o.Devices = append(o.Devices, (d.first+i)%d.gpus.Devices())
		}
		fleet, err := cuda.NewFleet(d.gpus, s, o)
		if err != nil {
			return nil, fmt.Errorf("preparing the network: %w", err)
		}
		for i := range workers {
			all = append(all, fleet.Executor(i))
		}
		return all, nil
	}
	for range workers {
		e, err := cpu.New(s, cpu.Options{Threads: threads, Batch: batch})
		if err != nil {
			for _, e := range all {
				e.Close()
			}
			return nil, fmt.Errorf("preparing the network: %w", err)
		}
		all = append(all, e)
	}
	return all, nil
}

// holds says whether a set can lie in the memory of GPUs, with room for training; nil where it cannot.
func (d device) holds(set interface {
	Resident() (*graph.Resident, bool)
}) *graph.Resident {
	if d.gpus == nil {
		return nil
	}
	r, ok := set.Resident()
	if !ok {
		return nil
	}
	for i := range d.gpus.Devices() {
		if info, err := d.gpus.Info(i); err != nil || int64(len(r.Pixels)) > info.Memory/4 {
			return nil
		}
	}
	return r
}

// aggregator is what exchanges a worker's gradients: package distributed's in host memory, or package cuda's on GPUs.
type aggregator interface {
	Step(step int64, bits int, stop bool) graph.Exchange
	Stop() bool
	Times() distributed.Times
	Bytes(bits int) int
	Residuals() (worker, owner []float32, owed bool, err error)
	SetResiduals(worker, owner []float32) error
}

// buffering is the worker's aggregator with double buffering, which only package distributed has.
func (w *worker) buffering() *distributed.Aggregator { return w.aggregator.(*distributed.Aggregator) }

// newAggregator makes a worker's aggregator. GPUs aggregate by themselves where all workers are in this process, or NCCL joins
// them; with double buffering, and by MPI, gradients go through the host's memory.
func (r *run) newAggregator(w *worker, s distributed.Settings) (aggregator, error) {
	if e, ok := w.exec.(*cuda.Executor); ok && (r.team.job == nil || r.team.link != nil) && !s.DoubleBuffering {
		var a *cuda.Aggregator
		var err error
		if r.team.link != nil {
			a, err = e.NewLinkedAggregator(s, r.team.link)
		} else {
			a, err = e.NewAggregator(s)
		}
		if err != nil { // and no pointer to nothing
			return nil, err
		}
		return a, nil
	}
	parameters, _ := w.exec.Layouts()
	return distributed.New(w.member, parameters, r.plan.Buckets, w.exec.Arena(graph.Gradients), s), nil
}

// Streams lists what GPUs do in a training step of a configuration whose data is there: for all workers, each on a device of its own.
// No GPU is needed for it.
func Streams(cfg *configs.Config) ([]cuda.Node, error) {
	ds, err := readers.Open(cfg.Reader, readers.Train)
	if err != nil {
		return nil, whereSet(cfg, located(cfg, err))
	}
	defer ds.Close()
	workers := cfg.Distributed.Workers
	d := device{gpus: emulator.New(emulator.Options{Devices: workers})}
	all, err := d.executors(source(spec(cfg, ds), cfg), cfg, workers, largestShare(minibatchSize(cfg, epochSize(cfg, ds)), workers), 1, d.holds(ds))
	if err != nil {
		return nil, err
	}
	bits := 0
	for _, e := range all {
		defer e.Close()
		if workers > 1 {
			s := settings(cfg, cfg.Distributed.BucketSize)
			if parameters, _ := e.Layouts(); s.BucketBytes == 0 { // a run measures which is best
				s.BucketBytes = eighth(parameters)
			}
			if _, err := e.(*cuda.Executor).NewAggregator(s); err != nil {
				return nil, err
			}
			bits = 32
			for _, s := range cfg.Distributed.Bits.Schedule {
				bits = min(bits, int(s.Value))
			}
		}
	}
	return all[0].(*cuda.Executor).Fleet().Describe(bits)
}
