package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"gotrain/internal/netns"
	"gotrain/internal/synthetic"
	"gotrain/tools/internal/bench"
)

//go:embed torch_ddp.py
var torchDDP string

// Open MPI's launcher hangs or fails now and then when it starts daemons on other hosts: what has said nothing for a while is
// started again.
const (
	attempts   = 3
	startLimit = 40 * time.Second // and what gotrain's own measurements take before it begins
	runLimit   = 4 * time.Minute
)

// launcher runs programs on hosts. It makes a network for each rate when it is first asked for, and keeps it.
type launcher struct {
	o        options
	dir      string
	networks map[string]*netns.Network
}

func newLauncher(o options) (*launcher, error) {
	dir, err := os.MkdirTemp("", "benchdist")
	if err != nil {
		return nil, err
	}
	l := &launcher{o: o, dir: dir, networks: map[string]*netns.Network{}}
	if l.o.gotrain, err = filepath.Abs(o.gotrain); err == nil {
		// What is on the pictures changes no speed; few of them are read soon.
		if err = synthetic.CIFAR10(l.data(), max(o.samples/5, batch)); err == nil {
			err = os.WriteFile(l.script(), []byte(bench.TorchResNet+torchDDP), 0o666)
		}
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *launcher) data() string   { return filepath.Join(l.dir, "cifar-10-batches-bin") }
func (l *launcher) script() string { return filepath.Join(l.dir, "torch_ddp.py") }

func (l *launcher) close() {
	for _, n := range l.networks {
		n.Close()
	}
	_ = os.RemoveAll(l.dir)
}

// measure does a job.
func (l *launcher) measure(ctx context.Context, j job) (result, error) {
	program := []string{l.o.gotrain}
	if isTorch(j.Setting) {
		hook := "dense"
		if j.Setting == torchFP16 {
			hook = "fp16"
		}
		program = []string{l.o.python, l.script(), j.Depth, hook, strconv.Itoa(batch), strconv.Itoa(min(j.steps(l.o.samples), 12))}
	} else {
		program = append(append(program, j.arguments(l.o.samples)...), "reader.path="+l.data(), "outputDir="+l.dir)
	}
	start, err := l.on(j.Rate)
	if err != nil {
		return result{}, err
	}
	for attempt := 1; ; attempt++ {
		stdout, stderr, err := l.run(ctx, j, append(start, program...))
		if err == nil {
			return parse(j, stdout, stderr)
		}
		if err = fmt.Errorf("%w\n%s%s", err, stdout, stderr); attempt == attempts || ctx.Err() != nil {
			return result{}, err
		}
		fmt.Fprintln(os.Stderr, "benchdist: once more:", j, err)
	}
}

// on is the start of a command that runs a program on hosts with links of a rate.
func (l *launcher) on(rate string) ([]string, error) {
	variables := []string{"MASTER_ADDR", "GLOO_SOCKET_IFNAME"}
	switch {
	case rate == local:
		return nil, nil
	case l.o.network != "":
		words := []string{l.o.network, "-n", strconv.Itoa(workers), "-r", rate}
		for _, v := range variables {
			words = append(words, "-x", v)
		}
		return append(words, "--"), nil
	}
	if l.networks[rate] == nil {
		limit := rate
		if rate == "none" {
			limit = ""
		}
		n, err := netns.New(workers, limit)
		if err != nil {
			return nil, err
		}
		l.networks[rate] = n
	}
	return l.networks[rate].Mpiexec(variables), nil
}

// run runs a command, and ends it with all that it has started on the hosts when it says nothing or takes too long.
func (l *launcher) run(ctx context.Context, j job, words []string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runLimit, fmt.Errorf("it has not ended within %v", runLimit))
	defer cancel()
	ctx, silent := context.WithCancelCause(ctx)
	limit := startLimit + time.Duration(10*j.dense()*float64(time.Second))
	alarm := time.AfterFunc(limit, func() { silent(fmt.Errorf("it has not begun within %v", limit)) })
	defer alarm.Stop()
	master := ""
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // a program that makes hosts removes them
	c.WaitDelay = 15 * time.Second
	n := l.networks[j.Rate]
	if n != nil {
		master = n.Address(0)
		c.Cancel = func() error {
			err := c.Process.Kill()
			n.Kill()
			return err
		}
	}
	c.Env = append(os.Environ(), "OMPI_MCA_orte_leave_session_attached=1", "MASTER_ADDR="+master, "GLOO_SOCKET_IFNAME=eth0")
	var out, messages bytes.Buffer
	begun := func() { alarm.Stop() }
	c.Stdout, c.Stderr = &first{w: &out, call: begun}, &first{w: &messages, call: begun}
	err = c.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && n != nil {
		n.Kill() // a rank that outlives its mpiexec would share the machine with what comes next
	}
	return out.String(), messages.String(), err
}

// first calls a function when something is written for the first time.
type first struct {
	w    io.Writer
	once sync.Once
	call func()
}

func (f *first) Write(b []byte) (int, error) {
	f.once.Do(f.call)
	return f.w.Write(b)
}

var errNothing = errors.New("it has printed no figures")
