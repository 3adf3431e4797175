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
	"gotrain/internal/cores"
	"gotrain/readers"
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
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "*", recordFile))
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

func TestANetworkIsTestedOnItsKindOfData(t *testing.T) {
	set := func(c, h, w int, classes ...string) readers.Dataset { return kind{shape: [3]int{c, h, w}, classes: classes} }
	for _, c := range []struct {
		train, test readers.Dataset
		want        string
	}{
		{set(3, 32, 32, "a", "b"), set(1, 28, 28, "a", "b"), "reader: samples of the training set have the shape 3x32x32, and those of the test set 1x28x28: give two sets of one kind, or scale both"},
		{set(3, 32, 32, "a", "b"), set(3, 32, 32, "a", "b", "c"), "reader: the training set has 2 classes, and the test set 3: give two sets of one kind"},
		{set(3, 32, 32, "a", "b"), set(3, 32, 32, "a", "c"), `reader: class 1 is "b" in the training set, and "c" in the test set: give two sets of one kind`},
	} {
		demand(t, "comparing", sameKind(c.train, c.test), c.want)
	}
	if err := sameKind(set(3, 32, 32, "a"), set(3, 32, 32, "a")); err != nil {
		t.Error(err)
	}
}

// kind is a data set of which only the kind is known.
type kind struct {
	readers.Dataset
	shape   [3]int
	classes []string
}

func (k kind) Shape() (c, h, w int) { return k.shape[0], k.shape[1], k.shape[2] }
func (k kind) Classes() []string    { return k.classes }

// ctf writes training and test data in CNTK's text format, and gives the arguments that read them.
func ctf(t *testing.T, dir, train, test string) []string {
	t.Helper()
	for name, text := range map[string]string{"train.txt": train, "test.txt": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"reader.type=ctf", "reader.path=train.txt", "reader.testPath=test.txt", "reader.featureShape=[1, 1, 2]", "reader.transforms=[]"}
}

func TestATestSetOfOtherClassesIsFoundByRunAndCheck(t *testing.T) {
	dir := t.TempDir()
	args := ctf(t, dir, "|features 1 2 |labels 1 0\n|features 3 4 |labels 0 1\n", "|features 1 2 |labels 1 0 0\n")
	const want = "reader: the training set has 2 classes, and the test set 3: give two sets of one kind"
	cfg := small(t, dir, append(args, "command=[train, test]")...)
	_, err := try(cfg, nil)
	demand(t, "run", err, want)
	if runs := runsIn(t, dir); runs != nil {
		t.Errorf("it left %q", runs)
	}
	var report bytes.Buffer
	demand(t, "check", Check(context.Background(), cfg, &report), want)
	report.Reset()
	if err := Check(context.Background(), small(t, dir, args...), &report); err != nil || strings.Contains(report.String(), "test.txt") {
		t.Errorf("without a test to make: %v\n%s", err, report.String())
	}
}

func TestDataThatIsMissingIsNamedOnce(t *testing.T) {
	dir := t.TempDir()
	nowhere := filepath.Join(dir, "nowhere")
	one := "reader.path: " + nowhere + ": not there: reader.path takes the folder cifar-10-batches-bin"
	cfg := small(t, dir, "reader.type=cifar10", "reader.path=nowhere", "reader.transforms=[]", "command=[train, test]")
	_, err := try(cfg, nil)
	demand(t, "run", err, one)
	demand(t, "check", Check(context.Background(), cfg, &bytes.Buffer{}), one)
}

