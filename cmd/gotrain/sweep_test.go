package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// swept is what `gotrain sweep -json` says.
type swept struct {
	Folder string
	Trials []struct {
		Trial         int
		Status, Error string
		Values        []string
		Mean, Spread  *float64
		Results       []float64
		Runs          []string
	}
}

// sweepFolder is a folder with a small base and a sweep of the given lines over it.
func sweepFolder(t *testing.T, sweep string) string {
	t.Helper()
	dir := t.TempDir()
	base := "extends: quickstart\nlearner: {maxEpochs: 2, epochSize: 256, minibatchSize: 32, learningRatesPerMB: 0.1}\n"
	for name, text := range map[string]string{"base.yaml": base, "s.yaml": "sweep:\n  base: base.yaml\n" + sweep} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func sweptBy(t *testing.T, r result) (s swept) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		t.Fatalf("%v:\n%s\n%s", err, r.out, r.log)
	}
	return s
}

func TestAGridOfTwelveEndsWithTenResultsAndTwoExplainedFailures(t *testing.T) {
	dir := sweepFolder(t, "  parameters:\n    learner.learningRatesPerMB: [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1e30, -1]\n  parallel: 2\n")
	dry := gotrain(t, dir, "sweep", "-config", "s.yaml", "-dry-run").want(t, 0)
	contains(t, "the table of trials", dry.out, "TRIAL  LEARNINGRATESPERMB  RUNS\n1      0.01                1", "trial 12 is left out: s.yaml:4:93: learner.learningRatesPerMB: -1 is not ", "\n11 runs, ", " at a time: about ")
	if runs, _ := filepath.Glob(filepath.Join(dir, "runs", "*")); len(runs) > 0 {
		t.Errorf("a dry run leaves %v", runs)
	}

	r := gotrain(t, dir, "sweep", "-config", "s.yaml", "-json").want(t, 0)
	s := sweptBy(t, r)
	good := 0
	for i, x := range s.Trials {
		if x.Mean != nil {
			good++
		}
		if i > 0 && x.Mean != nil && *x.Mean < *s.Trials[i-1].Mean {
			t.Errorf("trial %d is better than the one before it", x.Trial)
		}
	}
	if len(s.Trials) != 12 || good != 10 {
		t.Errorf("%d of %d trials have results", good, len(s.Trials))
	}
	last := s.Trials[10:]
	if last[0].Status != "diverged" || !strings.HasPrefix(last[0].Error, "diverged in epoch 1, minibatch ") || last[1].Status != "invalid" || !strings.HasPrefix(last[1].Error, "s.yaml:4:93: ") {
		t.Errorf("the failures are %+v", last)
	}
	for _, name := range []string{"results.csv", "results.json", "parameters.svg", "curves.svg", "parallel.svg", "sweep.yaml", "best.yaml"} {
		if read(t, filepath.Join(s.Folder, name)) == "" {
			t.Errorf("%s is empty", name)
		}
	}
	table := gotrain(t, dir, "sweep", "-config", "s.yaml").want(t, 0)
	contains(t, "the table", table.out, "TRIAL  STATUS    LEARNINGRATESPERMB  TEST.ERROR  RUNS  TIME\n", "\ntrial 11: diverged in epoch 1", "\ntrial 12: invalid: s.yaml:4:93: ")
	if l := list(t, dir, "-runs", filepath.Join(s.Folder, "runs")); len(l) != 11 {
		t.Errorf("a sweep that has ended has made runs again: %d", len(l))
	}

	best := gotrain(t, dir, "-config", filepath.Join(s.Folder, "best.yaml")).want(t, 0)
	contains(t, "the best configuration's run", best.out, fmt.Sprintf(", metric = %.4g%% * 1000\n", *s.Trials[0].Mean))
	if l := list(t, dir); len(l) != 1 || l[0].Name != "s-best" {
		t.Errorf("the runs are %+v", l)
	}
}

const repeated = "  strategy: random\n  trials: 3\n  parameters:\n    learner.learningRatesPerMB: {logUniform: [0.01, 0.3]}\n  repeats: 2\n  parallel: 2\n"

// sweepKilled starts a sweep, ends it with a signal after a while, and says whether it was still running.
func sweepKilled(t *testing.T, dir string, after time.Duration, s os.Signal) (result, bool) {
	t.Helper()
	c := prepare(dir, nil, "sweep", "-config", "s.yaml", "-json")
	timer := time.AfterFunc(after, func() { c.Process.Signal(s) })
	r := finish(t, c)
	return r, !timer.Stop() && r.status != 0
}

