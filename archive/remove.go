package archive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gotrain/pipeline"
)

// Remove removes a run, its folder and what the index says of it. A run that goes on is refused.
func (x *Index) Remove(ctx context.Context, r Run) error {
	run := filepath.Join(x.dir, r.Folder)
	release, err := pipeline.Hold(run)
	if err != nil {
		return fmt.Errorf("%w: stop it first", err)
	}
	defer release()
	// Under another name first: half a run is none.
	gone := filepath.Join(x.dir, "."+r.Folder+".removed")
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(run, gone); err != nil {
		return err
	}
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if _, err := x.db.ExecContext(ctx, "DELETE FROM runs WHERE folder = ?", r.Folder); err != nil {
		return indexError(filepath.Join(x.dir, IndexFile), err)
	}
	return nil
}

// Prunable are the runs that have ended before a time, without the newest `keep` of each name. Those that go on are never
// among them.
func Prunable(runs []Run, keep int, before time.Time) []Run {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b Run) int { return b.Started.Compare(a.Started) })
	seen := map[string]int{}
	return slices.DeleteFunc(runs, func(r Run) bool {
		seen[r.Name]++
		end := r.Ended
		if end.IsZero() {
			end = r.Started
		}
		return seen[r.Name] <= keep || r.Status == pipeline.Running || !end.Before(before)
	})
}
