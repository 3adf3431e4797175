package group_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "gotrain/distributed/group"
	"gotrain/distributed/group/grouptest"
)

func TestMain(m *testing.M) {
	grouptest.Main(m, map[string]grouptest.Scenario{
		"check": func(j *Job) error { return errors.Join(together(j.Members(), checkGroup)...) },
		"sums":  sums, "large": large, "places": places,
		"bench": bench, "close": closes, "mistake": mistake,
		"kill":  lose(func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }),
		"stop":  lose(stopsSelf),
		"leave": lose(func() { os.Exit(3) }),
		"cause": cause, "cut": untilCut,
		"fault": fault,
		"away":  away, "again": again,
		"stopped outside": outside(stopsSelf),
		"killed outside":  outside(func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }),
		"nobody lost":     outside(func() { time.Sleep(3 * time.Second) }),
	})
}

func TestWorkersOfSeveralProcessesExchangeAndReduce(t *testing.T) {
	for _, c := range []struct{ processes, workers int }{{1, 3}, {2, 2}, {2, 4}, {3, 6}, {4, 4}} {
		t.Run(fmt.Sprintf("%d in %d", c.workers, c.processes), func(t *testing.T) {
			grouptest.Run{Scenario: "check", Processes: c.processes, Workers: c.workers}.Succeed(t)
		})
	}
}

// sums prints a digest of what each worker gets.
func sums(j *Job) error {
	return errors.Join(together(j.Members(), func(m Member) error {
		text, err := digest(m)
		fmt.Printf("%s\n", text)
		return err
	})...)
}

func digest(m Member) (string, error) {
	h := sha256.New()
	for step := range 20 {
		values := addends(1000*step+3, m.Rank())
		if err := AllReduce(m, Tag{Statistic, int64(step), 0}, values); err != nil {
			return "", err
		}
		fmt.Fprint(h, values)
	}
	return fmt.Sprintf("digest of worker %d: %x", m.Rank(), h.Sum(nil)), nil
}

func TestSumsAreTheSameWhereverTheWorkersAre(t *testing.T) {
	grouptest.Skip(t)
	want := make([]string, 4)
	must(t, together(Local(4, 20*time.Second), func(m Member) (err error) {
		want[m.Rank()], err = digest(m)
		return err
	}))
	for _, processes := range []int{1, 2, 4} {
		out := grouptest.Run{Scenario: "sums", Processes: processes, Workers: 4}.Succeed(t).Output
		for _, line := range want {
			if !strings.Contains(out, line) {
				t.Errorf("%d processes: want %s, got\n%s", processes, line, out)
			}
		}
	}
}

// large exchanges 100 MB each way, while small messages go.
func large(j *Job) error {
	m := j.Members()[0]
	small := make(chan error, 1)
	go func() {
		for step := range 20 {
			if err := Barrier(m, Tag{Control, int64(step), 0}); err != nil {
				small <- err
				return
			}
		}
		small <- nil
	}()
	n := 100_000_000
	fill := func(rank int) []byte {
		b := make([]byte, n)
		rand.NewChaCha8([32]byte{byte(rank)}).Read(b)
		return b
	}
	send, recv := make([][]byte, 2), make([][]byte, 2)
	send[1-m.Rank()], recv[1-m.Rank()] = fill(m.Rank()), make([]byte, n)
	if err := m.Exchange(Tag{}, send, recv); err != nil {
		return err
	}
	if !slices.Equal(recv[1-m.Rank()], fill(1-m.Rank())) {
		return errors.New("other bytes have come")
	}
	return <-small
}

func TestLargeMessages(t *testing.T) {
	grouptest.Run{Scenario: "large", Processes: 2, Workers: 2}.Succeed(t)
}

func places(j *Job) error {
	var ranks []int
	for _, m := range j.Members() {
		ranks = append(ranks, m.Rank())
	}
	rank, size, ok := Launched()
	fmt.Printf("process %d (%d of %d, %v), hosts %d, here %d of %d, workers %v\n", j.Rank(), rank, size, ok, j.Hosts(), j.LocalRank(), j.LocalSize(), ranks)
	return nil
}

