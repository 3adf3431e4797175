package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gotrain/configs"
	"gotrain/graph"
	"gotrain/network"
	"gotrain/readers"
)

// precisions are the types of activations by the configuration's names.
var precisions = map[string]graph.DType{"float32": graph.Float32, "bfloat16": graph.BFloat16, "tf32": graph.Float32}

// openSets opens the training set and, where the configuration tests, the test set, which must be of the same kind. The
// error lists all that is wrong; what could be opened comes with it.
func openSets(cfg *configs.Config, options ...readers.Option) (train, test readers.Dataset, err error) {
	train, err = readers.Open(cfg.Reader, readers.Train, options...)
	err = located(cfg, err)
	if slices.Contains(cfg.Command, "test") {
		var e error
		test, e = readers.Open(cfg.Reader, readers.Test, options...)
		err = joinOnce(err, located(cfg, e)) // both halves may lie in what is missing
	}
	if err == nil && test != nil {
		err = sameKind(train, test)
	}
	return train, test, whereSet(cfg, err)
}

// joinOnce joins two errors of which lines may be the same.
func joinOnce(a, b error) error {
	if a == nil || b == nil {
		return errors.Join(a, b)
	}
	said := strings.Split(a.Error(), "\n")
	lines := slices.DeleteFunc(strings.Split(b.Error(), "\n"), func(line string) bool { return slices.Contains(said, line) })
	switch rest := strings.Join(lines, "\n"); rest {
	case "":
		return a
	case b.Error():
		return errors.Join(a, b)
	default:
		return errors.Join(a, errors.New(rest))
	}
}

// located adds to faults that the readers find in the configuration where it says so.
func located(cfg *configs.Config, err error) error {
	var faults configs.Errors
	if errors.As(err, &faults) {
		for _, f := range faults {
			if f.Pos == "" && f.Key != "" {
				f.Pos = cfg.Origin(f.Key)
			}
		}
	}
	return err
}

// whereSet adds to the error of data that is missing where its place comes from, which is not to be seen in a configuration
// that takes it from the environment.
func whereSet(cfg *configs.Config, err error) error {
	shipped := strings.HasPrefix(cfg.Origin("reader.path"), "shipped:") && cfg.Origin("vars.dataDir") != ""
	if err != nil && shipped && strings.HasPrefix(err.Error(), "reader.path: ") {
		return fmt.Errorf("%w: set reader.path, or GOTRAIN_DATA to the folder that it lies in", err)
	}
	return err
}

// sameKind compares what a network is built for.
func sameKind(train, test readers.Dataset) error {
	shape := func(ds readers.Dataset) string {
		c, h, w := ds.Shape()
		return fmt.Sprintf("%dx%dx%d", c, h, w)
	}
	if a, b := shape(train), shape(test); a != b {
		return fmt.Errorf("reader: samples of the training set have the shape %s, and those of the test set %s: give two sets of one kind, or scale both", a, b)
	}
	a, b := train.Classes(), test.Classes()
	if len(a) != len(b) {
		return fmt.Errorf("reader: the training set has %d classes, and the test set %d: give two sets of one kind", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			return fmt.Errorf("reader: class %d is %q in the training set, and %q in the test set: give two sets of one kind", i, a[i], b[i])
		}
	}
	return nil
}

// epochSize is the number of samples of an epoch.
func epochSize(cfg *configs.Config, train readers.Dataset) int {
	if cfg.Learner.EpochSize > 0 {
		return cfg.Learner.EpochSize
	}
	return train.Len()
}

// minibatchSize is the size of the largest minibatch of so many samples.
func minibatchSize(cfg *configs.Config, samples int) int {
	return min(learnerOf(cfg).MinibatchSize, samples)
}

