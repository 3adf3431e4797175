package pipeline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"gotrain/configs"
	"gotrain/graph"
	"gotrain/internal/cores"
	"gotrain/learners"
	"gotrain/network"
	"gotrain/readers"
)

// run is one run's folder and what is open for it.
type run struct {
	Settings
	folder
	cfg     *configs.Config
	lock    *runLock
	log     *os.File
	say     *messages
	store   *checkpoints
	data    readers.Dataset // for training
	tests   readers.Dataset // for testing; nil where the command has no test
	epoch   int             // samples of an epoch
	learner *learners.Learner
	plan    *graph.Plan // of a full minibatch
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
	r = &run{Settings: s, cfg: cfg, say: &messages{screen: s.Log, terminal: s.Terminal}}
	opened := r // what is returned with an error is nil
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	skipped := readers.OnSkip(func(err error) { opened.say.printf("skipped: %v", err) })
	if r.data, r.tests, err = openSets(cfg, skipped); err != nil {
		return nil, err
	}
	r.epoch = epochSize(cfg, r.data)
	if r.learner, err = learners.New(cfg.Learner, r.epoch); err != nil {
		return nil, err
	}
	if r.folder, err = chooseFolder(s, recordData(r.data), time.Now()); err != nil {
		return nil, err
	}
	network, batch := spec(cfg, r.data), minibatchSize(cfg, r.epoch)
	if r.plan, err = source(network, cfg)(batch, false); err != nil {
		return nil, err
	}
	if r.exec, err = executor(network, cfg, batch, r.record.Threads); err != nil {
		return nil, err
	}
	if r.lock, err = lockRun(r.dir); err != nil {
		return nil, err
	}
	if r.log, err = os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("outputDir: %w", err)
	}
	r.say.log, r.Out = r.log, io.MultiWriter(s.Out, r.log)
	r.store = newCheckpoints(r.dir, cfg.Checkpoint.Keep)
	return r, r.begin()
}

// begin sets the parameters, to their first values or to those of the newest whole checkpoint, and writes the record.
func (r *run) begin() error {
	if r.resumed {
		r.sayWhatDiffers()
	}
	r.record.Status, r.record.Hash, r.record.Version, r.record.Engine = running, r.cfg.Hash(), r.Version, engine()
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
		r.state = State{Rule: r.learner.Rule().String()}
		if err := r.write(); err != nil {
			return err
		}
		r.say.printf("Starting %s: %s; %s", r.dir, what, memoryLine(r.plan))
		warnOfThreads(r.say, r.record.Threads)
		return push(r.exec)
	}
	var warning string
	if r.state, warning, err = restore(c, r.exec, r.learner.Rule()); err != nil {
		return otherNetwork(r.dir, r.cfg, fmt.Errorf("%s: %w", c.Dir, err))
	}
	if total := r.total(); r.state.Samples > total {
		return usage("%s: learner.maxEpochs: %d: %s has trained %d epochs and %d minibatches already: give more, or start a new run with -restart",
			r.cfg.Origin("learner.maxEpochs"), r.cfg.Learner.MaxEpochs, r.dir, r.state.Epoch, r.state.Batch)
	}
	if err := r.write(); err != nil { // not before: a run that is refused keeps its configuration
		return err
	}
	if warning != "" {
		r.say.printf("warning: %s", warning)
	}
	r.say.printf("Continuing %s from epoch %d, minibatch %d (%d samples, checkpoint %s): %s", r.dir, r.state.Epoch+1, r.state.Batch+1,
		r.state.Samples, filepath.Base(c.Dir), what)
	warnOfThreads(r.say, r.record.Threads)
	return nil
}

// sayWhatDiffers compares what a run has had so far with what it goes on with.
func (r *run) sayWhatDiffers() {
	for _, c := range r.changes {
		r.say.printf("Accepted: %s", c)
	}
	for _, d := range []struct{ old, new string }{{r.record.Engine, engine()}, {r.record.Version, r.Version}} {
		if d.old != d.new {
			r.say.printf("warning: this run has trained with %s, and goes on with %s: it will not give the same bits as a run with one of the two", d.old, d.new)
		}
	}
}

// warnOfThreads says where threads would only wait for each other.
func warnOfThreads(say *messages, threads int) {
	if n := cores.Usable(); threads > n {
		say.printf("warning: threads: %d, and there are %d cores to compute on: more threads than cores are much slower", threads, n)
	}
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
	return r.store.Save(r.state.Step, parts(r.exec, r.learner.Rule(), r.state))
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