func TestAProcessKnowsItsPlace(t *testing.T) {
	out := grouptest.Run{Scenario: "places", Processes: 2, Workers: 6}.Succeed(t).Output
	for _, want := range []string{
		"process 0 (0 of 2, true), hosts 1, here 0 of 2, workers [0 1 2]\n",
		"process 1 (1 of 2, true), hosts 1, here 1 of 2, workers [3 4 5]\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %s, got\n%s", want, out)
		}
	}
	if !strings.Contains(Version(), "MPI") || strings.Contains(Version(), "\n") {
		t.Errorf("version %q", Version())
	}
}

func TestWorkersThatDoNotDivideAreRefused(t *testing.T) {
	r := grouptest.Run{Scenario: "check", Processes: 3, Workers: 4}.Do(t)
	const want = "4 workers cannot be shared evenly by the 3 processes that mpiexec has started: start 1, 2 or 4 of them, or set distributed.workers to a multiple of 3"
	if r.Status == 0 || !strings.Contains(r.Output, want) {
		t.Errorf("status %d, want an error and %s, got\n%s", r.Status, want, r.Output)
	}
}

// lose has worker 2 do something instead of its fifth exchange.
func lose(how func()) grouptest.Scenario {
	return func(j *Job) error {
		return errors.Join(together(j.Members(), func(m Member) error {
			for step := range 10 {
				if step == 5 && m.Rank() == 2 {
					how()
				}
				if err := Barrier(m, Tag{Scatter, int64(step), 3}); err != nil { // in which all wait for all
					return err
				}
			}
			return nil
		})...)
	}
}

func TestALostProcessEndsTheJob(t *testing.T) {
	for _, c := range []struct {
		scenario string
		want     []string // one of them
		timeout  time.Duration
		limit    time.Duration
	}{
		// mpiexec sees the death, and tells the others to end. (MPICH's does not tell them: it kills.)
		{"kill", []string{"in step 5, bucket 3, sending gradients, for worker 2 (host "}, 20 * time.Second, 8 * time.Second},
		{"leave", []string{"in step 5, bucket 3, sending gradients, for worker 2 (host ", "for workers 1 (host "}, 2 * time.Second, 10 * time.Second},
		// Only the time limit sees it.
		{"stop", []string{"waited 2s in step 5, bucket 3, sending gradients, for worker 2 (host "}, 2 * time.Second, 10 * time.Second},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			r := grouptest.Run{Scenario: c.scenario, Processes: 4, Workers: 4, Timeout: c.timeout, Limit: 30 * time.Second}.Do(t)
			if r.Status == 0 || r.Took > c.limit || len(r.Left) > 0 {
				t.Errorf("status %d after %v, processes left %v", r.Status, r.Took, r.Left)
			}
			killed := c.scenario != "stop" && !strings.HasPrefix(Version(), "Open MPI")
			if !killed && !slices.ContainsFunc(c.want, func(s string) bool { return strings.Contains(r.Output, s) }) {
				t.Errorf("want one of %q, got\n%s", c.want, r.Output)
			}
		})
	}
}

// stopsSelf makes this process hang. The signal takes a moment.
func stopsSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(time.Second)
}

// away has worker 1 do something by itself, and worker 2 stopped, while worker 0 waits for both.
func away(j *Job) error {
	m := j.Members()[0]
	if err := Barrier(m, Tag{Phase: Control}); err != nil {
		return err
	}
	switch m.Rank() {
	case 1:
		time.Sleep(20 * time.Second)
	case 2:
		stopsSelf()
	}
	return Barrier(m, Tag{Phase: Control, Step: 1})
}

