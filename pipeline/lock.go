package pipeline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// runLock keeps a second process from training in a run's folder. The kernel drops it when the process ends, however it
// ends; the file stays, and names who held the lock last.
type runLock struct{ f *os.File }

// LockFile is the name of the lock in a run's folder.
const LockFile = "lock"

// Held says whether a process trains in a run's folder now. Where there is no folder, none does.
func Held(run string) (bool, error) {
	release, err := Hold(run)
	if err != nil {
		if h := (*HeldError)(nil); errors.As(err, &h) {
			return true, nil
		}
		return false, err
	}
	release()
	return false, nil
}

// HeldError is that of a run's folder in which a process trains.
type HeldError struct{ Run, By string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s: %s trains there", e.Run, e.By)
}

// Hold keeps others from training in a run's folder until it is released, or gives a HeldError. Several may hold a folder.
func Hold(run string) (release func(), err error) {
	path := filepath.Join(run, LockFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err = flock(f, syscall.LOCK_SH); err == nil {
		return func() { f.Close() }, nil
	}
	defer f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, &HeldError{run, heldBy(f)}
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// flock locks a file, or gives EWOULDBLOCK.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// lockRun makes the run's folder where it is missing, and locks it, or says who has.
func lockRun(run string) (*runLock, error) {
	if err := makeFolder(osFiles{}, run); err != nil {
		return nil, unwritable(run, 0, err)
	}
	path := filepath.Join(run, LockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, unwritable(path, 0, err)
	}
	for try := 0; ; try++ { // Held may look just now
		if err = flock(f, syscall.LOCK_EX); !errors.Is(err, syscall.EWOULDBLOCK) || try == 20 {
			break
		}
		time.Sleep(5 * time.Millisecond)
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
