package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// short trains the quickstart's network in 60 minibatches, with a line and soon a checkpoint for each.
var short = []string{"-config", "quickstart", "name=short", "learner.minibatchSize=32", "learner.epochSize=640", "learner.maxEpochs=3",
	"learner.learningRatesPerMB=0.1", "learner.numMBsToShowResult=1", "checkpoint.everyMinibatches=2"}

// runDir is the folder of the only run below dir.
func runDir(t *testing.T, dir string) string {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "*", "run.json"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs below %s, want one: %v", len(runs), dir, runs)
	}
	return filepath.Dir(runs[0])
}

// model is the model of the only run below dir.
func model(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(runDir(t, dir), "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	duration  = regexp.MustCompile(` [0-9.]+s \([0-9.]+ samples per second\)`)
	continues = regexp.MustCompile(`(?m)^Continuing \S+ from epoch [0-9]+, minibatch [0-9]+ `)
)

// epochs are the lines of epochs and evaluations without their times, each once.
func epochs(out string) []string {
	return slices.Compact(slices.Collect(strings.Lines(duration.ReplaceAllString(out, ""))))
}

// straight trains without an interruption.
func straight(t *testing.T) (want []byte, lines []string) {
	t.Helper()
	dir := t.TempDir()
	r := gotrain(t, dir, short...).want(t, 0)
	return model(t, dir), epochs(r.out)
}

// stopAfter starts training in dir, sends the signal some milliseconds after so many minibatches, and returns what the
// process said until its end.
func stopAfter(t *testing.T, dir string, minibatches int, wait time.Duration, s os.Signal) result {
	t.Helper()
	c := prepare(dir, nil, short...)
	var out strings.Builder
	c.Stdout = &out
	pipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for lines, seen := bufio.NewScanner(pipe), 0; lines.Scan(); {
		fmt.Fprintln(&log, lines.Text())
		if strings.Contains(lines.Text(), "]-Minibatch[") {
			if seen++; seen == minibatches {
				time.Sleep(wait)
				c.Process.Signal(s)
			}
		}
	}
	c.Wait()
	return result{out.String(), log.String(), c.ProcessState.ExitCode()}
}

func TestARunThatIsKilledFiveTimesEndsWithTheSameBytes(t *testing.T) {
	want, lines := straight(t)
	dir, out := t.TempDir(), ""
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range 5 {
		minibatches, wait := 3+random.IntN(6), time.Duration(random.IntN(15))*time.Millisecond
		r := stopAfter(t, dir, minibatches, wait, syscall.SIGKILL)
		if r.status != -1 {
			t.Fatalf("seed %d: the process ended with status %d before it was killed:\n%s", seed, r.status, r.log)
		}
		if n > 0 && !continues.MatchString(r.log) {
			t.Errorf("seed %d: after %d kills, the run does not say from where it continues:\n%s", seed, n, r.log)
		}
		out += r.out
	}
	r := gotrain(t, dir, short...).want(t, 0)
	if !continues.MatchString(r.log) {
		t.Errorf("seed %d: the run does not say from where it continues:\n%s", seed, r.log)
	}
	if got := epochs(out + r.out); !slices.Equal(got, lines) {
		t.Errorf("seed %d: the epochs are\n%swithout kills they were\n%s", seed, strings.Join(got, ""), strings.Join(lines, ""))
	}
	if string(model(t, dir)) != string(want) {
		t.Errorf("seed %d: model.safetensors differs from an unkilled run's", seed)
	}
}

func TestAnInterruptedRunSavesLeavesAndContinues(t *testing.T) {
	want, lines := straight(t)
	dir, out := t.TempDir(), ""
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		r := stopAfter(t, dir, 5, 0, s).want(t, 130)
		contains(t, "standard error", r.log, s.String()+": stopping after this minibatch; once more: at once, without a checkpoint\n",
			"gotrain: interrupted\n")
		out += r.out
	}
	r := gotrain(t, dir, short...).want(t, 0)
	if !continues.MatchString(r.log) {
		t.Errorf("the run does not say from where it continues:\n%s", r.log)
	}
	if got := epochs(out + r.out); !slices.Equal(got, lines) {
		t.Errorf("the epochs are\n%swithout interruption they were\n%s", strings.Join(got, ""), strings.Join(lines, ""))
	}
	if string(model(t, dir)) != string(want) {
		t.Error("model.safetensors differs from an uninterrupted run's")
	}
}

