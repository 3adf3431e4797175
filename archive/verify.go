package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"gotrain/pipeline"
)

// Verify compares the files of a run with their checksums; with data, the files that its data was read from too.
func Verify(ctx context.Context, dir string, r Run, data bool) (good int, faults []pipeline.Warning, err error) {
	run := filepath.Join(dir, r.Folder)
	good, faults, err = pipeline.Verify(run)
	if err != nil || !data {
		return good, faults, err
	}
	h, err := ReadHistory(run)
	if err != nil {
		return good, faults, nil // among the faults
	}
	a, ok, err := LastAttempt(run, h)
	if err != nil {
		return good, faults, err
	}
	if !ok {
		return good, faults, fmt.Errorf("%s: the run's record does not say what its data was", r.Folder)
	}
	files, err := pipeline.ReadData(run, a.Number)
	if errors.Is(err, fs.ErrNotExist) {
		return good, faults, fmt.Errorf("%s: the run ended before the checksums of its data were known", r.Folder)
	}
	if err != nil {
		return good, faults, err
	}
	for _, f := range files {
		if difference := f.Differs(ctx); difference != "" {
			faults = append(faults, pipeline.Warning{Path: f.Path, Problem: difference})
		} else {
			good++
		}
	}
	return good, faults, ctx.Err()
}
