package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gotrain/configs"
	"gotrain/distributed/group"
	"gotrain/pipeline"
)

// Again gives the configuration of a run as it is run once more: from its record, in a folder of runs, with its data where a
// bundle brought it, and with overrides, key=value, over it.
func Again(dir string, r Run, overrides ...string) (cfg *configs.Config, err error) {
	run := filepath.Join(dir, r.Folder)
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	data, err := dataOverrides(run)
	if err != nil {
		return nil, err
	}
	all := append([]string{"outputDir=" + abs}, data...)
	return configs.Load(filepath.Join(run, pipeline.ConfigFile), append(all, overrides...))
}

// Replayed is what a replay has come to.
type Replayed struct {
	Folder     string   // of the new run
	Epoch      int      // the last that both have finished
	Step       int64    // the last that both have made
	Difference string   // the first, with both values; "" where all is equal to the bit
	Causes     []string // what the two runs do not have in common
	Notes      []string // about the record
}

// Replay makes a run again, in a folder of its own, and compares loss and error of every step and the sums of every checkpoint
// with its record. epochs stops it early; 0 makes them all. Overrides, key=value, change the configuration, and are among the
// causes. settings are for messages and results. A run that diverged has to diverge again.
func Replay(ctx context.Context, dir string, r Run, epochs int, overrides []string, settings pipeline.Settings) (*Replayed, error) {
	run := filepath.Join(dir, r.Folder)
	record, err := pipeline.ReadRecord(run)
	if err != nil {
		return nil, err
	}
	was, err := Read(dir, r)
	if err != nil {
		return nil, err
	}
	if was.Attempt == nil || len(was.History.Minibatches) == 0 {
		return nil, fmt.Errorf("%s: its record has no steps to compare with", r.Folder)
	}
	old, err := configs.Load(filepath.Join(run, pipeline.ConfigFile), nil)
	if err != nil {
		return nil, err
	}
	fixed := []string{"name=" + r.Name + "-replay", "threads=" + strconv.Itoa(record.Threads), "log.json=null", "log.tensorBoardDir=null", "log.metricsAddress=null"}
	if epochs > 0 {
		if epochs > old.Learner.MaxEpochs {
			return nil, fmt.Errorf("-epochs %d: %s has %d", epochs, r.Folder, old.Learner.MaxEpochs)
		}
		fixed = append(fixed, "learner.maxEpochs="+strconv.Itoa(epochs))
	}
	if _, _, launched := group.Launched(); !launched && old.Distributed.Transport == "mpi" {
		fixed = append(fixed, "distributed.transport=auto") // which changes no bit
	}
	settings.Config, err = Again(dir, r, append(fixed, overrides...)...)
	if err != nil {
		return nil, err
	}
	settings.Restart, settings.Replay = true, &record
	folder, opened := "", settings.Opened
	settings.Opened = func(run string) {
		folder = run
		if opened != nil {
			opened(run)
		}
	}
	failed := pipeline.Run(ctx, settings)
	if folder == "" {
		return nil, failed // it did not begin, or another process leads
	}
	is, err := Read(dir, Run{Folder: filepath.Base(folder)})
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	now, err := pipeline.ReadRecord(folder)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	result := compareHistories(was.History, is.History)
	result.Folder = filepath.Base(folder)
	result.Causes = slices.Concat(configChanges(dir, r, old, settings.Config, len(overrides) > 0), causes(was, is, record, now))
	result.Notes = notes(run, was)
	if d := (*pipeline.DivergedError)(nil); errors.As(failed, &d) && r.Status == pipeline.Diverged {
		failed = nil
	}
	return &result, failed
}

// configChanges are the keys that overrides have changed. A place that data has moved to is no change: its content is compared.
func configChanges(dir string, r Run, old, now *configs.Config, overridden bool) (causes []string) {
	if !overridden {
		return nil
	}
	for _, c := range configs.Diff(old, now) {
		if c.Aside || slices.Contains([]string{"name", "threads", "learner.maxEpochs", "distributed.transport"}, c.Key) || readerPaths(old.Reader)[c.Key] != "" {
			continue
		}
		causes = append(causes, "configuration: "+c.String())
	}
	return causes
}

// causes lists what two runs do not have in common, beside their configurations.
func causes(was, is Details, old, now pipeline.Record) (all []string) {
	a, b := *was.Attempt, *is.Attempt
	differ := func(what, x, y string) {
		if x != y {
			all = append(all, fmt.Sprintf("%s: %s -> %s", what, nothing(x), nothing(y)))
		}
	}
	for _, name := range names(a.Environment, b.Environment) {
		differ("environment: "+name, a.Environment[name], b.Environment[name])
	}
	if a.Binary != b.Binary {
		all = append(all, fmt.Sprintf("binary: gotrain %s, SHA-256 %.8s... -> gotrain %s, SHA-256 %.8s...", a.Version, a.Binary, b.Version, b.Binary))
	}
	x, y := versions(a), versions(b)
	for _, name := range names(x, y) {
		differ("libraries: "+name, x[name], y[name])
	}
	differ("device: kind", a.Device.Kind, b.Device.Kind)
	differ("device: model", a.Device.Model, b.Device.Model)
	differ("device: instruction set", a.Device.ISA, b.Device.ISA)
	differ("device: own kernels", a.Device.Kernels, b.Device.Kernels)
	differ("threads of a worker", strconv.Itoa(a.Threads), strconv.Itoa(b.Threads))
	files := dataChanges(was.Data, is.Data)
	if len(files) == 0 && old.Data.Fingerprint != now.Data.Fingerprint {
		files = []string{fmt.Sprintf("data: the training set's fingerprint: %.8s... -> %.8s...", old.Data.Fingerprint, now.Data.Fingerprint)}
	}
	return append(all, files...)
}

