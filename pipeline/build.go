package pipeline

import (
	"fmt"
	"runtime"

	"gotrain/configs"
	"gotrain/cpu"
	"gotrain/graph"
	"gotrain/network"
	"gotrain/readers"
)

// precisions are the types of activations by the configuration's names.
var precisions = map[string]graph.DType{"float32": graph.Float32, "bfloat16": graph.BFloat16}

// spec describes the network for a data set.
func spec(cfg *configs.Config, ds readers.Dataset) (network.Spec, error) {
	precision, ok := precisions[cfg.Precision]
	if !ok {
		return network.Spec{}, usage("precision: %s is for device: cuda: set precision to float32 or bfloat16", cfg.Precision)
	}
	c, h, w := ds.Shape()
	return network.Spec{Config: cfg.Network, Channels: c, Height: h, Width: w, Classes: len(ds.Classes()), Precision: precision}, nil
}

// source compiles plans of a network.
func source(s network.Spec, cfg *configs.Config) graph.Source {
	return func(samples int, inference bool) (*graph.Plan, error) {
		return s.Compile(samples, graph.Options{Inference: inference, BucketBytes: cfg.Distributed.BucketSize})
	}
}

// check refuses what this build cannot do.
func checkDevice(cfg *configs.Config) error {
	if cfg.Device != "auto" && cfg.Device != "cpu" {
		return usage("device: %s is not in this build: set device to cpu", cfg.Device)
	}
	if cfg.Distributed.Workers != 1 {
		return usage("distributed.workers: %d: this build trains with one worker: set distributed.workers to 1", cfg.Distributed.Workers)
	}
	if cfg.Network.Init != "" {
		return usage("network.init: %s: this build always starts from He initialization: remove the key", cfg.Network.Init)
	}
	return nil
}

// threads are the CPU threads of a worker.
func threads(cfg *configs.Config) int {
	if cfg.Threads > 0 {
		return cfg.Threads
	}
	return max(1, runtime.NumCPU()/cfg.Distributed.Workers)
}

// executor makes what runs the network on the configured device.
func executor(s network.Spec, cfg *configs.Config, threads int) (graph.Executor, error) {
	e, err := cpu.New(source(s, cfg), cpu.Options{Threads: threads, Batch: cfg.Learner.MinibatchSize})
	if err != nil {
		return nil, fmt.Errorf("preparing the network: %w", err)
	}
	return e, nil
}

// Plan compiles the plan of a training step, or of inference, of a configuration whose data is there.
func Plan(cfg *configs.Config, inference bool) (*graph.Plan, error) {
	ds, err := readers.Open(cfg.Reader, readers.Train)
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	s, err := spec(cfg, ds)
	if err != nil {
		return nil, err
	}
	return source(s, cfg)(min(cfg.Learner.MinibatchSize, ds.Len()), inference)
}