// learnerOf is the learner for all workers together. Where the minibatch grows with the workers, rates for a minibatch grow
// with it, so that a sample counts as much (the linear scaling rule of Goyal et al., "Accurate, large minibatch SGD: training
// ImageNet in 1 hour", 2017); rates for a sample stay.
func learnerOf(cfg *configs.Config) configs.Learner {
	l := cfg.Learner
	if n := cfg.Distributed.Workers; cfg.Distributed.ScaleMinibatch {
		l.MinibatchSize *= n
		l.LearningRatesPerMB = slices.Clone(l.LearningRatesPerMB)
		for i := range l.LearningRatesPerMB {
			l.LearningRatesPerMB[i].Value *= float64(n)
		}
		l.LearningRateSchedule = slices.Clone(l.LearningRateSchedule)
		for i := range l.LearningRateSchedule {
			p := &l.LearningRateSchedule[i]
			p.From, p.To, p.Peak = p.From*float64(n), p.To*float64(n), p.Peak*float64(n)
		}
	}
	return l
}

// spec describes the network for a data set.
func spec(cfg *configs.Config, ds readers.Dataset) network.Spec {
	c, h, w := ds.Shape()
	return network.Spec{Config: cfg.Network, Channels: c, Height: h, Width: w, Classes: len(ds.Classes()), Precision: precisions[cfg.Precision]}
}

// source compiles plans of a network.
func source(s network.Spec, cfg *configs.Config) graph.Source {
	return func(samples int, inference bool) (*graph.Plan, error) {
		o := graph.Options{Inference: inference}
		if aggregates(cfg) {
			o.BucketBytes = 1 // as fine as they come: the aggregator joins them
			o.Aggregation = aggregation(cfg)
		}
		return s.Compile(samples, o)
	}
}

// aggregation says how gradients are aggregated, for drawings of the plan.
func aggregation(cfg *configs.Config) string {
	workers, bits := "1 worker", cfg.Distributed.Bits.String()+" bits"
	if n := cfg.Distributed.Workers; n > 1 {
		workers = fmt.Sprintf("%d workers", n)
	}
	if bits == "1 bits" {
		bits = "1 bit"
	}
	return workers + ", " + bits
}

// checkSupported refuses, all at once, what this build cannot do: a key that would silently change nothing is worse than an
// error.
func checkSupported(cfg *configs.Config) error {
	var faults []string
	refuse := func(bad bool, key string, value any, why string) {
		if bad {
			faults = append(faults, fmt.Sprintf("%s: %s: %v: %s", cfg.Origin(key), key, value, why))
		}
	}
	refuse(cfg.Network.Init != "", "network.init", cfg.Network.Init, "this build always starts from He initialization: set it to he")
	refuse(cfg.Log.TensorBoardDir != "", "log.tensorBoardDir", cfg.Log.TensorBoardDir, "not in this build: remove it")
	refuse(cfg.Log.JSON != "", "log.json", cfg.Log.JSON, "not in this build: remove it")
	refuse(cfg.Log.MetricsAddress != "", "log.metricsAddress", cfg.Log.MetricsAddress, "not in this build: remove it")
	if faults == nil {
		return nil
	}
	return &UsageError{errors.New(strings.Join(faults, "\n"))}
}

// Plan compiles the plan of a worker's training step, or of inference, of a configuration whose data is there.
func Plan(cfg *configs.Config, inference bool) (*graph.Plan, error) {
	ds, err := readers.Open(cfg.Reader, readers.Train)
	if err != nil {
		return nil, whereSet(cfg, located(cfg, err))
	}
	defer ds.Close()
	return source(spec(cfg, ds), cfg)(largestShare(minibatchSize(cfg, epochSize(cfg, ds)), cfg.Distributed.Workers), inference)
}

// memoryLine says what a plan needs.
func memoryLine(p *graph.Plan) string {
	return fmt.Sprintf("memory: %.1f MiB of activations planned (%.1f without reuse), %.1f MiB of parameters, gradients and moments",
		mib(p.Memory.Peak), mib(p.Memory.Total), mib(4*4*p.Parameters.Size))
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }
