package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checkpoints is the store of a run's checkpoints:
//
//	RUN/checkpoints/000000000390/model.safetensors   the parts of step 390
//	                             optimizer.safetensors
//	                             state.json
//	                             manifest.json       written last: from here on the checkpoint counts
//
// Each file is written under a temporary name, synced, renamed, its folder synced, so that a crash at any moment leaves
// the checkpoints before it as they were. One process at a time may use a store; see lockRun.
//
// Of several processes the leading one writes all parts, which the others have sent it; see collect.
type checkpoints struct {
	run   string // the run's folder
	keep  int    // newest checkpoints kept; below 1: all
	files fileSystem
}

// newCheckpoints gives the store of a run's folder, which need not exist yet.
func newCheckpoints(run string, keep int) *checkpoints {
	return &checkpoints{run: run, keep: keep, files: osFiles{}}
}

func (c *checkpoints) root() string { return filepath.Join(c.run, "checkpoints") }
func (c *checkpoints) folder(step int64) string {
	return filepath.Join(c.root(), fmt.Sprintf("%012d", step))
}

// A checkpoint of a step that already has one replaces it: the old one bears this suffix until the new one counts.
const replaced = ".old"

// Save writes the checkpoint of a step and removes those that keep leaves no room for, along with those of later steps:
// they are broken, or training would not have come back to this step. After an error the earlier checkpoints count as
// before.
func (c *checkpoints) Save(step int64, parts []Part) error {
	if err := c.setAside(step); err != nil {
		return fmt.Errorf("saving the checkpoint of step %d: %w", step, err)
	}
	if err := c.write(step, parts); err != nil {
		return c.abandon(step, err)
	}
	if err := c.prune(step); err != nil {
		return fmt.Errorf("removing old checkpoints after that of step %d was saved: %w", step, err)
	}
	return nil
}

// setAside makes room for the checkpoint of a step: one that is there already keeps counting under another name.
func (c *checkpoints) setAside(step int64) error {
	dir := c.folder(step)
	if !c.committed(dir) {
		return c.files.RemoveAll(dir)
	}
	if err := c.files.RemoveAll(dir + replaced); err != nil {
		return err
	}
	return c.files.Rename(dir, dir+replaced)
}

func (c *checkpoints) write(step int64, parts []Part) error {
	if err := c.begin(step); err != nil {
		return err
	}
	var records []partRecord
	for _, p := range parts {
		r, err := c.writePart(step, p)
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	return c.commit(step, records)
}

// begin makes the empty folder of a step's checkpoint.
func (c *checkpoints) begin(step int64) error {
	dir := c.folder(step)
	if err := makeFolder(c.files, dir); err != nil {
		return unwritable(dir, 0, err)
	}
	if err := c.files.SyncDir(c.run); err != nil { // an earlier try may have made its folder and come no further
		return unwritable(c.run, 0, err)
	}
	return nil
}

// writePart writes one part of the checkpoint that was begun.
func (c *checkpoints) writePart(step int64, p Part) (partRecord, error) {
	if !partName(p.Name) {
		return partRecord{}, fmt.Errorf("%q cannot be the name of a checkpoint's part", p.Name)
	}
	return writeFile(c.files, c.folder(step), p)
}

// commit makes the checkpoint count.
func (c *checkpoints) commit(step int64, records []partRecord) error {
	_, err := writeFile(c.files, c.folder(step), newManifest(step, records).part())
	return err
}

// abandon removes what was written of a checkpoint, and gives the error that says so.
func (c *checkpoints) abandon(step int64, cause error) error {
	err := c.remove(c.folder(step))
	left := "there is none before it"
	if all, e := c.list(); e == nil {
		for _, f := range all {
			if c.committed(f.dir) {
				left = fmt.Sprintf("that of step %d still counts", f.step)
				break
			}
		}
	}
	return errors.Join(fmt.Errorf("saving the checkpoint of step %d (%s): %w", step, left, cause), err)
}

// prune removes the checkpoints that Save's comment names, and what crashes have left.
func (c *checkpoints) prune(step int64) error {
	found, err := c.list()
	if err != nil {
		return err
	}
	kept := 0
	for _, f := range found {
		if f.step <= step && !f.replaced && c.committed(f.dir) && (c.keep < 1 || kept < c.keep) {
			kept++
			continue
		}
		if err := c.remove(f.dir); err != nil {
			return err
		}
	}
	return c.files.SyncDir(c.root()) // or a crash could bring a later step's back
}

// remove removes a checkpoint, its manifest first: a crash halfway leaves one that does not count.
func (c *checkpoints) remove(dir string) error {
	if err := c.files.RemoveAll(filepath.Join(dir, manifestName)); err != nil {
		return err
	}
	return c.files.RemoveAll(dir)
}

// WriteRunFile writes a file into the run's folder itself, the final model for instance, as safely as a checkpoint's
// part.
func (c *checkpoints) WriteRunFile(p Part) error {
	if err := makeFolder(c.files, c.run); err != nil {
		return unwritable(c.run, 0, err)
	}
	_, err := writeFile(c.files, c.run, p)
	return err
}

// RemoveRunFile removes a file of the run's folder, where it is there, so that no crash brings it back.
func (c *checkpoints) RemoveRunFile(name string) error {
	if err := c.files.RemoveAll(filepath.Join(c.run, name)); err != nil {
		return err
	}
	return c.files.SyncDir(c.run)
}

// found is a folder among the checkpoints, whole or not.
type found struct {
	dir      string
	step     int64
	replaced bool // set aside while a new one of the same step is written
}

var folderName = regexp.MustCompile(`^([0-9]{12,18})(\` + replaced + `)?$`)

// list gives the checkpoints' folders, newest first, one set aside after the one that replaces it. Files of other names
// are not the store's.
func (c *checkpoints) list() ([]found, error) {
	names, err := c.files.List(c.root())
	if err != nil {
		return nil, err
	}
	var all []found
	for _, name := range names {
		m := folderName.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		step, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, found{filepath.Join(c.root(), name), step, m[2] != ""})
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.step, a.step), strings.Compare(a.dir, b.dir))
	})
	return all, nil
}

// committed says whether a folder has a manifest.
func (c *checkpoints) committed(dir string) bool {
	names, err := c.files.List(dir)
	return err == nil && slices.Contains(names, manifestName)
}
