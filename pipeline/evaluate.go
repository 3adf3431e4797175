package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"gotrain/configs"
	"gotrain/graph"
	"gotrain/internal/safetensors"
	"gotrain/readers"
)

// test evaluates the model on the test set and writes CNTK's line.
func (r *run) test(ctx context.Context) error {
	m, n, err := evaluate(ctx, r.exec, r.cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(r.Out, evaluationLine(1, n, m))
	return err
}

// evaluate runs the network over the whole test set, in its order, with the running statistics.
func evaluate(ctx context.Context, e graph.Executor, cfg *configs.Config) (m graph.Metrics, minibatches int, err error) {
	ds, err := readers.Open(cfg.Reader, readers.Test)
	if err != nil {
		return m, 0, err
	}
	defer ds.Close()
	loader, err := readers.NewLoader(ds, readers.LoaderConfig{MinibatchSize: cfg.Learner.MinibatchSize, End: int64(ds.Len()),
		Prefetch: cfg.Reader.Prefetch, Decoders: cfg.Reader.Workers})
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
	cfg, err := configs.Load(filepath.Join(dir, configFile), overrides)
	if err != nil {
		return &UsageError{fmt.Errorf("%s is no run that can be evaluated: %w", dir, err)}
	}
	if err := checkDevice(cfg); err != nil {
		return err
	}
	ds, err := readers.Open(cfg.Reader, readers.Test)
	if err != nil {
		return err
	}
	network, err := spec(cfg, ds)
	ds.Close()
	if err != nil {
		return err
	}
	e, err := executor(network, cfg, threads(cfg))
	if err != nil {
		return err
	}
	defer e.Close()
	from, err := loadModel(dir, e)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Log, "Evaluating %s\n", from)
	m, n, err := evaluate(ctx, e, cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, evaluationLine(1, n, m))
	return err
}

// loadModel fills an executor with the model of a run's folder and says where it lay.
func loadModel(dir string, e graph.Executor) (string, error) {
	path := filepath.Join(dir, modelPart)
	if f, err := safetensors.Open(path); err == nil {
		defer f.Close()
		if err := readModel(f, e); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		return path, push(e)
	}
	c, _, err := newCheckpoints(dir, 0).Load()
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
