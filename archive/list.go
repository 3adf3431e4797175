package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gotrain/pipeline"
)

// Runs lists all runs, the newest first, after it has brought the index to what their folders say. faults are the folders that
// cannot be read, which are left out of the list.
func (x *Index) Runs(ctx context.Context) (runs []Run, faults []error, err error) {
	known, ids, err := x.read(ctx)
	if err != nil {
		return nil, nil, indexError(filepath.Join(x.dir, IndexFile), err)
	}
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		return nil, nil, err
	}
	changed := false
	gone := maps.Clone(ids)
	for _, e := range entries {
		folder := e.Name()
		if !e.IsDir() || strings.HasPrefix(folder, ".") {
			continue
		}
		before, indexed := ids[folder]
		now, err := look(filepath.Join(x.dir, folder))
		switch {
		case errors.Is(err, fs.ErrNotExist): // no run, or one that has not begun
			continue
		case err == nil && indexed && before.size == now.size && before.time == now.time && !x.moved(folder, before):
			delete(gone, folder)
			continue
		case err == nil:
			err = x.Sync(ctx, folder)
		}
		if errors.As(err, new(indexFault)) {
			return nil, nil, err
		}
		if err != nil {
			faults = append(faults, err)
		}
		delete(gone, folder)
		changed = true
	}
	for folder, s := range gone {
		if _, err := x.db.ExecContext(ctx, "DELETE FROM runs WHERE id = ?", s.id); err != nil {
			return nil, nil, indexError(filepath.Join(x.dir, folder), err)
		}
		changed = true
	}
	if changed {
		if known, _, err = x.read(ctx); err != nil {
			return nil, nil, indexError(filepath.Join(x.dir, IndexFile), err)
		}
	}
	return known, faults, nil
}

// look gives what tells whether a run's record has changed.
func look(dir string) (s seen, err error) {
	info, err := os.Stat(filepath.Join(dir, pipeline.RecordFile))
	if err != nil {
		return s, err
	}
	s.size, s.time = info.Size(), info.ModTime().UnixNano()
	return s, nil
}

// moved says whether a run whose record is as it was has gone on, or has lost its process, since the index was written. The
// metrics of one that has ended do not change before its record does.
func (x *Index) moved(folder string, before seen) bool {
	if before.status != pipeline.Running && before.status != Crashed {
		return false
	}
	dir := filepath.Join(x.dir, folder)
	status, err := effective(dir, pipeline.Running)
	if err != nil || status != before.status {
		return true
	}
	info, err := os.Stat(filepath.Join(dir, pipeline.MetricsFile))
	return err == nil && info.Size() != before.read
}

// read gives all runs of the index, the newest first, and what was seen of their folders.
func (x *Index) read(ctx context.Context) (runs []Run, ids map[string]seen, err error) {
	rows, err := x.db.QueryContext(ctx, `SELECT id, record_size, record_time, read, folder, name, hash, status, error, started, ended, attempts, device,
		precision, workers, bits, epochs, max_epochs, steps, loss, best_error, best_of, samples, seconds, version, engine, team
		FROM runs ORDER BY started DESC, folder DESC`)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	ids = map[string]seen{}
	for rows.Next() {
		var r Run
		var s seen
		var started, ended int64
		var samples float64
		if err := rows.Scan(&s.id, &s.size, &s.time, &s.read, &r.Folder, &r.Name, &r.Hash, &r.Status, &r.Error, &started, &ended, &r.Attempts, &r.Device,
			&r.Precision, &r.Workers, &r.Bits, &r.Epochs, &r.MaxEpochs, &r.Steps, &r.Loss, &r.BestError, &r.BestOf, &samples, &r.Seconds,
			&r.Version, &r.Engine, &r.Team); err != nil {
			return nil, nil, err
		}
		r.Started = time.Unix(0, started).UTC()
		if ended != 0 {
			r.Ended = time.Unix(0, ended).UTC()
		}
		if r.Seconds > 0 {
			r.SamplesPerSecond = samples / r.Seconds
		}
		s.status = r.Status
		runs, ids[r.Folder] = append(runs, r), s
	}
	return runs, ids, rows.Err()
}

// values are the values of a key of the configuration, by the folders of the runs.
func (x *Index) values(ctx context.Context, key string) (map[string]string, error) {
	rows, err := x.db.QueryContext(ctx, "SELECT folder, value FROM config JOIN runs ON runs.id = run WHERE key = ?", key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var folder, value string
		if err := rows.Scan(&folder, &value); err != nil {
			return nil, err
		}
		found[folder] = value
	}
	return found, rows.Err()
}

// Find gives the run that a word means: `latest`, the name of a folder, or its path, a name, of whose runs it takes the newest,
// or the beginning of a hash of at least 4 digits, of whose runs it takes the newest too.
func Find(runs []Run, dir, word string) (Run, error) {
	if len(runs) == 0 {
		return Run{}, fmt.Errorf("%s: there is no run in %s", word, dir)
	}
	if word == "latest" {
		return runs[0], nil
	}
	base := word
	if abs, err := filepath.Abs(word); err == nil && strings.ContainsRune(word, filepath.Separator) {
		if root, err := filepath.Abs(dir); err == nil && filepath.Dir(abs) == root {
			base = filepath.Base(abs)
		}
	}
	for _, match := range []func(Run) bool{
		func(r Run) bool { return r.Folder == base },
		func(r Run) bool { return r.Name == word },
	} {
		if i := slices.IndexFunc(runs, match); i >= 0 {
			return runs[i], nil
		}
	}
	var found []Run
	for _, r := range runs {
		if len(word) >= 4 && strings.HasPrefix(r.Hash, strings.ToLower(word)) {
			found = append(found, r)
		}
	}
	if i := slices.IndexFunc(found, func(r Run) bool { return r.Hash != found[0].Hash }); i >= 0 {
		return Run{}, fmt.Errorf("%s: %s and %s begin so: give more digits, or a folder's name", word, found[0].Hash, found[i].Hash)
	}
	if len(found) == 0 {
		return Run{}, fmt.Errorf("%s: no run in %s has this name, folder or hash: gotrain runs lists them", word, dir)
	}
	return found[0], nil
}
