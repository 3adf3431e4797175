package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// memoryFiles is a file system in memory that tells apart what a crash would leave: of files what was synced, of folders
// the entries that SyncDir saw. It fails at the operation whose turn it is, with an error or as a machine that stops. The
// idea is that of the strict memory file system in cockroachdb/pebble.
type memoryFiles struct {
	root  *node
	until int   // operations that succeed before one fails; below 0: all
	fail  error // what the failing operation gives
	stop  bool  // all later ones fail too
}

type node struct {
	data, synced    []byte
	entries, stable map[string]*node // of a folder; nil for a file
}

func newFolder() *node { return &node{entries: map[string]*node{}, stable: map[string]*node{}} }

func newMemoryFiles() *memoryFiles { return &memoryFiles{root: newFolder(), until: -1} }

// turn counts an operation that changes something.
func (m *memoryFiles) turn() error {
	if m.until == 0 {
		if !m.stop {
			m.until = -1
		}
		return m.fail
	}
	m.until = max(m.until-1, -1)
	return nil
}

// crash leaves what each kind of crash leaves.
func (m *memoryFiles) crash(kind string) {
	m.until = -1
	m.root.crash(kind)
}

func (n *node) crash(kind string) {
	if kind == "entries lost" || kind == "all unsynced lost" {
		n.entries = maps.Clone(n.stable)
	}
	if kind == "data lost" || kind == "all unsynced lost" {
		n.data = slices.Clone(n.synced)
	}
	for _, e := range n.entries {
		e.crash(kind)
	}
}

// find gives the node at a path, and nil where there is none.
func (m *memoryFiles) find(path string) *node {
	n := m.root
	for _, name := range strings.FieldsFunc(filepath.Clean(path), func(r rune) bool { return r == '/' }) {
		if n == nil || name != "." && n.entries == nil {
			return nil
		}
		if name != "." {
			n = n.entries[name]
		}
	}
	return n
}

func (m *memoryFiles) folder(path string) (*node, error) {
	if n := m.find(path); n != nil && n.entries != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
}

func (m *memoryFiles) Mkdir(dir string) error {
	if err := m.turn(); err != nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	folder, err := m.folder(filepath.Dir(dir))
	if err != nil {
		return err
	}
	if m.find(dir) != nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.EEXIST}
	}
	folder.entries[filepath.Base(dir)] = newFolder()
	return nil
}

func (m *memoryFiles) Create(path string) (file, error) {
	if err := m.turn(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	folder, err := m.folder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	n := &node{}
	folder.entries[filepath.Base(path)] = n
	return &memoryFile{files: m, node: n, path: path}, nil
}

func (m *memoryFiles) Open(path string) (file, error) {
	n := m.find(path)
	if n == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	}
	return &memoryFile{files: m, node: n, path: path, Reader: bytes.NewReader(n.data)}, nil
}

func (m *memoryFiles) Rename(from, to string) error {
	if err := m.turn(); err != nil {
		return err
	}
	source, err := m.folder(filepath.Dir(from))
	if err != nil {
		return err
	}
	target, err := m.folder(filepath.Dir(to))
	if err != nil {
		return err
	}
	n := source.entries[filepath.Base(from)]
	if old := target.entries[filepath.Base(to)]; n == nil || old != nil && len(old.entries) > 0 {
		return fmt.Errorf("rename %s %s: %w", from, to, syscall.ENOTEMPTY)
	}
	delete(source.entries, filepath.Base(from))
	target.entries[filepath.Base(to)] = n
	return nil
}

func (m *memoryFiles) RemoveAll(path string) error {
	if m.find(path) == nil {
		return nil
	}
	if err := m.turn(); err != nil {
		return err
	}
	folder, err := m.folder(filepath.Dir(path))
	if err == nil {
		delete(folder.entries, filepath.Base(path))
	}
	return err
}

