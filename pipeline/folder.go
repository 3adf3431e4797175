package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gotrain/configs"
	"gotrain/cuda"
)

// Record is what a run's folder says of the run, in run.json. The resolved configuration lies beside it in config.yaml.
type Record struct {
	Name    string    `json:"name"`
	Hash    string    `json:"hash"` // of the configuration
	Started time.Time `json:"started"`
	Status  string    `json:"status"`  // Running, Finished, Interrupted, Failed or Diverged
	Threads int       `json:"threads"` // of a worker; sums are the same for the same number only
	Version string    `json:"version"`
	Engine  string    `json:"engine"`           // the libraries and instruction sets in use
	Team    string    `json:"team"`             // the workers, and where they are
	Chosen  *choice   `json:"chosen,omitempty"` // what was chosen at the first start

	Convolutions *cuda.Choices `json:"convolutions,omitempty"` // chosen then too; nil: nothing was to be chosen

	Data  dataRecord  `json:"data"`
	Model *partRecord `json:"model,omitempty"` // the final model's file, once it is written
}

// Statuses of a run. One that says that it is running, and whose folder nobody holds, has crashed.
const (
	Running     = "running"
	Finished    = "finished"
	Interrupted = "interrupted"
	Failed      = "failed"
	Diverged    = "diverged"
)

// status is that of a run whose command ended so.
func status(err error) string {
	var d *DivergedError
	switch {
	case err == nil:
		return Finished
	case errors.Is(err, ErrInterrupted):
		return Interrupted
	case errors.As(err, &d):
		return Diverged
	}
	return Failed
}

// The files of a run's folder that say what it is.
const (
	RecordFile = "run.json"
	ConfigFile = "config.yaml"
)

// ReadRecord reads the record of a run's folder.
func ReadRecord(dir string) (r Record, err error) {
	b, err := os.ReadFile(filepath.Join(dir, RecordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, RecordFile), err)
	}
	return r, nil
}

// lastRun finds the newest run of a name; "" if there is none.
func lastRun(outputDir, name string) (dir string, last Record, err error) {
	entries, err := os.ReadDir(outputDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", last, nil
	}
	if err != nil {
		return "", last, fmt.Errorf("outputDir: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), name+"-") {
			continue
		}
		r, err := ReadRecord(filepath.Join(outputDir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) { // no run, or one that was killed before it began
			continue
		}
		if err != nil {
			return "", last, fmt.Errorf("looking for the last run of the name: %w: mend it, move its folder away, or choose another name", err)
		}
		if r.Name != name {
			continue
		}
		if dir == "" || r.Started.After(last.Started) {
			dir, last = filepath.Join(outputDir, e.Name()), r
		}
	}
	return dir, last, nil
}

// unfinished finds the run that may be continued; "" if there is none.
func (s Settings) unfinished() (dir string, last Record, err error) {
	if s.Run == "" {
		return lastRun(s.Config.OutputDir, s.Config.Name)
	}
	last, err = ReadRecord(s.Run)
	return s.Run, last, err
}

// ChangedError refuses to continue a run with another configuration or other data.
type ChangedError struct {
	Dir     string
	Changes []configs.Change
}

func (e *ChangedError) Error() string {
	var b strings.Builder
	what := "configuration"
	if slices.ContainsFunc(e.Changes, func(c configs.Change) bool { return strings.HasPrefix(c.Key, dataKey) }) {
		what = "configuration or data"
	}
	fmt.Fprintf(&b, "%s is not finished, and its %s was another:", e.Dir, what)
	for _, c := range e.Changes {
		fmt.Fprintf(&b, "\n    %s", c)
	}
	b.WriteString("\ncontinue it with -accept-changes, start a new run with -restart, or give this one another name=")
	return b.String()
}

// folder is where a run goes. Its fields are exported for the processes that are told by the one that chooses.
type folder struct {
	Dir     string
	Record  Record
	Resumed bool             // there is a run in it, which is continued
	Changes []configs.Change // of its configuration and data, accepted

	recorder *recorder // nil where this process does not lead
}

// chooseFolder decides whether the last run of the configuration's name is continued, and in which folder to run.
func chooseFolder(s Settings, data dataRecord, threads int, engine string, now time.Time) (folder, error) {
	cfg := s.Config
	dir, last, err := s.unfinished()
	if err != nil {
		return folder{}, err
	}
	if dir == "" || s.Restart || last.Status == Finished && !s.AcceptChanges {
		return unusedFolder(s, data, threads, engine, now), nil
	}
	changes, err := changesSince(dir, last, cfg)
	if err != nil {
		return folder{}, err
	}
	changes = append(changes, last.Data.changes(data)...)
	last.Data = data
	if len(changes) > 0 && !s.AcceptChanges {
		return folder{}, &UsageError{&ChangedError{Dir: dir, Changes: changes}}
	}
	if slices.ContainsFunc(changes, func(c configs.Change) bool { return c.Key == "threads" }) {
		last.Threads = threads
	}
	if slices.ContainsFunc(changes, func(c configs.Change) bool { return strings.HasPrefix(c.Key, "distributed.") }) {
		last.Chosen = nil
	}
	if slices.ContainsFunc(changes, func(c configs.Change) bool { return c.Key == "network.convolution" || c.Key == "precision" }) {
		last.Convolutions = nil
	}
	return folder{Dir: dir, Record: last, Resumed: true, Changes: changes}, nil
}

// changesSince lists what differs from a run's configuration and changes what is trained.
func changesSince(dir string, last Record, cfg *configs.Config) ([]configs.Change, error) {
	if last.Hash == cfg.Hash() {
		return nil, nil
	}
	old, err := configs.Load(filepath.Join(dir, ConfigFile), nil)
	if err != nil {
		return nil, fmt.Errorf("%s would be continued, and its configuration cannot be read; start a new run with -restart: %w", dir, err)
	}
	return slices.DeleteFunc(configs.Diff(old, cfg), func(c configs.Change) bool { return c.Aside }), nil
}

// unusedFolder names a folder that no run has.
func unusedFolder(s Settings, data dataRecord, threads int, engine string, now time.Time) folder {
	cfg := s.Config
	r := Record{Name: cfg.Name, Hash: cfg.Hash(), Started: now.UTC(), Status: Running, Threads: threads, Version: s.Version, Engine: engine, Data: data}
	if s.Replay != nil {
		r.Chosen, r.Convolutions = s.Replay.Chosen, s.Replay.Convolutions
	}
	first := filepath.Join(cfg.OutputDir, fmt.Sprintf("%s-%s-%s", cfg.Name, now.Format("20060102-150405"), r.Hash[:8]))
	dir := first
	for n := 2; ; n++ { // two runs within a second
		if _, err := os.Stat(filepath.Join(dir, RecordFile)); err != nil {
			return folder{Dir: dir, Record: r}
		}
		dir = fmt.Sprintf("%s-%d", first, n)
	}
}
