package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// IndexFile is the name of the index in the folder of all runs.
const IndexFile = "runs.db"

// Index is the index over the runs' folders below one. Several processes may use it at the same time; each of its methods may
// be called from several goroutines.
type Index struct {
	dir string
	db  *sql.DB
}

// Open opens the index of a folder of runs, and makes it where there is none.
func Open(ctx context.Context, dir string) (*Index, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, noRuns(dir)
	}
	path := filepath.Join(dir, IndexFile)
	db, err := open(ctx, path)
	if err != nil {
		return nil, indexError(path, err)
	}
	return &Index{dir, db}, nil
}

func noRuns(dir string) error {
	return fmt.Errorf("%s: there is no such folder, and so no run: name the outputDir of the runs with -runs DIR", dir)
}

// indexError says what to do about a fault of the index.
func indexError(path string, err error) error {
	var e sqlite3.Error
	if errors.As(err, &e) {
		switch e.Code {
		case sqlite3.ErrNotADB, sqlite3.ErrCorrupt:
			return fmt.Errorf("%s: %w: gotrain runs reindex makes it anew from the folders", path, err)
		case sqlite3.ErrReadonly, sqlite3.ErrCantOpen, sqlite3.ErrPerm:
			return fmt.Errorf("%s: %w: make the folder writable, or copy it", path, err)
		}
	}
	return fmt.Errorf("%s: %w", path, err)
}

func open(ctx context.Context, path string) (*sql.DB, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(ctx, path); err != nil {
			return nil, err
		}
	}
	db, err := connect(path)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, db, path); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// connect opens a database whose transactions begin by taking the right to write, and wait for it: so none fails in its middle
// because another came first.
func connect(path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path}
	if !filepath.IsAbs(path) {
		u = url.URL{Scheme: "file", Opaque: url.PathEscape(path)}
	}
	u.RawQuery = "_txlock=immediate&_busy_timeout=30000&_foreign_keys=on&_synchronous=normal"
	db, err := sql.Open("sqlite3", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// create makes an index under another name first, so that whoever finds it finds it whole: several processes may begin at once,
// and the change to a write-ahead log waits for nobody.
func create(ctx context.Context, path string) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".index-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	temporary := filepath.Join(dir, IndexFile)
	db, err := connect(temporary)
	if err != nil {
		return err
	}
	if walWorks(dir) {
		_, err = db.ExecContext(ctx, "PRAGMA journal_mode = wal")
	}
	if err == nil {
		err = migrate(ctx, db, path)
	}
	if e := db.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if err = os.Link(temporary, path); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil { // a file system without links
		return os.Rename(temporary, path)
	}
	return nil
}

// Numbers of file systems that share no memory between the machines that have them mounted, which a write-ahead log needs; see
// statfs(2).
var remote = map[int64]bool{
	0x6969:     true, // NFS
	0x517b:     true, // SMB
	0xff534d42: true, // CIFS
	0xfe534d42: true, // SMB2
	0x01021997: true, // 9p
	0x65735546: true, // FUSE: sshfs and others
	0x0bd00bd0: true, // Lustre
	0x47504653: true, // GPFS
	0x19830326: true, // BeeGFS
	0x00c36400: true, // Ceph
	0x73757245: true, // Coda
	0x5346414f: true, // AFS
}

// walWorks says whether a write-ahead log works in a folder.
func walWorks(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && !remote[int64(uint32(s.Type))]
}

// Close closes the index.
func (x *Index) Close() error { return x.db.Close() }

// Dir is the folder of all runs.
func (x *Index) Dir() string { return x.dir }

// Reindex makes the index of a folder of runs anew. One that cannot be opened is removed before.
func Reindex(ctx context.Context, dir string) (runs int, faults []error, err error) {
	x, err := Open(ctx, dir)
	if err != nil {
		if _, e := os.Stat(dir); e != nil {
			return 0, nil, err
		}
		path := filepath.Join(dir, IndexFile)
		for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
			if e := os.Remove(path + suffix); e != nil && !errors.Is(e, fs.ErrNotExist) {
				return 0, nil, errors.Join(err, e)
			}
		}
		if x, err = Open(ctx, dir); err != nil {
			return 0, nil, err
		}
	}
	defer x.Close()
	if _, err := x.db.ExecContext(ctx, "DELETE FROM runs"); err != nil {
		return 0, nil, indexError(filepath.Join(dir, IndexFile), err)
	}
	all, faults, err := x.Runs(ctx)
	return len(all), faults, err
}