func nothing(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

func versions(a pipeline.Attempt) map[string]string {
	all := map[string]string{"Go": a.Go}
	for _, l := range slices.Concat(a.Libraries, a.Modules) {
		all[l.Name] = l.Version
	}
	return all
}

func names(a, b map[string]string) (all []string) {
	for name := range a {
		all = append(all, name)
	}
	for name := range b {
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// dataChanges compares the files of two sets, which may lie in different places.
func dataChanges(was, is []pipeline.DataFile) (all []string) {
	if was == nil || is == nil {
		return nil
	}
	if len(was) != len(is) {
		return []string{fmt.Sprintf("data: %d files -> %d files", len(was), len(is))}
	}
	for i := range was {
		switch a, b := was[i], is[i]; {
		case filepath.Base(a.Path) != filepath.Base(b.Path):
			return append(all, fmt.Sprintf("data: %s -> %s", a.Path, b.Path))
		case a.SHA256 != b.SHA256:
			all = append(all, fmt.Sprintf("data: %s: SHA-256 %.8s... -> %.8s...", b.Path, a.SHA256, b.SHA256))
		}
		if len(all) == 10 {
			return append(all, "data: and perhaps more files")
		}
	}
	return all
}

// notes says what of the record a replay does not follow.
func notes(run string, was Details) (all []string) {
	before := ""
	for _, span := range was.History.Attempts {
		a, err := pipeline.ReadAttempt(run, span.Attempt)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return append(all, err.Error())
		}
		if before != "" && a.Hash != before {
			all = append(all, fmt.Sprintf("attempt %d went on from step %d with another configuration than the one before: the replay has the last one from the beginning", span.Attempt, span.Step))
		}
		before = a.Hash
	}
	return all
}

// compareHistories finds the first difference of what two runs have in common.
func compareHistories(was, is History) (r Replayed) {
	differ := func(where, what, a, b string) {
		if r.Difference == "" && a != b {
			r.Difference = fmt.Sprintf("%s: %s was %s, and is %s", where, what, a, b)
		}
	}
	sums := func(where string, a, b pipeline.Sums) {
		differ(where, "the loss", number(a.Loss), number(b.Loss))
		differ(where, "the number of errors", number(a.Errors), number(b.Errors))
		differ(where, "the number of samples", number(a.Count), number(b.Count))
	}
	checkpoints := map[int64]pipeline.CheckpointEvent{}
	for _, c := range is.Checkpoints {
		checkpoints[c.Step] = c
	}
	next := 0
	compareCheckpoints := func(step int64) {
		for ; next < len(was.Checkpoints) && was.Checkpoints[next].Step <= step; next++ {
			a := was.Checkpoints[next]
			b, both := checkpoints[a.Step]
			if !both {
				continue
			}
			for _, part := range names(a.Parts, b.Parts) {
				if strings.HasSuffix(part, ".safetensors") { // others have times in them
					differ(fmt.Sprintf("the checkpoint of step %d", a.Step), "the SHA-256 of "+part, nothing(a.Parts[part]), nothing(b.Parts[part]))
				}
			}
		}
	}
	for i := range min(len(was.Minibatches), len(is.Minibatches)) {
		a, b := was.Minibatches[i], is.Minibatches[i]
		where := fmt.Sprintf("epoch %d, minibatch %d (step %d)", a.Epoch, a.Minibatch, a.Step)
		differ(where, "the step", strconv.FormatInt(a.Step, 10), strconv.FormatInt(b.Step, 10))
		sums(where, a.Sums, b.Sums)
		compareCheckpoints(a.Step)
		r.Step = a.Step
	}
	for i := range min(len(was.Epochs), len(is.Epochs)) {
		sums(fmt.Sprintf("epoch %d", was.Epochs[i].Epoch), was.Epochs[i].Sums, is.Epochs[i].Sums)
		r.Epoch = was.Epochs[i].Epoch
	}
	for _, a := range was.Tests {
		for _, b := range is.Tests {
			if a.Step == b.Step {
				sums(fmt.Sprintf("the test after epoch %d", a.Epoch), a.Sums, b.Sums)
			}
		}
	}
	return r
}

// number writes all of a number.
func number(f pipeline.Float) string { return strconv.FormatFloat(float64(f), 'g', -1, 64) }

// String says it in lines for a person.
func (r *Replayed) String() string {
	var b strings.Builder
	cause := "although this differs from the record"
	switch {
	case r.Difference != "":
		fmt.Fprintf(&b, "differs: %s\n", r.Difference)
		cause = "what differs from the record"
		if len(r.Causes) == 0 {
			b.WriteString("nothing of environment, binary, libraries, data and device differs from the record\n")
		}
	case r.Epoch == 0:
		fmt.Fprintf(&b, "identical through step %d\n", r.Step)
	default:
		fmt.Fprintf(&b, "identical through epoch %d\n", r.Epoch)
	}
	for _, c := range r.Causes {
		fmt.Fprintf(&b, "%s: %s\n", cause, c)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}
