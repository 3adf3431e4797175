package pipeline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gotrain/configs"
	"gotrain/cpu"
	"gotrain/graph"
	"gotrain/network"
	"gotrain/readers"
)

// run is one run's folder and what is open for it.
type run struct {
	Settings
	cfg     *configs.Config
	dir     string
	record  Record
	resumed bool
	lock    *runLock
	log     *os.File
	say     *messages
	store   *checkpoints
	data    readers.Dataset // for training
	tests   readers.Dataset // for testing; nil where the command has no test
	plan    *graph.Plan     // of a full minibatch
	exec    graph.Executor
	state   State
	saved   int64     // step of the newest checkpoint that this process wrote
	shown   time.Time // when the last line within an epoch was written
}

// openRun opens data, network and folder, and restores the newest checkpoint of a run that is continued. Everything that
// can be wrong with what the user gave is found before the folder is made.
func openRun(s Settings) (r *run, err error) {
	cfg := s.Config
	if err := checkSupported(cfg); err != nil {
		return nil, err
	}
	r = &run{Settings: s, cfg: cfg, say: &messages{w: s.Log, terminal: s.Terminal}}
	opened := r // what is returned with an error is nil
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	skipped := readers.OnSkip(func(err error) { opened.say.printf("skipped: %v", err) })
	if r.data, err = readers.Open(cfg.Reader, readers.Train, skipped); err != nil {
		return nil, err
	}
	if slices.Contains(cfg.Command, "test") {
		if r.tests, err = readers.Open(cfg.Reader, readers.Test, skipped); err != nil {
			return nil, err
		}
	}
	network := spec(cfg, r.data)
	if r.dir, r.record, r.resumed, err = chooseFolder(s, time.Now()); err != nil {
		return nil, err
	}
	if r.plan, err = source(network, cfg)(cfg.Learner.MinibatchSize, false); err != nil {
		return nil, err
	}
	if r.exec, err = executor(network, cfg, r.record.Threads); err != nil {
		return nil, err
	}
	if r.lock, err = lockRun(r.dir); err != nil {
		return nil, err
	}
	if r.log, err = os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("outputDir: %w", err)
	}
	r.say.w, r.Out = io.MultiWriter(s.Log, r.log), io.MultiWriter(s.Out, r.log)
	r.store = newCheckpoints(r.dir, cfg.Checkpoint.Keep)
	return r, r.begin()
}

// begin writes the record and sets the parameters: to their first values, or to those of the newest whole checkpoint.
func (r *run) begin() error {
	r.record.Status, r.record.Hash = running, r.cfg.Hash()
	r.record.Engine = cpu.Describe().String()
	if err := r.write(); err != nil {
		return err
	}
	if r.Restart && r.resumed {
		if err := r.store.Clear(); err != nil {
			return err
		}
	}
	c, warnings, err := r.store.Load()
	for _, w := range warnings {
		r.say.printf("warning: %s", w)
	}
	if err != nil {
		return err
	}
	parameters, statistics := r.exec.Layouts()
	what := fmt.Sprintf("%s, %d parameters, %d threads, %s", r.cfg.Precision, parameterCount(parameters), r.record.Threads, r.record.Engine)
	if c == nil {
		network.Initialize(parameters, r.cfg.Seed, r.exec.Arena(graph.Parameters))
		network.Initialize(statistics, r.cfg.Seed, r.exec.Arena(graph.Statistics))
		r.state = State{Hash: r.record.Hash}
		r.say.printf("Starting %s: %s; %s", r.dir, what, memoryLine(r.plan))
		return push(r.exec)
	}
	rule, err := rule(r.cfg)
	if err != nil {
		return err
	}
	if r.state, err = restore(c, r.exec, rule); err != nil {
		return fmt.Errorf("%s: %w", c.Dir, err)
	}
	r.say.printf("Continuing %s from epoch %d, minibatch %d (%d samples, checkpoint %s): %s", r.dir, r.state.Epoch+1, r.state.Batch+1,
		r.state.Samples, filepath.Base(c.Dir), what)
	return nil
}

func parameterCount(l *graph.Layout) int {
	n := 0
	for _, s := range l.Slots {
		n += s.Shape.Values()
	}
	return n
}

// write puts the record and the configuration into the folder.
func (r *run) write() error {
	if err := r.store.WriteRunFile(Part{Name: configFile, Write: func(w io.Writer) error {
		_, err := w.Write(r.cfg.YAML())
		return err
	}}); err != nil {
		return err
	}
	return r.store.WriteRunFile(jsonPart(recordFile, r.record))
}

// checkpoint saves where training stands.
func (r *run) checkpoint() error {
	if err := pull(r.exec); err != nil {
		return err
	}
	rule, err := rule(r.cfg)
	if err != nil {
		return err
	}
	return r.store.Save(r.state.Step, parts(r.exec, rule, r.state))
}

// finish notes how the run ended.
func (r *run) finish(err error) error {
	var d *DivergedError
	switch {
	case err == nil:
		r.record.Status = finished
	case errors.Is(err, ErrInterrupted):
		r.record.Status = interrupted
	case errors.As(err, &d):
		r.record.Status = diverged
	default:
		r.record.Status = failed
	}
	if e := r.write(); err == nil {
		err = e
	}
	return err
}

func (r *run) close() {
	if r.exec != nil {
		r.exec.Close()
	}
	for _, ds := range []readers.Dataset{r.data, r.tests} {
		if ds != nil {
			ds.Close()
		}
	}
	if r.log != nil {
		r.log.Close()
	}
	if r.lock != nil {
		r.lock.Unlock()
	}
}
