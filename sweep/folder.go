package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gotrain/configs"
	"gotrain/pipeline"
)

// A sweep's folder is outputDir/sweeps/NAME-ID, and holds
//
//	sweep.yaml       the file as it was when the sweep began
//	trials/001.yaml  the configuration of each trial, resolved
//	trials/001-1.log what its first run has said
//	runs/            the runs, trial-001-1-... for instance; an outputDir like any other
//	journal.jsonl    what happened, an Event a line
//	lock             held by the process that runs the sweep
//
// and in the end results.json, results.csv, best.yaml and plots.
const (
	journalFile = "journal.jsonl"
	runsFolder  = "runs"
	sweepsDir   = "sweeps"
)

// Event is a line of the journal: what has become of a run.
type Event struct {
	Time   time.Time `json:"time"`
	Trial  int       `json:"trial"`  // from 1
	Repeat int       `json:"repeat"` // from 1; 0: all of a trial
	Status string    `json:"status"` // Proposed, Started, Invalid, Stopped or one of a run
	Error  string    `json:"error,omitempty"`
	Run    string    `json:"run,omitempty"`    // name of its folder
	Values []string  `json:"values,omitempty"` // of a trial that was proposed when others had ended, one a parameter
}

// Statuses of a sweep's runs beside those of package pipeline and Crashed of package archive.
const (
	Started  = "started"
	Proposed = "proposed"
	Invalid  = "invalid" // its configuration or data is wrong
)

// folder is the folder of a sweep that this process runs.
type folder struct {
	dir     string
	lock    *os.File
	journal *os.File
	events  []Event
}

// openFolder opens the folder of a plan, and makes it where there is none. restart makes a new one in any case.
func openFolder(p *Plan, restart bool) (f *folder, err error) {
	dir, err := p.folder(restart)
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"trials", runsFolder} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
			return nil, fmt.Errorf("outputDir: %w", err)
		}
	}
	f = &folder{dir: dir}
	opened := f // what is returned with an error is nil
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	if f.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o666); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s: another process runs this sweep: wait for it, or stop it", dir)
	} else if err != nil {
		return nil, fmt.Errorf("locking %s: %w: choose an outputDir on a file system with locks", f.lock.Name(), err)
	}
	f.journal, f.events, err = openJournal(filepath.Join(dir, journalFile))
	return f, err
}

// folder is where a plan's sweep is, or will be.
func (p *Plan) folder(restart bool) (string, error) {
	var out string
	for _, t := range p.Trials {
		if t.Config != nil {
			out = t.Config.OutputDir
			break
		}
	}
	first := filepath.Join(out, sweepsDir, p.Name+"-"+p.ID)
	dir, last := first, first
	for n := 2; ; n++ {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
		last, dir = dir, fmt.Sprintf("%s-%d", first, n)
	}
	if restart {
		return dir, nil
	}
	return last, nil
}

func (f *folder) close() {
	for _, c := range []*os.File{f.journal, f.lock} {
		if c != nil {
			c.Close()
		}
	}
}

// openJournal reads a journal, and opens it for appending behind its last whole line: what follows was being written when a process
// was killed.
func openJournal(path string) (j *os.File, events []Event, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	for n, line := range bytes.Split(text[:end], []byte("\n")) {
		var e Event
		if len(line) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w: mend the line, or begin anew with -restart", path, n+1, err)
		}
		events = append(events, e)
	}
	if j, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666); err != nil {
		return nil, nil, err
	}
	if err := j.Truncate(int64(end)); err != nil {
		j.Close()
		return nil, nil, err
	}
	return j, events, nil
}

// note appends an event to the journal.
func (f *folder) note(e Event) error {
	e.Time = time.Now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := f.journal.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the journal of the sweep: %w", err)
	}
	f.events = append(f.events, e)
	return f.journal.Sync()
}

// trialFile is where the configuration of a trial is.
func (f *folder) trialFile(trial int) string {
	return filepath.Join(f.dir, "trials", fmt.Sprintf("%03d.yaml", trial))
}

// freeze writes the configuration of a trial, unless the sweep has begun with one.
func (f *folder) freeze(trial int, c *configs.Config) error {
	path := f.trialFile(trial)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return writeFile(path, c.YAML())
}

// writeFile replaces a file as a whole.
func writeFile(path string, content []byte) error {
	if err := os.WriteFile(path+".tmp", content, 0o666); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// runName is the name of a run.
func runName(trial, repeat int) string { return fmt.Sprintf("trial-%03d-%d", trial, repeat) }

// findRun finds the newest run of a name in the sweep's folder; "" if there is none.
func (f *folder) findRun(name string) (dir string, r pipeline.Record, err error) {
	all := filepath.Join(f.dir, runsFolder)
	entries, err := os.ReadDir(all)
	if err != nil {
		return "", r, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name+"-") {
			continue
		}
		found, err := pipeline.ReadRecord(filepath.Join(all, e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has not begun
		case err != nil:
			return "", r, err
		case found.Name == name && (dir == "" || found.Started.After(r.Started)):
			dir, r = filepath.Join(all, e.Name()), found
		}
	}
	return dir, r, nil
}