func TestAMinibatchIsNoLargerThanAnEpoch(t *testing.T) {
	var report bytes.Buffer
	if err := Check(context.Background(), small(t, t.TempDir(), "learner.minibatchSize=100000000"), &report); err != nil {
		t.Fatal(err)
	}
	if want := "training: 1 epochs of 128 samples, 1 minibatches of 128 each\n"; !strings.HasSuffix(report.String(), want) {
		t.Errorf("reports\n%swant at its end\n%s", report.String(), want)
	}
	plan, err := Plan(small(t, t.TempDir(), "learner.minibatchSize=100000000"), false)
	if err != nil || plan.Batch != 128 {
		t.Errorf("a plan of %d samples, %v", plan.Batch, err)
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
	record, err := os.ReadFile(filepath.Join(only(t, dir), recordFile))
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
	if after, _ := os.ReadFile(filepath.Join(only(t, dir), recordFile)); !bytes.Equal(after, record) {
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
	r, err := readRecord(only(t, dir))
	if err != nil || r.Threads != 2 || r.Status != finished {
		t.Errorf("the record is %+v, %v", r, err)
	}
}

func TestABrokenRecordIsNamed(t *testing.T) {
	dir := t.TempDir()
	stop(t, small(t, dir), nil)
	path := filepath.Join(only(t, dir), recordFile)
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
	r, err := readRecord(store.run)
	if err != nil {
		t.Fatal(err)
	}
	r.Engine = "an abacus"
	if err := store.WriteRunFile(jsonPart(recordFile, r)); err != nil {
		t.Fatal(err)
	}
	s := do(t, small(t, dir), func(s *Settings) { s.Version = "v2" })
	const end = ": it will not give the same bits as a run with one of the two\n"
	want := "warning: this run has trained with an abacus, and goes on with " + engine() + end +
		"warning: this run has trained with v1, and goes on with v2" + end + "Continuing "
	if !strings.HasPrefix(s.screen, want) {
		t.Errorf("says\n%swant first\n%s", s.screen, want)
	}
	if r, err := readRecord(store.run); err != nil || r.Engine != engine() || r.Version != "v2" {
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

func TestAnotherRuleStartsWithMomentsOfZero(t *testing.T) {
	dir := t.TempDir()
	stop(t, small(t, dir), nil)
	adam := small(t, dir, "learner.type=adam")
	s := stop(t, adam, accepting)
	want := "warning: " + filepath.Join(only(t, dir), "checkpoints", "000000000001") +
		": the updates before it followed the rule momentum, and adam goes on from moments of zero\n"
	if !strings.Contains(s.screen, want) {
		t.Errorf("says\n%swant\n%s", s.screen, want)
	}
	if s := do(t, adam, nil); strings.Contains(s.screen, "warning") {
		t.Errorf("warns again:\n%s", s.screen)
	}
	c, _, err := newCheckpoints(only(t, dir), 0).Load()
	if err != nil {
		t.Fatal(err)
	}
	var state State
	if err := c.JSON(statePart, &state); err != nil || state.Rule != "adam" || state.RuleSince != 1 {
		t.Errorf("the state is %+v, %v", state, err)
	}
}

func TestMomentsThatAreMissingAreNotTakenForZero(t *testing.T) {
	dir := t.TempDir()
	cfg := small(t, dir)
	stop(t, cfg, nil)
	store := newCheckpoints(only(t, dir), 0)
	c, _, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	var state State
	if err := c.JSON(statePart, &state); err != nil {
		t.Fatal(err)
	}
	ds, err := readers.Open(cfg.Reader, readers.Train)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	e, err := executor(spec(cfg, ds), cfg, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, p := range []struct {
		optimizer []Part
		says      string
	}{
		{nil, "the moments of the rule momentum: " + c.Dir + ": the checkpoint has no part optimizer.safetensors"},
		{[]Part{tensorsPart(optimizerPart, modelTensors(e))}, "the moments of the rule momentum: momentum/"},
	} {
		if err := store.Save(state.Step, append([]Part{tensorsPart(modelPart, modelTensors(e)), jsonPart(statePart, state)}, p.optimizer...)); err != nil {
			t.Fatal(err)
		}
		if _, err := try(cfg, nil); err == nil || !strings.Contains(err.Error(), p.says) {
			t.Errorf("says %v\nwant %s", err, p.says)
		}
	}
}

func TestWhatThisBuildCannotDoIsRefused(t *testing.T) {
	for arg, want := range map[string]string{
		"network.convolution=cudnn": "argument network.convolution=cudnn: network.convolution: cudnn: for device: cuda: set it to auto",
		"precision=tf32":            "argument precision=tf32: precision: tf32: for device: cuda: set it to float32 or bfloat16",
	} {
		demand(t, arg, checkSupported(small(t, t.TempDir(), arg)), want)
	}
	for _, arg := range []string{"network.convolution=own", "distributed.warmStart=1000", "distributed.scaleMinibatch=true", "network.batchNorm.sync=true"} {
		if err := checkSupported(small(t, t.TempDir(), arg)); err != nil {
			t.Errorf("%s changes nothing with one worker on the CPU: %v", arg, err)
		}
	}
}

func TestThreadsAreThoseOfTheCores(t *testing.T) {
	if got := threads(small(t, t.TempDir(), "threads=auto")); got != cores.Usable() {
		t.Errorf("%d threads on %d cores", got, cores.Usable())
	}
}
