package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"gotrain/configs"
)

// Verify compares the files of a run's folder with what the folder itself says of them: the configuration with its hash, the
// model and every checkpoint with their checksums, and whether the metrics can be read. It returns how many files are as they
// should be, and what is wrong with the others.
func Verify(run string) (good int, faults []Warning, err error) {
	record, err := ReadRecord(run)
	if err != nil {
		return 0, nil, err
	}
	check := func(path, problem string) {
		if problem == "" {
			good++
		} else {
			faults = append(faults, Warning{path, problem})
		}
	}
	good++ // the record
	path := filepath.Join(run, ConfigFile)
	cfg, err := configs.Load(path, nil)
	switch {
	case err != nil:
		check(path, "cannot be loaded: "+err.Error())
	case cfg.Hash() != record.Hash:
		check(path, fmt.Sprintf("has the hash %.8s..., where %s says %.8s...: it has changed since it was written", cfg.Hash(), RecordFile, record.Hash))
	default:
		check(path, "")
	}
	store := newCheckpoints(run, 0)
	if record.Model != nil {
		path := filepath.Join(run, modelPart)
		check(path, store.differs(path, *record.Model, RecordFile))
	}
	path = filepath.Join(run, MetricsFile)
	if _, err := ReadEvents(path, 0, func(Event) error { return nil }); err == nil {
		good++
	} else if !errors.Is(err, fs.ErrNotExist) {
		faults = append(faults, Warning{path, err.Error()})
	}
	all, err := store.list()
	if err != nil {
		return good, faults, err
	}
	for _, f := range all {
		if !store.committed(f.dir) {
			continue // it was not finished, and does not count
		}
		c, warning := store.verify(f)
		if warning != nil {
			faults = append(faults, *warning)
			continue
		}
		good += len(c.Parts) + 1
	}
	return good, faults, nil
}
