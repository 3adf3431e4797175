package pipeline

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// fileSystem is what the store needs of one, so that tests can let it fail and crash. Errors are those of package os.
type fileSystem interface {
	Mkdir(dir string) error
	Create(path string) (file, error) // empty, for writing
	Open(path string) (file, error)   // for reading
	Rename(from, to string) error
	RemoveAll(path string) error       // nil where there is nothing
	List(dir string) ([]string, error) // sorted names; none where there is no such folder
	SyncDir(dir string) error          // makes what was created, renamed and removed in dir outlast a crash
}

// file is an open file of a fileSystem.
type file interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Closer
	Sync() error // makes what was written outlast a crash
}

// osFiles is the operating system's fileSystem.
type osFiles struct{}

func (osFiles) Mkdir(dir string) error           { return os.Mkdir(dir, 0o777) }
func (osFiles) Create(path string) (file, error) { return osFile(os.Create(path)) }
func (osFiles) Open(path string) (file, error)   { return osFile(os.Open(path)) }
func (osFiles) Rename(from, to string) error     { return os.Rename(from, to) }
func (osFiles) RemoveAll(path string) error      { return os.RemoveAll(path) }

// osFile keeps a nil *os.File from becoming a file that is not nil.
func osFile(f *os.File, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFiles) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (osFiles) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// makeFolder makes a folder, and those above it, where they are missing, so that they outlast a crash.
func makeFolder(files fileSystem, dir string) error {
	parent := filepath.Dir(dir)
	err := files.Mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeFolder(files, parent); err != nil {
			return err
		}
		err = files.Mkdir(dir)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return files.SyncDir(parent)
}

// writeFile writes a file so that, whenever the machine stops, there is the whole new file or what was there before: under
// a temporary name, synced, renamed, the folder synced. After an error the temporary is gone.
func writeFile(files fileSystem, dir string, p Part) (partRecord, error) {
	path := filepath.Join(dir, p.Name)
	f, err := files.Create(path + temporary)
	if err != nil {
		return partRecord{}, unwritable(path, 0, err)
	}
	w := &summed{w: f, hash: sha256.New()}
	buffer := bufio.NewWriterSize(w, 1<<16)
	if err = p.Write(buffer); err == nil {
		err = buffer.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil { // some file systems say at Close that the disk is full
		err = e
	}
	if err == nil {
		err = files.Rename(path+temporary, path)
	}
	if err == nil {
		err = files.SyncDir(dir)
	}
	if err != nil {
		return partRecord{}, errors.Join(unwritable(path, w.size, err), files.RemoveAll(path+temporary))
	}
	return partRecord{p.Name, w.size, hex.EncodeToString(w.hash.Sum(nil))}, nil
}

// summed counts and hashes what it writes.
type summed struct {
	w    io.Writer
	size int64
	hash hash.Hash
}

func (s *summed) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.size += int64(n)
	s.hash.Write(p[:n])
	return n, err
}

// unwritable says what could not be written, how far it came, and what to do about it.
func unwritable(path string, written int64, err error) error {
	cause, remedy := err, ""
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		cause = p.Err // its path is the temporary's
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = ": free some space there, or choose another outputDir"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		remedy = ": make the folder writable, or choose another outputDir"
	case errors.Is(err, fs.ErrNotExist):
		remedy = ": its folder is not there: choose another outputDir, or make the folder"
	case errors.Is(err, syscall.ENOTDIR):
		remedy = ": a file stands where a folder is needed: move it away, or choose another outputDir"
	}
	if written > 0 {
		return fmt.Errorf("writing %s: %w after %d bytes%s", path, cause, written, remedy)
	}
	return fmt.Errorf("writing %s: %w%s", path, cause, remedy)
}
