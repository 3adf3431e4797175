package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	e = Event{Trial: j.trial, Repeat: j.repeat}
	name := runName(j.trial, j.repeat)
	if e.Status, err = r.orphan(ctx, name); err != nil || e.Status == pipeline.Interrupted {
		return e, err
	}
	r.mu.Lock()
	before := r.states[j]
	r.mu.Unlock()
	if before.status == Started && e.Status != "" { // it has ended, and nobody was there to note it
		return r.outcome(e, name, "")
	}
	if e.Status == pipeline.Finished {
		return r.outcome(e, name, "")
	}
	e.Status = Started
	if err := r.note(e, true); err != nil {
		return e, err
	}
	c, err := r.command(j, slot)
	if err != nil {
		return e, err
	}
	defer c.Stdout.(*os.File).Close()
	from, _ := c.Stdout.(*os.File).Seek(0, 2)
	stop := r.board.watch(j, slot)
	how, err := r.process(ctx, c)
	stop()
	if err != nil {
		return e, err
	}
	if how == "" {
		how = lastLine(c.Stdout.(*os.File).Name(), from)
	}
	e, err = r.outcome(e, name, how)
	if e.Status == pipeline.Interrupted && ctx.Err() == nil {
		e.Status, e.Error = pipeline.Failed, "somebody interrupted its process; it has a checkpoint"
	}
	if ctx.Err() != nil && (e.Status == archive.Crashed || e.Status == pipeline.Failed) {
		e.Status = pipeline.Interrupted // before it had begun, or by a second signal
	}
	return e, err
}

// orphan waits until no process trains in the run of a name, for one that was killed leaves processes that take a moment to save, and
// returns the status in which they have left it: "" where it is to be continued, or there is none.
func (r *runner) orphan(ctx context.Context, name string) (string, error) {
	for told := false; ; {
		dir, record, err := r.folder.findRun(name)
		if dir == "" || err != nil {
			return "", err
		}
		held, err := pipeline.Held(dir)
		if err != nil {
			return "", err
		}
		if !held {
			if record, err = pipeline.ReadRecord(dir); err != nil {
				return "", err
			}
			if record.Status == pipeline.Interrupted || record.Status == pipeline.Running {
				return "", nil
			}
			return record.Status, nil
		}
		if !told {
			r.board.say("%s: waiting for a process that still trains there", filepath.Base(dir))
			told = true
		}
		select {
		case <-ctx.Done():
			return pipeline.Interrupted, nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// command makes the process of a job. What it says goes to a file, so that it does not depend on this process.
func (r *runner) command(j job, slot int) (*exec.Cmd, error) {
	t := r.Trials[j.trial-1]
	log, err := os.OpenFile(filepath.Join(r.folder.dir, "trials", fmt.Sprintf("%03d-%d.log", j.trial, j.repeat)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	c := exec.Command(r.Program, "-config", r.folder.trialFile(j.trial), "name="+runName(j.trial, j.repeat),
		"outputDir="+filepath.Join(r.folder.dir, runsFolder), fmt.Sprintf("seed=%d", t.Config.Seed+int64(j.repeat-1)))
	c.Stdout, c.Stderr = log, log
	c.Env = append(os.Environ(), r.limits.environment(slot)...)
	// In a group of its own it does not get the terminal's Ctrl-C, which would be a second signal for it. When this process is killed,
	// it saves and ends.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return c, nil
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
