package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"gotrain/archive"
	"gotrain/pipeline"
)

// attempt starts a job's process, or goes on with its run, waits for its end, and gives the event that it comes to.
func (r *runner) attempt(ctx context.Context, j job, slot int) (e Event, err error) {
	e = Event{Trial: j.trial, Repeat: j.repeat, Status: pipeline.Interrupted}
	name := runName(j.trial, j.repeat)
	log, err := r.claim(ctx, j)
	if log == nil || err != nil {
		return e, err
	}
	defer log.Close()
	ended, err := r.unnoted(j, name)
	if err != nil {
		return e, err
	}
	if ended {
		return r.outcome(e, name, "")
	}
	e.Status = Started
	if err := r.note(e, true); err != nil {
		return e, err
	}
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return e, err
	}
	going, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop := r.board.watch(j, slot, func(e pipeline.EpochEvent) {
		if why := r.judge(j, e); why != "" {
			end(stoppedError{why})
		}
	})
	how, err := r.process(going, r.command(j, slot, log))
	stop()
	if err != nil {
		return e, err
	}
	if how == "" {
		how = lastLine(log.Name(), from)
	}
	e, err = r.outcome(e, name, how)
	var judged stoppedError
	switch {
	case e.Status == pipeline.Interrupted && errors.As(context.Cause(going), &judged):
		e.Status, e.Error = Stopped, judged.why
	case ctx.Err() != nil && (e.Status == archive.Crashed || e.Status == pipeline.Failed):
		e.Status = pipeline.Interrupted // before it had begun, or by a second signal
	case ctx.Err() == nil && e.Status == pipeline.Interrupted:
		e.Status, e.Error = pipeline.Failed, "somebody interrupted its process; it has a checkpoint"
	}
	return e, err
}

// claim opens the file for what a job's process says, and locks it. The process shares the lock until it ends: one whose sweep was
// killed takes a moment to save, or to begin even, and is waited for here. There is no file where the context ends meanwhile.
func (r *runner) claim(ctx context.Context, j job) (*os.File, error) {
	path := filepath.Join(r.folder.dir, "trials", fmt.Sprintf("%03d-%d.log", j.trial, j.repeat))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !told {
			r.board.say("%s: waiting for its process to end, which an earlier sweep has started", title(j))
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// unnoted says that a job's run has ended, and nobody was there to note it.
func (r *runner) unnoted(j job, name string) (bool, error) {
	_, record, err := r.folder.findRun(name)
	r.mu.Lock()
	before := r.states[j]
	r.mu.Unlock()
	switch record.Status {
	case pipeline.Finished:
		return true, err
	case pipeline.Failed, pipeline.Diverged:
		return before.status == Started, err
	}
	return false, err
}

// command makes the process of a job. What it says goes to a file, so that it does not depend on this process.
func (r *runner) command(j job, slot int, log *os.File) *exec.Cmd {
	t := r.Trials[j.trial-1]
	c := exec.Command(r.Program, "-config", r.folder.trialFile(j.trial), "name="+runName(j.trial, j.repeat),
		"outputDir="+filepath.Join(r.folder.dir, runsFolder), fmt.Sprintf("seed=%d", t.Config.Seed+int64(j.repeat-1)))
	c.Stdout, c.Stderr = log, log
	c.Env = append(os.Environ(), r.limits.environment(slot)...)
	// In a group of its own it does not get the terminal's Ctrl-C, which would be a second signal for it. When this process is killed,
	// it saves and ends.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return c
}

// process runs a process, and asks it to stop when the context ends. how is what killed it, "" where it has ended by itself.
func (r *runner) process(ctx context.Context, c *exec.Cmd) (how string, err error) {
	runtime.LockOSThread() // the signal of a parent's death is that of the thread's
	defer runtime.UnlockOSThread()
	if err := c.Start(); err != nil {
		return "", fmt.Errorf("starting a run: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			c.Process.Signal(syscall.SIGTERM)
		case <-ended:
		}
	}()
	err = c.Wait()
	close(ended)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", fmt.Errorf("waiting for a run: %w", err)
	}
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return c.ProcessState.String(), nil
	}
	return "", nil
}

// outcome is the event for a run as its folder says that it has ended. how says it where the folder does not.
func (r *runner) outcome(e Event, name, how string) (Event, error) {
	dir, record, err := r.folder.findRun(name)
	if err != nil {
		return e, err
	}
	if dir == "" {
		e.Status, e.Error = pipeline.Failed, how
		return e, nil
	}
	e.Run, e.Status = filepath.Base(dir), record.Status
	if e.Status == pipeline.Running {
		e.Status, e.Error = archive.Crashed, how
		return e, nil
	}
	if e.Status == pipeline.Failed || e.Status == pipeline.Diverged {
		h, err := archive.ReadHistory(dir)
		if err != nil {
			return e, err
		}
		if n := len(h.Attempts); n > 0 && h.Attempts[n-1].End != nil {
			how = h.Attempts[n-1].End.Error
		}
		e.Error = how
	}
	return e, nil
}

// lastLine is the last line that a process has written to a file behind an offset.
func lastLine(path string, from int64) string {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	text = bytes.TrimSpace(text[min(from, int64(len(text))):])
	return strings.TrimPrefix(string(text[bytes.LastIndexByte(text, '\n')+1:]), "gotrain: ")
}
