package pipeline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/configs"
)

// said is what a run has written.
type said struct{ out, screen string }

// small is the quickstart, cut to four minibatches an epoch, with more arguments.
func small(t *testing.T, dir string, args ...string) *configs.Config {
	t.Helper()
	cfg, err := configs.Load("quickstart", append([]string{"name=small", "threads=1", "learner.minibatchSize=32", "learner.epochSize=128",
		"learner.maxEpochs=1", "learner.learningRatesPerMB=0.01", "command=[train]"}, args...), configs.WithDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// try does what a configuration says, with settings that change may change.
func try(cfg *configs.Config, change func(*Settings)) (said, error) {
	var out, screen bytes.Buffer
	s := Settings{Config: cfg, Out: &out, Log: &screen, Version: "v1"}
	if change != nil {
		change(&s)
	}
	err := Run(context.Background(), s)
	return said{out.String(), screen.String()}, err
}

// do demands that it goes well.
func do(t *testing.T, cfg *configs.Config, change func(*Settings)) said {
	t.Helper()
	s, err := try(cfg, change)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.screen)
	}
	return s
}

func accepting(s *Settings)  { s.AcceptChanges = true }
func restarting(s *Settings) { s.Restart = true }

// stop cancels the run at once: it ends behind the first minibatch that it makes.
func stop(t *testing.T, cfg *configs.Config, change func(*Settings)) said {
	t.Helper()
	var out, screen bytes.Buffer
	s := Settings{Config: cfg, Out: &out, Log: &screen, Version: "v1"}
	if change != nil {
		change(&s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Run(ctx, s); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("%v, want %v\n%s", err, ErrInterrupted, screen.String())
	}
	return said{out.String(), screen.String()}
}

// runsIn lists the runs' folders below dir.
func runsIn(t *testing.T, dir string) []string {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "*", RecordFile))
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		runs[i] = filepath.Dir(runs[i])
	}
	return runs
}

// only is the only run below dir.
func only(t *testing.T, dir string) string {
	t.Helper()
	runs := runsIn(t, dir)
	if len(runs) != 1 {
		t.Fatalf("the runs are %q, want one", runs)
	}
	return runs[0]
}

func demand(t *testing.T, what string, got error, want string) {
	t.Helper()
	if got == nil || got.Error() != want {
		t.Errorf("%s:\n got  %v\n want %s", what, got, want)
	}
}

func TestTestingAloneTakesTheLastRunsModel(t *testing.T) {
	dir := t.TempDir()
	cfg := small(t, dir, "command=[test]")
	_, err := try(cfg, nil)
	demand(t, "without a run", err, "argument command=[test]: command: nothing is trained, and there is no run \"small\" in "+filepath.Join(dir, "runs")+
		" to test: write [train, test], or the name of a run")
	if ExitStatus(err) != 2 {
		t.Errorf("exit status %d", ExitStatus(err))
	}
	trained := do(t, small(t, dir, "command=[train, test]"), nil)
	record, err := os.ReadFile(filepath.Join(only(t, dir), RecordFile))
	if err != nil {
		t.Fatal(err)
	}
	tested := do(t, cfg, nil)
	if !strings.HasPrefix(tested.out, "Finished Evaluation [1]") || !strings.HasSuffix(trained.out, tested.out) {
		t.Errorf("says\n%safter training\n%s", tested.out, trained.out)
	}
	if want := "Evaluating " + filepath.Join(only(t, dir), modelPart) + "\n"; tested.screen != want {
		t.Errorf("says\n%swant\n%s", tested.screen, want)
	}
	if after, _ := os.ReadFile(filepath.Join(only(t, dir), RecordFile)); !bytes.Equal(after, record) {
		t.Errorf("the record became\n%s", after)
	}
	_, err = try(cfg, restarting)
	demand(t, "with -restart", err, "argument command=[test]: command: nothing is trained, and -restart has nothing to start: leave it out")
}

func TestAModelDoesNotOutliveTrainingThatGoesOn(t *testing.T) {
	dir := t.TempDir()
	do(t, small(t, dir), nil)
	stop(t, small(t, dir, "learner.maxEpochs=2"), accepting)
	tested := do(t, small(t, dir, "command=[test]"), nil)
	if want := "Evaluating " + filepath.Join(only(t, dir), "checkpoints", "000000000005") + "\n"; tested.screen != want {
		t.Errorf("says\n%swant\n%s", tested.screen, want)
	}
}

