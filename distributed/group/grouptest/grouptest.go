// Package grouptest runs tests of groups in real MPI jobs: a test starts its own binary again under mpiexec, and what it wants
// done there is a scenario, known by its name.
package grouptest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotrain/distributed/group"
)

// Scenario is what each process of a job does. After an error the whole job is ended.
type Scenario func(*group.Job) error

// Run says how to start a job.
type Run struct {
	Scenario  string
	Processes int
	Network   *Network // one process on each of its hosts; nil: all on this machine
	Workers   int
	Timeout   time.Duration // of an exchange; 0: 20 s
	Limit     time.Duration // of the whole job, after which the test fails; 0: 60 s
	Env       []string      // NAME=value
	OnStart   func(pid int) // called with mpiexec's number when it has started
}

// The environment of a process of a job.
const (
	scenarioVar = "GOTRAIN_GROUPTEST"
	workersVar  = "GOTRAIN_GROUPTEST_WORKERS"
	timeoutVar  = "GOTRAIN_GROUPTEST_TIMEOUT"
	tokenVar    = "GOTRAIN_GROUPTEST_TOKEN"
)

// Main is for TestMain. In a process of a job it does the scenario, and does not return.
func Main(m *testing.M, scenarios map[string]Scenario) {
	name := os.Getenv(scenarioVar)
	if name == "" {
		os.Exit(m.Run())
	}
	scenario, ok := scenarios[name]
	if !ok {
		fatal(2, fmt.Errorf("no scenario %q", name))
	}
	workers, err := strconv.Atoi(os.Getenv(workersVar))
	if err != nil {
		fatal(2, err)
	}
	timeout, err := time.ParseDuration(os.Getenv(timeoutVar))
	if err != nil {
		fatal(2, err)
	}
	job, err := group.Join(workers, timeout)
	if err != nil {
		fatal(2, err)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		what, ok := job.Waiting()
		if !ok {
			what = "waits for nobody"
		}
		fatal(1, fmt.Errorf("process %d, told to end: %s", job.Rank(), what))
	}()
	if err := scenario(job); err != nil {
		job.Fail(err, func() { fmt.Fprintln(os.Stderr, err) })
	}
	if err := job.Close(); err != nil {
		fatal(1, err)
	}
	os.Exit(0)
}

func fatal(status int, err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(status)
}

// Result is what has become of a job.
type Result struct {
	Output string // standard output and error of all processes, and of mpiexec
	Status int    // of mpiexec
	Took   time.Duration
	Left   []int // processes that still run, a while after mpiexec has ended
}

// Skip skips a test where no MPI job can be run, and says why.
func Skip(t testing.TB) {
	t.Helper()
	if !group.Built {
		t.Skip("built without MPI: make test builds with it, where mpicc is installed (make setup-mpi)")
	}
	if _, err := exec.LookPath("mpiexec"); err != nil {
		t.Skip("mpiexec is not installed: make setup-mpi")
	}
}

// Do starts a job, and waits for its end.
func (r Run) Do(t testing.TB) Result {
	t.Helper()
	Skip(t)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if r.Timeout == 0 {
		r.Timeout = 20 * time.Second
	}
	if r.Limit == 0 {
		r.Limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.Limit)
	defer cancel()
	var out bytes.Buffer
	command := append(append([]string{"mpiexec"}, Arguments()...), "-n", strconv.Itoa(r.Processes))
	if r.Network != nil {
		variables := []string{scenarioVar, workersVar, timeoutVar, tokenVar}
		for _, v := range r.Env {
			name, _, _ := strings.Cut(v, "=")
			variables = append(variables, name)
		}
		command = r.Network.Mpiexec(variables)
	}
	c := exec.CommandContext(ctx, command[0], append(command[1:], binary)...)
	token := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	c.Env = append(append(os.Environ(), r.Env...), scenarioVar+"="+r.Scenario, workersVar+"="+strconv.Itoa(r.Workers),
		timeoutVar+"="+r.Timeout.String(), tokenVar+"="+token)
	c.Stdout, c.Stderr = &out, &out
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // passed on to the processes
	c.WaitDelay = 5 * time.Second
	start := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if r.OnStart != nil {
		r.OnStart(c.Process.Pid)
	}
	err = c.Wait()
	result := Result{Output: out.String(), Status: c.ProcessState.ExitCode(), Took: time.Since(start)}
	if ctx.Err() != nil {
		t.Errorf("the job has not ended within %v (%v)", r.Limit, err)
	}
	for range 40 { // mpiexec may be gone a moment before its last process
		if result.Left = Running(tokenVar + "=" + token); len(result.Left) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, pid := range result.Left {
		_ = syscall.Kill(pid, syscall.SIGKILL) // the test reports it
	}
	return result
}

// Succeed starts a job that should end well.
func (r Run) Succeed(t testing.TB) Result {
	t.Helper()
	result := r.Do(t)
	if result.Status != 0 || len(result.Left) > 0 {
		t.Fatalf("exit status %d, processes left %v, after %v:\n%s", result.Status, result.Left, result.Took, result.Output)
	}
	return result
}

// Arguments of mpiexec let Open MPI start more processes than there are cores, as root too; others need no word.
func Arguments() []string {
	version, _ := exec.Command("mpiexec", "--version").CombinedOutput()
	if bytes.Contains(version, []byte("OpenRTE")) || bytes.Contains(version, []byte("Open MPI")) {
		return []string{"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}
	}
	return nil
}

// Running finds the processes of this machine that have a setting, NAME=value, in their environment, mpiexec itself among them.
func Running(setting string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !strings.Contains("\x00"+string(environ), "\x00"+setting+"\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