func (m *memoryFiles) List(dir string) ([]string, error) {
	n := m.find(dir)
	if n == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

func (m *memoryFiles) SyncDir(dir string) error {
	if err := m.turn(); err != nil {
		return err
	}
	folder, err := m.folder(dir)
	if err == nil {
		folder.stable = maps.Clone(folder.entries)
	}
	return err
}

type memoryFile struct {
	*bytes.Reader
	files *memoryFiles
	node  *node
	path  string
}

// Write writes half of what it is given when it fails, as a full disk may.
func (f *memoryFile) Write(p []byte) (int, error) {
	if err := f.files.turn(); err != nil {
		f.node.data = append(f.node.data, p[:len(p)/2]...)
		return len(p) / 2, &fs.PathError{Op: "write", Path: f.path, Err: err}
	}
	f.node.data = append(f.node.data, p...)
	return len(p), nil
}

func (f *memoryFile) Sync() error {
	if err := f.files.turn(); err != nil {
		return &fs.PathError{Op: "sync", Path: f.path, Err: err}
	}
	f.node.synced = slices.Clone(f.node.data)
	return nil
}

func (f *memoryFile) Close() error { return nil }

var _ io.ReaderAt = (*memoryFile)(nil)

// stores are the states that a store can be in before it saves step 30: with what is saved there, and what there is to
// fall back on.
var stores = []struct {
	name  string
	keep  int
	steps []int64
	old   string // newest content
	later bool   // it is of a later step than 30, and counts until it is removed
}{
	{"first save", 2, nil, "", false},
	{"second save", 2, []int64{10}, "old 10", false},
	{"save that removes the oldest", 2, []int64{10, 20}, "old 20", false},
	{"save that keeps itself alone", 1, []int64{20}, "old 20", false},
	{"save of a step that was saved", 1, []int64{30}, "old 30", false},
	{"save of a step before others", 2, []int64{20, 30, 40}, "old 40", true},
}

// prepared gives a store in memory with the steps saved.
func prepared(t *testing.T, keep int, steps []int64) (*checkpoints, *memoryFiles) {
	m := newMemoryFiles()
	c := &checkpoints{run: "runs/r", keep: 9, files: m}
	for _, step := range steps {
		save(t, c, step, fmt.Sprint("old ", step))
	}
	c.keep = keep
	return c, m
}

var errStopped = errors.New("the machine stopped")

func TestACrashAtAnyMomentLeavesAWholeCheckpoint(t *testing.T) {
	for _, s := range stores {
		for _, kind := range []string{"nothing lost", "data lost", "entries lost", "all unsynced lost"} {
			t.Run(s.name+", "+kind, func(t *testing.T) {
				for until, done := 0, false; !done; until++ {
					c, m := prepared(t, s.keep, s.steps)
					m.until, m.fail, m.stop = until, errStopped, true
					err := c.Save(30, partsOf("new"))
					done = err == nil
					m.crash(kind)
					got, _ := load(t, c)
					if got != "new" && (done || got != s.old) {
						t.Fatalf("stopped after %d operations (%v): loaded %q", until, err, got)
					}
					save(t, c, 50, "later")
					if got, warnings := load(t, c); got != "later" || warnings != nil {
						t.Fatalf("stopped after %d operations, saved again: loaded %q, %q", until, got, warnings)
					}
				}
			})
		}
	}
}

func TestAnErrorAtAnyMomentLeavesAWholeCheckpoint(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			for until, done := 0, false; !done; until++ {
				c, m := prepared(t, s.keep, s.steps)
				m.until, m.fail = until, syscall.ENOSPC
				err := c.Save(30, partsOf("new"))
				done = err == nil
				if !done && !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("after %d operations: %v", until, err)
				}
				got, warnings := load(t, c)
				removing := !done && strings.HasPrefix(err.Error(), "removing old checkpoints after that of step 30 was saved: ")
				allowed := []string{s.old}
				if done || removing {
					allowed = []string{"new"}
				}
				if removing && s.later {
					allowed = []string{"new", s.old}
				}
				if !slices.Contains(allowed, got) || warnings != nil && !removing {
					t.Fatalf("after %d operations (%v): loaded %q, %q; want %q", until, err, got, warnings, allowed)
				}
				for _, dir := range folders(t, c) {
					files, _ := m.List(c.root() + "/" + dir)
					if i := slices.IndexFunc(files, func(f string) bool { return strings.HasSuffix(f, temporary) }); i >= 0 {
						t.Fatalf("after %d operations (%v): %s is left in %s", until, err, files[i], dir)
					}
				}
			}
		})
	}
}

func TestAFullDiskIsNamed(t *testing.T) {
	c, m := prepared(t, 3, []int64{10})
	parts := partsOf("new")
	parts[1].Write = func(w io.Writer) error { _, err := w.Write(make([]byte, 1<<20)); return err }
	// The folder and two syncs; of the first part create, write, sync, rename, sync; of the second create.
	m.until, m.fail = 9, syscall.ENOSPC
	err := c.Save(20, parts)
	want := "saving the checkpoint of step 20 (that of step 10 still counts): writing " +
		"runs/r/checkpoints/000000000020/optimizer.safetensors: no space left on device after 524288 bytes: " +
		"free some space there, or choose another outputDir"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