func TestABrokenModelIsNotPassedOver(t *testing.T) {
	dir := t.TempDir()
	do(t, small(t, dir), nil)
	path := filepath.Join(only(t, dir), modelPart)
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := try(small(t, dir, "command=[test]"), nil); err == nil || !strings.HasPrefix(err.Error(), path) {
		t.Errorf("says %v", err)
	}
}

func TestRestartLeavesTheOldRunAlone(t *testing.T) {
	dir := t.TempDir()
	stop(t, small(t, dir), nil)
	first := only(t, dir)
	stop(t, small(t, dir), restarting)
	if runs := runsIn(t, dir); len(runs) != 2 {
		t.Errorf("the runs are %q", runs)
	}
	if c, _, err := newCheckpoints(first, 0).Load(); c == nil || err != nil {
		t.Errorf("the old run's checkpoint is %v, %v", c, err)
	}
	_, err := try(small(t, dir), func(s *Settings) { s.Restart, s.AcceptChanges = true, true })
	demand(t, "both", err, "-restart starts a new run, and -accept-changes continues the last one: give one of the two")
}

func TestOnlyChangesOfWhatIsTrainedAreRefused(t *testing.T) {
	dir := t.TempDir()
	stop(t, small(t, dir), nil)
	changed := []string{"learner.L2RegWeight=0.25", "learner.numMBsToShowResult=3", "threads=2"}
	_, err := try(small(t, dir, changed...), nil)
	demand(t, "changes", err, only(t, dir)+" is not finished, and its configuration was another:\n"+
		"    threads: 1 -> 2\n    learner.L2RegWeight: 0.0005 -> 0.25\n"+
		"continue it with -accept-changes, start a new run with -restart, or give this one another name=")
	s := do(t, small(t, dir, changed...), accepting)
	if want := "Accepted: threads: 1 -> 2\nAccepted: learner.L2RegWeight: 0.0005 -> 0.25\nContinuing "; !strings.HasPrefix(s.screen, want) {
		t.Errorf("says\n%swant first\n%s", s.screen, want)
	}
	r, err := ReadRecord(only(t, dir))
	if err != nil || r.Threads != 2 || r.Status != Finished {
		t.Errorf("the record is %+v, %v", r, err)
	}
}

func TestABrokenRecordIsNamed(t *testing.T) {
	dir := t.TempDir()
	stop(t, small(t, dir), nil)
	path := filepath.Join(only(t, dir), RecordFile)
	if err := os.WriteFile(path, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := try(small(t, dir), nil)
	demand(t, "a broken record", err, "looking for the last run of the name: "+path+
		": unexpected end of JSON input: mend it, move its folder away, or choose another name")
	if err := os.Remove(path); err != nil { // a run that was killed before it began
		t.Fatal(err)
	}
	do(t, small(t, dir), nil)
}

func TestAnotherEngineOrVersionIsSaidWhenARunGoesOn(t *testing.T) {
	dir := t.TempDir()
	stop(t, small(t, dir), nil)
	store := newCheckpoints(only(t, dir), 0)
	r, err := ReadRecord(store.run)
	if err != nil {
		t.Fatal(err)
	}
	r.Engine = "an abacus"
	if err := store.WriteRunFile(jsonPart(RecordFile, r)); err != nil {
		t.Fatal(err)
	}
	s := do(t, small(t, dir), func(s *Settings) { s.Version = "v2" })
	const end = ": it will not give the same bits as a run with one of the two\n"
	want := "warning: this run has trained with an abacus, and goes on with " + device{}.String() + end +
		"warning: this run has trained with v1, and goes on with v2" + end + "Continuing "
	if !strings.HasPrefix(s.screen, want) {
		t.Errorf("says\n%swant first\n%s", s.screen, want)
	}
	if r, err := ReadRecord(store.run); err != nil || r.Engine != (device{}).String() || r.Version != "v2" {
		t.Errorf("the record is %+v, %v", r, err)
	}
}

func TestTheLogHasLinesOfProgressAndNoBar(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		dir := t.TempDir()
		s := do(t, small(t, dir, "learner.numMBsToShowResult=2"), func(s *Settings) { s.Terminal = terminal })
		log, err := os.ReadFile(filepath.Join(only(t, dir), "log"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(log), "]-Minibatch["); lines != 2 || bytes.ContainsAny(log, "\r\x1b") {
			t.Errorf("terminal %v: %d lines of progress in the log:\n%q", terminal, lines, log)
		}
		if bar, lines := strings.Contains(s.screen, "\r"), strings.Contains(s.screen, "]-Minibatch["); bar != terminal || lines == terminal {
			t.Errorf("terminal %v: the screen has\n%q", terminal, s.screen)
		}
	}
}
