package pipeline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// runLock keeps a second process from training in a run's folder. The kernel drops it when the process ends, however it
// ends; the file stays, and names who held the lock last.
type runLock struct{ f *os.File }

// lockRun makes the run's folder where it is missing, and locks it, or says who has.
func lockRun(run string) (*runLock, error) {
	if err := makeFolder(osFiles{}, run); err != nil {
		return nil, unwritable(run, 0, err)
	}
	path := filepath.Join(run, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, unwritable(path, 0, err)
	}
	err = syscall.EINTR
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		if err = holder(f); err == nil {
			return &runLock{f}, nil
		}
		err = unwritable(path, 0, err)
	} else if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s: %s trains there: wait for it, stop it, or choose another outputDir", run, heldBy(f))
	} else {
		err = fmt.Errorf("locking %s: %w: choose an outputDir on a file system with locks", path, err)
	}
	f.Close()
	return nil, err
}

// holder writes who holds the lock.
func holder(f *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), host), 0)
	return err
}

// heldBy reads who holds the lock. For a moment after it was taken the file does not say.
func heldBy(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 300))
	if who := strings.TrimSpace(string(text)); err == nil && who != "" {
		return who
	}
	return "another process"
}

// Unlock gives the run's folder free.
func (l *runLock) Unlock() error { return l.f.Close() }