// again has worker 2 come late, so that the roll is called, but early enough. Then it is stopped, and worker 1 waits for it in an
// exchange of these two, worker 0 for both in the next.
func again(j *Job) error {
	m := j.Members()[0]
	if m.Rank() == 2 {
		time.Sleep(2100 * time.Millisecond)
	}
	if err := Barrier(m, Tag{Phase: Control}); err != nil {
		return err
	}
	if m.Rank() == 0 { // let worker 2 answer
		time.Sleep(200 * time.Millisecond)
	}
	if err := Barrier(m, Tag{Phase: Control}); err != nil {
		return err
	}
	if m.Rank() == 2 {
		stopsSelf()
	}
	if m.Rank() == 1 {
		recv := make([][]byte, 3)
		recv[2] = make([]byte, 1)
		if err := m.Exchange(Tag{Gather, 1, 0}, make([][]byte, 3), recv); err != nil {
			return err
		}
	}
	return Barrier(m, Tag{Phase: Control, Step: 1})
}

func TestWhoIsThereIsNotBlamed(t *testing.T) {
	const want = "s in step 1, between steps, for worker 2 (host "
	for _, scenario := range []string{"away", "again"} {
		t.Run(scenario, func(t *testing.T) {
			r := grouptest.Run{Scenario: scenario, Processes: 3, Workers: 3, Timeout: 2 * time.Second, Limit: 30 * time.Second}.Do(t)
			if r.Status == 0 || r.Took > 12*time.Second || len(r.Left) > 0 || !strings.Contains(r.Output, want) {
				t.Errorf("status %d after %v, processes left %v, want %s..., got\n%s", r.Status, r.Took, r.Left, want, r.Output)
			}
		})
	}
}

// outside has all but worker 2 exchange something in another way, for 2 seconds, and worker 2 something else.
func outside(how func()) grouptest.Scenario {
	return func(j *Job) error {
		if err := Barrier(j.Members()[0], Tag{Phase: Control}); err != nil {
			return err
		}
		if j.Lost(nil) != nil {
			return errors.New("somebody is lost, and nothing is exchanged")
		}
		if j.Rank() == 2 {
			how()
			return Barrier(j.Members()[0], Tag{Phase: Control})
		}
		end := j.Outside(7)
		time.Sleep(2 * time.Second)
		if lost := j.Lost(nil); lost != nil {
			return lost
		}
		end()
		return Barrier(j.Members()[0], Tag{Phase: Control})
	}
}

func TestWhoIsLostInAnExchangeOfAnotherKindIsNamed(t *testing.T) {
	for scenario, want := range map[string]string{
		"stopped outside": "worker 0 waited 2.3s in step 7, exchanging between GPUs, for worker 2 (host ",
		"killed outside":  "in step 7, exchanging between GPUs, for worker 2 (host ",
		"nobody lost":     "",
	} {
		t.Run(scenario, func(t *testing.T) {
			r := grouptest.Run{Scenario: scenario, Processes: 3, Workers: 3, Timeout: 10 * time.Second, Limit: 30 * time.Second}.Do(t)
			if r.Took > 12*time.Second || len(r.Left) > 0 || (r.Status == 0) != (want == "") {
				t.Errorf("status %d after %v, processes left %v", r.Status, r.Took, r.Left)
			}
			killed := scenario == "killed outside" && !strings.HasPrefix(Version(), "Open MPI")
			if !killed && !strings.Contains(r.Output, want) {
				t.Errorf("want %s..., got\n%s", want, r.Output)
			}
		})
	}
}

