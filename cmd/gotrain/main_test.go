package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "gotrain-test")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "gotrain")
		build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X main.version=v0-test", "-o", binary, ".")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the program under test: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// result is what a process leaves.
type result struct {
	out, log string
	status   int
}

// prepare makes a process that runs in dir with more variables in its environment.
func prepare(dir string, env []string, args ...string) *exec.Cmd {
	c := exec.Command(binary, args...)
	c.Dir = dir
	c.Env = append(environment(), env...)
	return c
}

// environment keeps what a developer has set away from the program, and its threads from spinning while others work.
func environment() []string {
	env := []string{"OMP_WAIT_POLICY=passive"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GOTRAIN_") && !strings.HasPrefix(v, "OMP_") && !strings.HasPrefix(v, "GOMP_") {
			env = append(env, v)
		}
	}
	return env
}

func gotrain(t *testing.T, dir string, args ...string) result {
	t.Helper()
	return finish(t, prepare(dir, nil, args...))
}

// finish runs a process to its end.
func finish(t *testing.T, c *exec.Cmd) result {
	t.Helper()
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), log.String(), c.ProcessState.ExitCode()}
}

func (r result) want(t *testing.T, status int) result {
	t.Helper()
	if r.status != status {
		t.Fatalf("exit status %d, want %d; standard output:\n%s\nstandard error:\n%s", r.status, status, r.out, r.log)
	}
	return r
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s does not contain %q:\n%s", what, p, text)
		}
	}
}
