package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gotrain/configs"
)

// Record is what a run's folder says of the run, in run.json. The resolved configuration lies beside it in config.yaml.
type Record struct {
	Name    string    `json:"name"`
	Hash    string    `json:"hash"` // of the configuration
	Started time.Time `json:"started"`
	Status  string    `json:"status"`  // running, finished, interrupted, failed, diverged
	Threads int       `json:"threads"` // of a worker; sums are the same for the same number only
	Version string    `json:"version"`
	Engine  string    `json:"engine"` // the libraries and instruction sets in use
}

// Statuses of a run.
const (
	running     = "running"
	finished    = "finished"
	interrupted = "interrupted"
	failed      = "failed"
	diverged    = "diverged"
)

const (
	recordFile = "run.json"
	configFile = "config.yaml"
)

func readRecord(dir string) (r Record, err error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, recordFile), err)
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
		r, err := readRecord(filepath.Join(outputDir, e.Name()))
		if err != nil || r.Name != name { // no run, or one that was killed before it began
			continue
		}
		if dir == "" || r.Started.After(last.Started) {
			dir, last = filepath.Join(outputDir, e.Name()), r
		}
	}
	return dir, last, nil
}

// ChangedError refuses to continue a run with another configuration.
type ChangedError struct {
	Dir     string
	Changes []configs.Change
}

func (e *ChangedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not finished, and its configuration was another:", e.Dir)
	for _, c := range e.Changes {
		fmt.Fprintf(&b, "\n    %s", c)
	}
	b.WriteString("\ncontinue it with -accept-changes, start a new run with -restart, or give this one another name=")
	return b.String()
}

// chooseFolder decides whether the last run of the configuration's name is continued, and in which folder to run.
func chooseFolder(s Settings, now time.Time) (dir string, r Record, resume bool, err error) {
	cfg := s.Config
	dir, r, err = lastRun(cfg.OutputDir, cfg.Name)
	if err != nil {
		return "", r, false, err
	}
	if dir != "" && r.Status != finished || dir != "" && s.AcceptChanges {
		if r.Hash == cfg.Hash() || s.AcceptChanges {
			return dir, r, true, nil
		}
		if !s.Restart {
			old, err := configs.Load(filepath.Join(dir, configFile), nil)
			if err != nil {
				return "", r, false, fmt.Errorf("%s is not finished, and its configuration cannot be read; start a new run with -restart: %w", dir, err)
			}
			return "", r, false, &UsageError{&ChangedError{Dir: dir, Changes: configs.Diff(old, cfg)}}
		}
	}
	r = Record{Name: cfg.Name, Hash: cfg.Hash(), Started: now.UTC(), Status: running, Threads: threads(cfg), Version: s.Version}
	dir = filepath.Join(cfg.OutputDir, fmt.Sprintf("%s-%s-%s", cfg.Name, now.Format("20060102-150405"), r.Hash[:8]))
	for n := 2; ; n++ { // two runs within a second
		if _, err := os.Stat(filepath.Join(dir, recordFile)); err != nil {
			return dir, r, false, nil
		}
		dir = filepath.Join(cfg.OutputDir, fmt.Sprintf("%s-%s-%s-%d", cfg.Name, now.Format("20060102-150405"), r.Hash[:8], n))
	}
}