// untilCut exchanges until a host is cut off, and tells when it has begun, by a file.
func untilCut(j *Job) error {
	m := j.Members()[0]
	for step := range int64(1 << 40) {
		if err := Barrier(m, Tag{Scatter, step, 3}); err != nil {
			return err
		}
		if step == 20 && m.Rank() == 0 {
			if err := os.WriteFile(os.Getenv("BEGUN"), nil, 0o666); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func TestAHostThatIsCutOffEndsTheJob(t *testing.T) {
	network := grouptest.NewNetwork(t, 3, "")
	begun := filepath.Join(t.TempDir(), "begun")
	cut := func(int) {
		go func() {
			for {
				if _, err := os.Stat(begun); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if err := network.Cut(1); err != nil {
				t.Error(err)
			}
		}()
	}
	r := grouptest.Run{Scenario: "cut", Network: network, Workers: 3, Timeout: 2 * time.Second, Limit: 30 * time.Second,
		Env: []string{"BEGUN=" + begun}, OnStart: cut}.Do(t)
	if r.Status == 0 || r.Took > 15*time.Second || len(r.Left) > 0 {
		t.Errorf("status %d after %v, processes left %v", r.Status, r.Took, r.Left)
	}
	if !strings.Contains(r.Output, "bucket 3, sending gradients, for worker 1 (host ") {
		t.Errorf("the lost worker is not named:\n%s", r.Output)
	}
}

// cause fails on one worker, for a reason of its own, while the others wait.
func cause(j *Job) error {
	if j.Rank() == 1 {
		time.Sleep(100 * time.Millisecond)
		return errors.New("the data cannot be read")
	}
	return Barrier(j.Members()[0], Tag{Phase: Control, Step: 3})
}

func TestAFailureEndsTheJobAtOnce(t *testing.T) {
	r := grouptest.Run{Scenario: "cause", Processes: 3, Workers: 3, Timeout: time.Minute}.Do(t)
	if r.Status == 0 || r.Took > 10*time.Second || len(r.Left) > 0 || !strings.Contains(r.Output, "the data cannot be read") {
		t.Errorf("status %d after %v, processes left %v:\n%s", r.Status, r.Took, r.Left, r.Output)
	}
}

// mistake lets the lengths of a message differ.
func mistake(j *Job) error {
	m := j.Members()[0]
	send, recv := make([][]byte, 2), make([][]byte, 2)
	if m.Rank() == 0 {
		send[1] = make([]byte, 10)
	} else {
		length := 20
		if os.Getenv("LENGTH") != "" {
			length = 5
		}
		recv[0] = make([]byte, length)
	}
	err := m.Exchange(Tag{Gather, 5, 1}, send, recv)
	if m.Rank() == 0 && err == nil {
		err = Barrier(m, Tag{Phase: Control})
	}
	return err
}

func TestLengthsThatDifferBetweenProcesses(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"LENGTH=", "step 5, bucket 1, receiving aggregates: worker 0 sends 10 bytes to worker 1, which expects 20"},
		{"LENGTH=less", "step 5, bucket 1, receiving aggregates: worker 0 sends more bytes to worker 1 than the 5 that it expects"},
	} {
		r := grouptest.Run{Scenario: "mistake", Processes: 2, Workers: 2, Env: []string{c.env}}.Do(t)
		if r.Status == 0 || !strings.Contains(r.Output, c.want) {
			t.Errorf("status %d, want an error and %s, got\n%s", r.Status, c.want, r.Output)
		}
	}
}

// fault checks that Go's own handling of faults survives MPI.
func fault(j *Job) (err error) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Println("recovered:", r)
		}
	}()
	var p *int
	*p = 1
	return nil
}

func TestAFaultInGoIsStillAPanic(t *testing.T) {
	out := grouptest.Run{Scenario: "fault", Processes: 2, Workers: 2}.Succeed(t).Output
	if strings.Count(out, "recovered: runtime error: invalid memory address or nil pointer dereference") != 2 {
		t.Error(out)
	}
}

// closes checks that nothing is left behind, and that exchanges fail afterwards.
func closes(j *Job) error {
	m := j.Members()[0]
	if err := checkGroup(m); err != nil {
		return err
	}
	if err := j.Close(); err != nil {
		return err
	}
	if err := Barrier(m, Tag{}); err == nil || err.Error() != "the MPI job is over" {
		fmt.Println("after Close:", err)
		os.Exit(1)
	}
	for range 100 {
		stacks := make([]byte, 1<<16)
		if stacks = stacks[:runtime.Stack(stacks, true)]; !strings.Contains(string(stacks), "(*engine)") {
			os.Exit(0)
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("the engine runs on after Close")
	os.Exit(1)
	return nil
}

func TestCloseLeavesNothing(t *testing.T) {
	grouptest.Run{Scenario: "close", Processes: 2, Workers: 2}.Succeed(t)
}