func TestNeitherGoroutinesNorPrefetchingChangeTheModel(t *testing.T) {
	want, _ := straight(t)
	for _, c := range []struct {
		env  string
		more []string
	}{
		{"GOMAXPROCS=1", []string{"reader.prefetch=0"}},
		{"GOMAXPROCS=3", []string{"reader.prefetch=9", "reader.workers=3"}},
	} {
		dir := t.TempDir()
		finish(t, prepare(dir, []string{c.env}, append(slices.Clone(short), c.more...)...)).want(t, 0)
		if string(model(t, dir)) != string(want) {
			t.Errorf("%s, %v: model.safetensors differs", c.env, c.more)
		}
	}
}

func TestEvalMeasuresWhatTrainingEndedWith(t *testing.T) {
	dir := t.TempDir()
	trained := gotrain(t, dir, short...).want(t, 0).out
	measured := gotrain(t, dir, "eval", "-run", runDir(t, dir)).want(t, 0).out
	if measured == "" || !strings.HasSuffix(trained, measured) {
		t.Errorf("eval says\n%straining said\n%s", measured, trained)
	}
}

func TestASecondProcessOnTheSameRunIsRefused(t *testing.T) {
	dir := t.TempDir()
	long := append(slices.Clone(short), "learner.maxEpochs=100000")
	first := prepare(dir, nil, long...)
	pipe, err := first.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	began := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(pipe)
		if lines.Scan() {
			close(began)
		}
		for lines.Scan() {
		}
	}()
	defer func() {
		first.Process.Kill()
		<-ended
		first.Wait()
	}()
	select {
	case <-began:
	case <-ended:
		t.Fatal("the first process ended before it began")
	}
	second := gotrain(t, dir, long...).want(t, 1)
	host, _ := os.Hostname()
	want := fmt.Sprintf("gotrain: %s: process %d on %s trains there: wait for it, stop it, or choose another outputDir\n", runDir(t, dir), first.Process.Pid, host)
	if second.log != want {
		t.Errorf("the second says\n%swant\n%s", second.log, want)
	}
}

func TestDivergenceNamesTheTensorAndWhatIsKept(t *testing.T) {
	for _, c := range []struct{ rates, epoch, kept string }{
		{"1e30", "1", "none yet"},
		{"0.1*1:1e30", "2", `\S+/checkpoints/000000000020`},
	} {
		dir := t.TempDir()
		r := gotrain(t, dir, append(slices.Clone(short), "checkpoint.everyMinibatches=0", "learner.learningRatesPerMB="+c.rates)...).want(t, 1)
		want := `(?m)^gotrain: diverged in epoch ` + c.epoch + `, minibatch 2: loss NaN, learning rate 1e\+30, gradient norm NaN, ` +
			`first value that is not finite in the gradient of fc.weight; lower the rate or set learner.gradientClippingNorm; the last good checkpoint is kept: ` + c.kept + `$`
		if !regexp.MustCompile(want).MatchString(r.log) {
			t.Errorf("rates %s: says\n%swant\n%s", c.rates, r.log, want)
		}
		contains(t, "the record", read(t, filepath.Join(runDir(t, dir), "run.json")), `"diverged"`)
	}
}

func TestAChangedConfigurationIsShownAndRefused(t *testing.T) {
	dir := t.TempDir()
	stopAfter(t, dir, 5, 0, os.Interrupt).want(t, 130)
	changed := append(slices.Clone(short), "learner.maxEpochs=1", "learner.L2RegWeight=0.25")
	r := gotrain(t, dir, changed...).want(t, 2)
	contains(t, "standard error", r.log, "learner.maxEpochs: 3 -> 1\n", "learner.L2RegWeight: 0.0005 -> 0.25\n", "-accept-changes", "-restart")
	r = gotrain(t, dir, append(changed, "-accept-changes")...).want(t, 0)
	if !continues.MatchString(r.log) {
		t.Errorf("the run does not say from where it continues:\n%s", r.log)
	}
}

func TestAnOutputFolderThatCannotBeMadeIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	r := gotrain(t, dir, append(slices.Clone(short), "outputDir=file/runs")...).want(t, 1)
	contains(t, "standard error", r.log, file+"/runs", "not a directory")
	if strings.Contains(r.log, "goroutine") {
		t.Errorf("panics:\n%s", r.log)
	}
}

func TestStandardInputIsNotRead(t *testing.T) {
	c := exec.Command("sh", "-c", `exec "$0" version <&-`, binary)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("without a standard input: %v\n%s", err, out)
	}
}
