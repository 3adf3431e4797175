package pipeline

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	team    *team
	device  device
	held    *graph.Resident // the training set, where GPUs hold it
	workers []*worker       // of this process
	lock    *runLock
	log     *os.File
	say     *messages
	store   *checkpoints    // nil where this process does not lead
	data    readers.Dataset // for training
	tests   readers.Dataset // for testing; nil where the command has no test
	epoch   int             // samples of an epoch
	learner *learners.Learner
	plan    *graph.Plan // of a worker's share of a full minibatch
	state   State
	saved   int64     // step of the newest checkpoint that this process wrote
	due     bool      // a checkpoint is to be written as soon as one can be
	shown   time.Time // when the last line within an epoch was written

	sinceShown float64 // samples trained since then, by this process
	unshown    int     // minibatches whose metrics are not known yet, and that no line has shown
	spent      split   // of the epoch that runs
}

// assemble brings the workers together and opens the data. Everything that can be wrong with what the user gave is found
// before a folder is made.
func assemble(s Settings) (r *run, err error) {
	cfg := s.Config
	if err := checkSupported(cfg); err != nil {
		return nil, err
	}
	r = &run{Settings: s, cfg: cfg, say: &messages{screen: s.Log, terminal: s.Terminal}}
	opened := r // what is returned with an error is nil
	defer func() {
		if err != nil {
			opened.close(err)
		}
	}()
	if r.team, err = joinTeam(cfg); err != nil {
		return nil, err
	}
	if !r.team.leads() {
		r.say, r.Out = &messages{screen: io.Discard}, io.Discard
	}
	if err := r.team.together(r.openData); err != nil {
		return nil, err
	}
	if err := r.team.together(r.openDevice); err != nil {
		return nil, err
	}
	if err := r.sameEverywhere(); err != nil {
		return nil, err
	}
	return r, nil
}

// openRun assembles a run, opens its folder, and restores the newest checkpoint of one that is continued.
func openRun(s Settings) (r *run, err error) {
	if r, err = assemble(s); err != nil {
		return nil, err
	}
	opened := r
	defer func() {
		if err != nil {
			opened.close(err)
		}
	}()
	threads, err := r.team.threads(r.cfg)
	if err != nil {
		return nil, err
	}
	if err := r.team.agree(&r.folder, func() (err error) {
		r.folder, err = chooseFolder(s, recordData(r.data), threads, r.device.String(), time.Now())
		return err
	}); err != nil {
		return nil, err
	}
	if err := r.chooseConvolutions(); err != nil {
		return nil, err
	}
	if err := r.team.together(r.makeWorkers); err != nil {
		return nil, err
	}
	if err := r.joinNCCL(); err != nil {
		return nil, err
	}
	if err := r.team.agree(new(struct{}), r.openFolder); err != nil {
		return nil, err
	}
	return r, r.begin()
}

// openData opens the sets, and settles what follows from their sizes.
func (r *run) openData() (err error) {
	skipped := readers.OnSkip(func(err error) { r.say.printf("skipped: %v", err) })
	if r.data, r.tests, err = openSets(r.cfg, skipped); err != nil {
		return err
	}
	r.epoch = epochSize(r.cfg, r.data)
	r.learner, err = learners.New(learnerOf(r.cfg), r.epoch)
	return err
}

// openDevice finds what is computed on.
func (r *run) openDevice() (err error) {
	r.device, err = r.deviceFor(r.cfg, len(r.team.members), r.team.before())
	return err
}

// sameEverywhere refuses processes that have not got in common what a run is made of.
func (r *run) sameEverywhere() error {
	const configuration = "configuration"
	data := r.data.Fingerprint()
	hash := func(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }
	own := [][sha256.Size]byte{hash(r.cfg.Hash()), hash(string(data[:])), hash(r.Version), hash(r.device.String())}
	err := r.team.same([]string{configuration, "data", "program", "libraries"}, func(int) [][sha256.Size]byte { return own })
	var d *differentError
	switch {
	case !errors.As(err, &d):
		return err
	case slices.Contains(d.names, configuration):
		return r.team.followed(usage("%w: give all processes the same (gotrain check -print FILE, with the same arguments, shows each host's configuration)", err))
	}
	return r.team.followed(usage("%w: give all processes the same", err))
}