func TestASweepThatIsKilledGoesOnWhereItWas(t *testing.T) {
	kills := 20
	if testing.Short() {
		kills = 3
	}
	straight := sweptBy(t, gotrain(t, sweepFolder(t, repeated), "sweep", "-config", "s.yaml", "-json").want(t, 0))
	dir := sweepFolder(t, repeated)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	killed := 0
	for range kills {
		if _, running := sweepKilled(t, dir, time.Duration(50+random.IntN(500))*time.Millisecond, syscall.SIGKILL); running {
			killed++
		}
	}
	s := sweptBy(t, gotrain(t, dir, "sweep", "-config", "s.yaml", "-json").want(t, 0))
	t.Logf("seed %d: killed %d times before it had ended", seed, killed)
	for i, x := range s.Trials {
		want := straight.Trials[i]
		if x.Trial != want.Trial || !reflect.DeepEqual(x.Results, want.Results) || !reflect.DeepEqual(x.Values, want.Values) {
			t.Errorf("seed %d: %+v, and without kills %+v", seed, x, want)
		}
	}
	runs := filepath.Join(s.Folder, "runs")
	l := list(t, dir, "-runs", runs)
	if len(l) != 6 {
		t.Errorf("seed %d: %d runs, want 6: %+v", seed, len(l), l)
	}
	for _, r := range l {
		if r.Status != "finished" || r.Epochs != 2 || r.Steps != 16 {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
	gotrain(t, dir, "runs", "reindex", "-runs", runs).want(t, 0)
	if again := list(t, dir, "-runs", runs); !reflect.DeepEqual(again, l) {
		t.Errorf("seed %d: the index said\n%+v, and made anew it says\n%+v", seed, l, again)
	}
}

// waitFor waits until a file below the sweep's folder has some text, and returns the sweep's folder.
func waitFor(t *testing.T, dir, file, text string) string {
	t.Helper()
	for range 1000 {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "sweeps", "*"))
		if len(found) == 1 {
			files, _ := filepath.Glob(filepath.Join(found[0], file))
			for _, f := range files {
				if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), text) {
					return found[0]
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s never says %s", file, text)
	return ""
}

func TestCtrlCLeavesASweepThatGoesOn(t *testing.T) {
	dir := sweepFolder(t, "  parameters:\n    seed: [1, 2, 3]\n")
	c := prepare(dir, nil, "sweep", "-config", "s.yaml", "learner.maxEpochs=12")
	go func() {
		waitFor(t, dir, "runs/trial-001-1-*/metrics.jsonl", `"epoch":{`)
		c.Process.Signal(os.Interrupt)
	}()
	r := finish(t, c).want(t, 130)
	contains(t, "standard error", r.log, "\ntrial 1, run 1: interrupted\n", "gotrain: interrupted: the same command goes on where the sweep was\n")
	s := sweptBy(t, gotrain(t, dir, "sweep", "-config", "s.yaml", "learner.maxEpochs=12", "-json").want(t, 0))
	l := list(t, dir, "-runs", filepath.Join(s.Folder, "runs"))
	if len(l) != 3 || l[2].Attempts != 2 || l[2].Status != "finished" || l[2].Epochs != 12 {
		t.Errorf("%+v", l)
	}
}

func TestARunThatIsKilledIsTriedAgainIfAsked(t *testing.T) {
	dir := sweepFolder(t, "  parameters:\n    seed: [1, 2]\n")
	args := []string{"sweep", "-config", "s.yaml", "learner.maxEpochs=12", "-json"}
	kill := func() {
		folder := waitFor(t, dir, "runs/trial-001-1-*/metrics.jsonl", `"epoch":{`)
		lock, _ := filepath.Glob(filepath.Join(folder, "runs", "trial-001-1-*", "lock"))
		pid := 0
		if _, err := fmt.Sscanf(read(t, lock[0]), "process %d ", &pid); err != nil {
			t.Error(err)
		}
		syscall.Kill(pid, syscall.SIGKILL)
	}
	c := prepare(dir, nil, args...)
	go kill()
	r := finish(t, c).want(t, 0)
	s := sweptBy(t, r)
	if x := s.Trials[1]; x.Trial != 1 || x.Status != "crashed" || x.Error != "signal: killed" || s.Trials[0].Mean == nil {
		t.Errorf("%+v", s)
	}
	if l := list(t, dir, "-runs", filepath.Join(s.Folder, "runs")); len(l) != 2 || l[1].Status != "crashed" || l[0].Status != "finished" {
		t.Errorf("%+v", l)
	}
	if again := sweptBy(t, gotrain(t, dir, args...).want(t, 0)); !reflect.DeepEqual(again, s) {
		t.Errorf("without being asked, a run was tried again:\n%+v\n%+v", s, again)
	}
	s = sweptBy(t, gotrain(t, dir, append(args, "-retries", "1")...).want(t, 0))
	for _, x := range s.Trials {
		if x.Status != "finished" || x.Mean == nil {
			t.Errorf("%+v", x)
		}
	}
}

func TestFailFastEndsWithTheFirstFailure(t *testing.T) {
	dir := sweepFolder(t, "  parameters:\n    learner.learningRatesPerMB: [0.1, 1e30, 0.2]\n")
	r := gotrain(t, dir, "sweep", "-config", "s.yaml", "-fail-fast").want(t, 1)
	contains(t, "standard error", r.log, "gotrain: trial 2, run 1: diverged in epoch 1, ", " (-fail-fast)\n")
	if strings.Contains(r.log, "trial 3") {
		t.Errorf("trial 3 was begun:\n%s", r.log)
	}
}

func TestTwoProcessesDoNotRunOneSweep(t *testing.T) {
	dir := sweepFolder(t, "  parameters:\n    seed: [1]\n")
	c := prepare(dir, nil, "sweep", "-config", "s.yaml", "learner.maxEpochs=1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, dir, "journal.jsonl", `"started"`)
	r := gotrain(t, dir, "sweep", "-config", "s.yaml", "learner.maxEpochs=1000").want(t, 1)
	contains(t, "standard error", r.log, ": another process runs this sweep: wait for it, or stop it\n")
	c.Process.Signal(os.Interrupt)
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 130 {
		t.Errorf("ends with %v", err)
	}
	if _, err := exec.LookPath("pgrep"); err == nil {
		if out, _ := exec.Command("pgrep", "-f", dir).Output(); len(out) > 0 {
			t.Errorf("processes are left: %s", out)
		}
	}
}

func TestBadTrialsAreStoppedEarly(t *testing.T) {
	dir := sweepFolder(t, "  parameters:\n    learner.learningRatesPerMB: [0.1, 1e-6, 1e-7]\n  halving: {minEpochs: 2, factor: 2}\n  repeats: 2\n")
	args := []string{"sweep", "-config", "s.yaml", "-json", "learner.maxEpochs=40", "learner.momentumPerMB=0.9"}
	s := sweptBy(t, gotrain(t, dir, args...).want(t, 0))
	if x := s.Trials[0]; x.Trial != 1 || x.Status != "finished" || len(x.Results) != 2 {
		t.Errorf("%+v", x)
	}
	for _, x := range s.Trials[1:] {
		if x.Status != "stopped" || !strings.HasPrefix(x.Error, "behind epoch 2 its training.error, ") || len(x.Runs) != 1 {
			t.Errorf("%+v", x)
		}
	}
	for _, r := range list(t, dir, "-runs", filepath.Join(s.Folder, "runs")) {
		if r.Name == "trial-001-1" && r.Epochs != 40 || r.Name == "trial-002-1" && (r.Epochs < 2 || r.Status != "interrupted") {
			t.Errorf("%+v", r)
		}
	}
	if again := sweptBy(t, gotrain(t, dir, args...).want(t, 0)); !reflect.DeepEqual(again, s) {
		t.Errorf("once more:\n%+v\n%+v", s, again)
	}
}

func TestWhatWasProposedByResultsStays(t *testing.T) {
	text := "  strategy: tpe\n  trials: 14\n  parameters:\n    learner.learningRatesPerMB: {logUniform: [1e-3, 1]}\n    learner.useNAG: [true, false]\n  parallel: 2\n"
	args := []string{"sweep", "-config", "s.yaml", "-json", "learner.maxEpochs=1"}
	dry := gotrain(t, sweepFolder(t, text), "sweep", "-config", "s.yaml", "-dry-run").want(t, 0)
	contains(t, "the table of trials", dry.out, "\n11     ...                 ...     1\n", "\n14 runs, ")
	straight := sweptBy(t, gotrain(t, sweepFolder(t, text), args...).want(t, 0))
	dir := sweepFolder(t, text)
	c := prepare(dir, nil, args...)
	go func() {
		waitFor(t, dir, "journal.jsonl", `"proposed"`)
		c.Process.Kill()
	}()
	finish(t, c)
	s := sweptBy(t, gotrain(t, dir, args...).want(t, 0))
	for i, x := range s.Trials {
		if want := straight.Trials[i]; x.Trial != want.Trial || !reflect.DeepEqual(x.Values, want.Values) || !reflect.DeepEqual(x.Results, want.Results) {
			t.Errorf("%+v, and without the kill %+v", x, want)
		}
	}
	if len(s.Trials) != 14 {
		t.Errorf("%d trials", len(s.Trials))
	}
}
