package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gotrain/configs"
	"gotrain/distributed/group"
	"gotrain/graph"
	"gotrain/internal/safetensors"
	"gotrain/readers"
)

// test evaluates the model on the test set, each worker on its share of it, and writes CNTK's line.
func (r *run) test(ctx context.Context) error {
	found, n := make([]graph.Metrics, len(r.workers)), make([]int, len(r.workers))
	asked := make([]bool, len(r.workers))
	if err := r.team.each(func(i int, m group.Member) (err error) {
		found[i], n[i], err = evaluate(ctx, r.workers[i].exec, r.cfg, r.tests, m.Rank(), m.Size())
		if errors.Is(err, ErrInterrupted) {
			asked[i], err = true, nil // all are to know
		}
		return err
	}); err != nil {
		return err
	}
	interrupted, err := r.team.any(slices.Contains(asked, true))
	if err != nil {
		return err
	}
	if interrupted {
		return r.team.followed(ErrInterrupted)
	}
	if err := r.team.sum(func(i int) []*float64 { return []*float64{&found[i].Loss, &found[i].Errors, &found[i].Count} }); err != nil {
		return err
	}
	if found[0].Count == 0 {
		return r.team.followed(fmt.Errorf("evaluating: %w", errSkipped))
	}
	if err := r.recordTest(n[0], found[0]); err != nil {
		return err
	}
	_, err = fmt.Fprintln(r.Out, evaluationLine(1, n[0], found[0]))
	return err
}

// evaluate runs the network over a worker's part of the test set, in its order, with the running statistics.
func evaluate(ctx context.Context, e graph.Executor, cfg *configs.Config, ds readers.Dataset, worker, workers int) (m graph.Metrics, minibatches int, err error) {
	loader, err := readers.NewLoader(ds, readers.LoaderConfig{MinibatchSize: learnerOf(cfg).MinibatchSize, End: int64(ds.Len()),
		Worker: worker, Workers: workers, Prefetch: cfg.Reader.Prefetch, Decoders: cfg.Reader.Workers})
	if err != nil {
		return m, 0, err
	}
	defer loader.Close()
	for {
		mb, err := loader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return m, minibatches, nil
		}
		if errors.Is(err, context.Canceled) {
			return m, minibatches, ErrInterrupted
		}
		if err != nil {
			return m, minibatches, fmt.Errorf("evaluating: %w", err)
		}
		part, err := e.Evaluate(&mb.Batch, nil)
		if err != nil {
			return m, minibatches, err
		}
		mb.Release()
		m.Add(part)
		minibatches++
	}
}

// Evaluate evaluates the model of a run's folder: the finished one, else that of the newest checkpoint. Overrides change
// the run's configuration, another test set for instance.
func Evaluate(ctx context.Context, dir string, overrides []string, s Settings) error {
	file := filepath.Join(dir, ConfigFile)
	if _, err := os.Stat(file); err != nil {
		return usage("%s is not the folder of a run: %s is missing: give a folder below outputDir", dir, ConfigFile)
	}
	cfg, err := configs.Load(file, overrides)
	if err != nil {
		return err
	}
	return evaluateRun(ctx, dir, cfg, s)
}

// testLast evaluates the model of the last run of the configuration's name.
func testLast(ctx context.Context, s Settings) error {
	cfg := s.Config
	if s.Restart {
		return usage("%s: command: nothing is trained, and -restart has nothing to start: leave it out", cfg.Origin("command"))
	}
	dir, _, err := lastRun(cfg.OutputDir, cfg.Name)
	if err != nil {
		return err
	}
	if dir == "" {
		return usage("%s: command: nothing is trained, and there is no run %q in %s to test: write [train, test], or the name of a run", cfg.Origin("command"), cfg.Name, cfg.OutputDir)
	}
	return evaluateRun(ctx, dir, cfg, s)
}

func evaluateRun(ctx context.Context, dir string, cfg *configs.Config, s Settings) error {
	if err := checkSupported(cfg); err != nil {
		return err
	}
	ds, err := readers.Open(cfg.Reader, readers.Test)
	if err != nil {
		return whereSet(cfg, located(cfg, err))
	}
	defer ds.Close()
	record, err := ReadRecord(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if changes := record.Data.classChanges(ds.Classes()); len(changes) > 0 && !s.AcceptChanges {
		return usage("%s has other classes than the test set:\n    %s\ngive a test set of its classes, or accept the other names with -accept-changes", dir, changes[0])
	}
	network := spec(cfg, ds)
	threads := threadsFor(cfg, 1)
	d, err := s.deviceFor(cfg, 1, 0)
	if err != nil {
		return err
	}
	if cfg.Network.Convolution == "auto" {
		d.settle(record.Convolutions)
	}
	all, err := d.executors(source(network, cfg), cfg, 1, minibatchSize(cfg, ds.Len()), threads, nil)
	if err != nil {
		return err
	}
	e := all[0]
	defer e.Close()
	from, err := loadModel(dir, record.Model, e)
	if err != nil {
		return otherNetwork(dir, cfg, err)
	}
	say := &messages{screen: s.Log}
	say.printf("Evaluating %s", from)
	warnOfThreads(say, threads)
	m, n, err := evaluate(ctx, e, cfg, ds, 0, 1)
	if err != nil {
		return err
	}
	if m.Count == 0 {
		return fmt.Errorf("evaluating: %w", errSkipped)
	}
	_, err = fmt.Fprintln(s.Out, evaluationLine(1, n, m))
	return err
}

// otherNetwork adds to the error of a tensor that does not fit which keys of the network the run has otherwise.
func otherNetwork(dir string, cfg *configs.Config, err error) error {
	if !errors.As(err, new(misfit)) {
		return err
	}
	text := err.Error()
	if old, err := configs.Load(filepath.Join(dir, ConfigFile), nil); err == nil {
		for _, c := range configs.Diff(old, cfg) {
			if strings.HasPrefix(c.Key, "network.") {
				text += "\n    " + c.String()
			}
		}
	}
	return usage("%s\ngive the network and the kind of data that the run was trained with", text)
}

// loadModel fills an executor with the model of a run's folder, of which there may be a record, and says where it lay.
func loadModel(dir string, record *partRecord, e graph.Executor) (string, error) {
	path, store := filepath.Join(dir, modelPart), newCheckpoints(dir, 0)
	if record != nil {
		if difference := store.differs(path, *record, RecordFile); difference != "" && difference != missing {
			return "", fmt.Errorf("%s: %s: restore it, or remove it to take the newest checkpoint", path, difference)
		}
	}
	f, err := safetensors.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err == nil {
		defer f.Close()
		if err := readModel(f, e); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		return path, push(e)
	}
	c, _, err := store.Load()
	if err != nil {
		return "", err
	}
	if c == nil {
		return "", usage("%s has neither a model nor a checkpoint yet", dir)
	}
	if err := c.Tensors(modelPart, func(f *safetensors.File) error { return readModel(f, e) }); err != nil {
		return "", fmt.Errorf("%s: %w", c.Dir, err)
	}
	return c.Dir, push(e)
}