// network is the run's, and the number of samples of most of a worker's batches.
func (r *run) network() (graph.Source, int) {
	return source(spec(r.cfg, r.data), r.cfg), largestShare(minibatchSize(r.cfg, r.epoch), r.team.workers)
}

// makeWorkers makes the executors of this process.
func (r *run) makeWorkers() (err error) {
	network, batch := r.network()
	if r.plan, err = network(batch, false); err != nil {
		return err
	}
	r.held = r.device.holds(r.data)
	all, err := r.device.executors(network, r.cfg, len(r.team.members), batch, r.Record.Threads, r.held)
	for i, e := range all {
		r.workers = append(r.workers, &worker{member: r.team.members[i], exec: e})
	}
	return err
}

// openFolder locks the run's folder and opens its log.
func (r *run) openFolder() (err error) {
	if r.lock, err = lockRun(r.Dir); err != nil {
		return err
	}
	if r.log, err = os.OpenFile(filepath.Join(r.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return fmt.Errorf("outputDir: %w", err)
	}
	r.say.log, r.Out = r.log, io.MultiWriter(r.Out, r.log)
	r.store = newCheckpoints(r.Dir, r.cfg.Checkpoint.Keep)
	return nil
}

// begin sets the parameters, to their first values or to those of the newest whole checkpoint, and writes the record.
func (r *run) begin() error {
	if r.Resumed {
		r.sayWhatDiffers()
		r.sayHowSummed()
	}
	r.Record.Status, r.Record.Hash, r.Record.Version, r.Record.Engine, r.Record.Team = Running, r.cfg.Hash(), r.Version, r.device.String(), r.team.String()
	var c *Checkpoint
	var from struct { // what the leading process tells
		Checkpoint string
		State      State
		Workers    int // that the checkpoint has residuals and statistics of
		Owed       bool
	}
	if err := r.team.agree(&from, func() (err error) {
		var warnings []Warning
		c, warnings, err = r.store.Load()
		for _, w := range warnings {
			r.say.printf("warning: %s", w)
		}
		if err != nil || c == nil {
			return err
		}
		from.Checkpoint, from.Workers, from.Owed = filepath.Base(c.Dir), c.workers(), c.has(sumsPart)
		from.State, err = r.restore(c)
		return err
	}); err != nil {
		return err
	}
	parameters, _ := r.workers[0].exec.Layouts()
	what := fmt.Sprintf("%s, %d parameters, %d threads, %s", r.cfg.Precision, parameterCount(parameters), r.Record.Threads, r.Record.Engine)
	if r.team.workers > 1 {
		what += ", " + r.team.String()
	}
	if from.Checkpoint == "" {
		r.initialize()
		r.state = State{Rule: r.learner.Rule().String(), Trained: make([]int64, r.team.workers)}
	} else {
		r.state = from.State
		for _, a := range keptArenas {
			if err := r.spread(a); err != nil {
				return err
			}
		}
	}
	for _, w := range r.workers {
		if err := push(w.exec); err != nil {
			return err
		}
	}
	if err := r.choose(); err != nil {
		return err
	}
	if err := r.makeAggregators(from.Owed); err != nil {
		return err
	}
	if from.Checkpoint != "" {
		if err := r.restoreWorkers(c, from.Workers, from.Owed); err != nil {
			return err
		}
	}
	if err := r.team.agree(new(struct{}), r.write); err != nil { // not before: a run that is refused keeps its configuration
		return err
	}
	if from.Checkpoint == "" {
		r.say.printf("Starting %s: %s; %s", r.Dir, what, memoryLine(r.plan))
	} else {
		r.say.printf("Continuing %s from epoch %d, minibatch %d (%d samples, checkpoint %s): %s", r.Dir, r.state.Epoch+1, r.state.Batch+1,
			r.state.Samples, from.Checkpoint, what)
	}
	if r.Record.Chosen != nil {
		r.say.printf("%s", r.Record.Chosen.Why)
	}
	r.sayConvolutions()
	if r.device.note != "" {
		r.say.printf("%s", r.device.note)
	}
	warnOfThreads(r.say, r.Record.Threads)
	r.warnOfColumns()
	return nil
}

// initialize gives all workers their first parameters.
func (r *run) initialize() {
	for _, w := range r.workers {
		parameters, statistics := w.exec.Layouts()
		network.Initialize(parameters, r.cfg.Seed, w.exec.Arena(graph.Parameters))
		network.Initialize(statistics, r.cfg.Seed, w.exec.Arena(graph.Statistics))
	}
}

// restore brings the first worker's executor to a checkpoint of this run.
func (r *run) restore(c *Checkpoint) (State, error) {
	state, warning, err := restore(c, r.workers[0].exec, r.learner.Rule())
	if err != nil {
		return state, otherNetwork(r.Dir, r.cfg, fmt.Errorf("%s: %w", c.Dir, err))
	}
	if state.Samples > r.total() {
		return state, usage("%s: learner.maxEpochs: %d: %s has trained %d epochs and %d minibatches already: give more, or start a new run with -restart",
			r.cfg.Origin("learner.maxEpochs"), r.cfg.Learner.MaxEpochs, r.Dir, state.Epoch, state.Batch)
	}
	if warning != "" {
		r.say.printf("warning: %s", warning)
	}
	return state, nil
}

// sayWhatDiffers compares what a run has had so far with what it goes on with.
func (r *run) sayWhatDiffers() {
	for _, c := range r.Changes {
		r.say.printf("Accepted: %s", c)
	}
	for _, d := range []struct{ old, new string }{{r.Record.Engine, r.device.String()}, {r.Record.Version, r.Version}} {
		if d.old != d.new {
			r.say.printf("warning: this run has trained with %s, and goes on with %s: it will not give the same bits as a run with one of the two", d.old, d.new)
		}
	}
}

// sayHowSummed says where NCCL sums what MPI did, or the other way around.
func (r *run) sayHowSummed() {
	switch was := strings.Contains(r.Record.Team, ncclName); {
	case was == (r.team.link != nil):
	case was:
		r.say.printf("warning: this run has exchanged gradients by NCCL, and goes on without: at 32 bits it sums in another order, and will not give the same bits")
	default:
		r.say.printf("warning: this run has exchanged gradients without NCCL, and goes on with %s: at 32 bits it sums in another order, and will not give the same bits", r.team.nccl)
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
	if err := r.store.WriteRunFile(Part{Name: ConfigFile, Write: func(w io.Writer) error {
		_, err := w.Write(r.cfg.YAML())
		return err
	}}); err != nil {
		return err
	}
	return r.store.WriteRunFile(jsonPart(RecordFile, r.Record))
}

// finish notes how the run ended, and leaves the team. An error that not all processes have come to ends the others too: then
// nobody waits for the note.
func (r *run) finish(err error) error {
	r.Record.Status = status(err)
	note := func() error {
		if r.store == nil {
			return nil
		}
		return r.write()
	}
	if err != nil && !Told(err) {
		note() // the error that is there says more
	} else if e := r.team.agree(new(struct{}), note); err == nil {
		err = e
	}
	return r.close(err)
}

// close frees everything, and returns the error that it was given, or one of leaving the team. Where all processes end, and for
// one reason, they leave together; else this one has to end the others, and tells why, because it ends with them.
func (r *run) close(err error) error {
	if r.team != nil && r.team.job != nil && err != nil {
		if !Told(err) {
			r.team.fail(r.Settings.Log, err)
		}
		if r.team.leads() { // now, for when the first process has left, mpiexec ends the others
			fmt.Fprintln(r.Settings.Log, "gotrain:", err)
		}
	}
	if r.team != nil && r.team.link != nil {
		if e := r.team.link.Close(); err == nil {
			err = e
		}
	}
	for _, w := range r.workers {
		w.close()
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
	if r.team != nil {
		if e := r.team.close(); err == nil {
			err = e
		}
	}
	return err
}
