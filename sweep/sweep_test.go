package sweep

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotrain/archive"
	"gotrain/configs"
	"gotrain/pipeline"
)

// expanded expands a sweep over a small base in a folder of its own.
func expanded(t *testing.T, text string, overrides ...string) (*Plan, error) {
	t.Helper()
	dir := t.TempDir()
	base := "extends: quickstart\nlearner: {maxEpochs: 1, epochSize: 64}\n"
	for name, content := range map[string]string{"base.yaml": base, "s.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Read(filepath.Join(dir, "s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return Expand(context.Background(), f, append(overrides, "outputDir="+dir))
}

const start = "sweep:\n  base: base.yaml\n  parameters:\n"

func TestTrialsThatCannotBeTrainedAreNamedWithTheirPlace(t *testing.T) {
	p, err := expanded(t, start+"    network.depth: [8, 9]\n    reader.path: [null, nowhere]\n")
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	for _, x := range p.Trials {
		if x.Fault == nil {
			faults = append(faults, "")
			continue
		}
		faults = append(faults, strings.ReplaceAll(x.Fault.Error(), p.Dir+"/", ""))
	}
	depth := "s.yaml:4:24: network.depth: 9 is not a depth of a ResNet: the nearest are 8 and 14 (6n+2, the CIFAR form), 18 and 34 (the ImageNet form)"
	path := "s.yaml:5:25: reader.path: means nothing with reader.type: embedded: leave it out (it belongs to cifar10, cifar100, idx, images and ctf)"
	want := []string{"", path, depth, path + "\n" + depth}
	if !slices.Equal(faults, want) {
		t.Errorf("got\n%q\nwant\n%q", faults, want)
	}
	if c := p.Trials[0].Config; c.Network.Depth != 8 || c.Learner.MaxEpochs != 1 {
		t.Errorf("trial 1 is %+v", c)
	}
}

func TestASweepThatMakesNoSenseIsRefused(t *testing.T) {
	for _, c := range []struct{ name, text, override, says string }{
		{"overridden parameter", start + "    network.depth: [8]\n", "network.depth=14", "network.depth=14: trials differ in network.depth (s.yaml:4:5): change it there"},
		{"name", start + "    network.depth: [8]\n", "name=x", "name=x: a sweep names its runs by itself: leave it out"},
		{"no test", start + "    network.depth: [8]\n", "command=[train]", "s.yaml:2:9: sweep.metric: test.error is of a test, and the base's command has none: write metric: training.error, or command: [train, test] into the base"},
		{"no trial", start + "    network.depth: [7]\n", "seed=2", "no trial of s can be trained; the first: s.yaml:4:21: network.depth: 7 is not an integer from 8 to 100000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := expanded(t, c.text, c.override)
			if err == nil {
				t.Fatal("no error")
			}
			if got := regexp.MustCompile(`/\S*/s\.yaml`).ReplaceAllString(err.Error(), "s.yaml"); got != c.says {
				t.Errorf("says\n%s\nwant\n%s", got, c.says)
			}
		})
	}
}

func TestASweepKeepsItsFolderWhileItsTrialsStay(t *testing.T) {
	text := start + "    learner.L2RegWeight: {logUniform: [1e-5, 1e-3]}\n  strategy: random\n"
	id := func(text string, overrides ...string) string {
		p, err := expanded(t, text, overrides...)
		if err != nil {
			t.Fatal(err)
		}
		return p.ID
	}
	first := id(text + "  trials: 2\n")
	for _, same := range []string{"  trials: 3\n", "  trials: 2\n  repeats: 2\n  parallel: 2\n  retries: 2\n", "  trials: 2\n  metric: test.loss\n"} {
		if got := id(text + same); got != first {
			t.Errorf("%q is another sweep", same)
		}
	}
	if id(text+"  trials: 2\n  seed: 2\n") == first || id(text+"  trials: 2\n", "learner.maxEpochs=2") == first {
		t.Error("other trials are the same sweep")
	}
}

func TestTheJournalLosesAtMostTheLineThatWasBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), journalFile)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"trial":1,"repeat":1,"status":"started"}` + "\n" + `{"trial":1,"repeat":1,"sta`)
	j, events, err := openJournal(path)
	if err != nil || len(events) != 1 {
		t.Fatalf("%v, %+v", err, events)
	}
	f := folder{journal: j}
	defer f.journal.Close()
	if err := f.note(Event{Trial: 1, Repeat: 1, Status: pipeline.Finished, Run: "r"}); err != nil {
		t.Fatal(err)
	}
	again, events, err := openJournal(path)
	if err != nil || len(events) != 2 {
		t.Fatalf("%v, %+v", err, events)
	}
	again.Close()
	if s := fold(events)[job{1, 1}]; s.status != pipeline.Finished || s.run != "r" {
		t.Errorf("%+v", s)
	}
	write("{}\nno\n{}\n")
	if _, _, err = openJournal(path); err == nil || !strings.HasPrefix(err.Error(), path+":2: ") {
		t.Errorf("says %v", err)
	}
}

func TestWhatIsDoneIsNotDoneAgain(t *testing.T) {
	for _, c := range []struct {
		status  string
		tries   int
		retries int
		over    bool
	}{
		{"", 0, 0, false}, {Started, 0, 0, false}, {pipeline.Interrupted, 0, 0, false}, {pipeline.Finished, 0, 5, true}, {pipeline.Diverged, 0, 5, true},
		{Invalid, 0, 5, true}, {pipeline.Failed, 1, 0, true}, {pipeline.Failed, 1, 1, false}, {archive.Crashed, 2, 1, true},
	} {
		if got := (state{status: c.status, tries: c.tries}).over(c.retries); got != c.over {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestProcessesFitIntoTheMachine(t *testing.T) {
	trial := func(workers, threads int) Trial {
		return Trial{Config: &configs.Config{Device: "cpu", Threads: threads, Distributed: configs.Distributed{Workers: workers}}}
	}
	for _, c := range []struct {
		parallel, workers, threads int
		want                       func(cores int) int
	}{
		{1, 1, 0, func(int) int { return 1 }},
		{0, 1, 0, func(cores int) int { return cores }},
		{1000, 1, 0, func(cores int) int { return cores }},
		{0, 2, 0, func(cores int) int { return max(1, cores/2) }},
		{0, 1, 1000, func(int) int { return 1 }},
	} {
		l, err := (&Plan{File: &File{Parallel: c.parallel}, Trials: []Trial{trial(c.workers, c.threads)}}).limits()
		if err != nil || l.parallel != c.want(l.cores) {
			t.Errorf("%d at a time of %d workers with %d threads on %d cores: %d, %v", c.parallel, c.workers, c.threads, l.cores, l.parallel, err)
		}
	}
	t.Setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7,8")
	gpu := trial(2, 0)
	gpu.Config.Device = "cuda"
	l, err := (&Plan{File: &File{}, Trials: []Trial{gpu}}).limits()
	if err != nil || l.parallel != 2 || !slices.Equal(l.environment(1), []string{"CUDA_VISIBLE_DEVICES=6,7"}) {
		t.Errorf("on five GPUs: %+v, %v, %q", l, err, l.environment(1))
	}
}

// sample are results of three trials, of which one has none.
func sample(texts ...string) *Results {
	s := &Results{Name: "s", Metric: "test.error", Goal: "minimize", Keys: []string{"learner.L2RegWeight", "reader.workers", "network.depth"}, metric: metricNamed("test.error")}
	add := func(r Result, values ...float64) {
		r.Results = values
		r.Mean, r.Spread = moments(values)
		s.Trials = append(s.Trials, r)
	}
	add(Result{Trial: 2, Status: pipeline.Finished, Values: []string{"0.001", texts[0], "8"}, Seconds: 1.5, Runs: []string{"a", "b"}, curves: [][]float64{{60, 40, 20}, {70, 50, 24}}}, 20, 24)
	add(Result{Trial: 1, Status: pipeline.Failed, Error: "no memory", Values: []string{"0.00001", texts[1], "14"}, curves: [][]float64{{50}}}, 30)
	add(Result{Trial: 3, Status: pipeline.Diverged, Error: "diverged in epoch 1", Values: []string{"0.1", texts[0], "8"}, curves: [][]float64{nil}})
	return s
}

func TestResultsAreShownForPeopleAndPrograms(t *testing.T) {
	s := sample("1", "2")
	var table, rows, object strings.Builder
	if err := errors.Join(s.Table(&table), s.CSV(&rows), s.JSON(&object)); err != nil {
		t.Fatal(err)
	}
	want := `TRIAL  STATUS    L2REGWEIGHT  WORKERS  DEPTH  TEST.ERROR      RUNS  TIME
2      finished  0.001        1        8      22.00% ± 2.83%  2     1.5s
1      failed    0.00001      2        14     30.00%          1     0s
3      diverged  0.1          1        8      -               0     0s
trial 1: failed: no memory
trial 3: diverged in epoch 1
`
	if table.String() != want {
		t.Errorf("got\n%s\nwant\n%s", table.String(), want)
	}
	records, err := csv.NewReader(strings.NewReader(rows.String())).ReadAll()
	if err != nil || len(records) != 4 || strings.Join(records[1], " ") != "2 finished 0.001 1 8 22 2.8284271247461903 2 1.500 " || records[3][5] != "" {
		t.Errorf("%v: %q", err, records)
	}
	var back Results
	if err := json.Unmarshal([]byte(object.String()), &back); err != nil || *back.Trials[0].Mean != 22 || back.Trials[2].Mean != nil || back.Trials[1].Spread != nil {
		t.Errorf("%v: %s", err, object.String())
	}
}

func TestTheBestTrialComesFirst(t *testing.T) {
	one := func(trial int, values ...float64) Result {
		r := Result{Trial: trial, Results: values}
		r.Mean, r.Spread = moments(values)
		return r
	}
	all := []Result{one(1), one(2, 5, 7), one(3, 1), one(4, 4, 6), one(5, 6, 6)}
	for maximize, want := range map[bool][]int{false: {4, 2, 5, 3, 1}, true: {2, 5, 4, 3, 1}} {
		r := &runner{Plan: &Plan{File: &File{Maximize: maximize}}}
		slices.SortStableFunc(all, r.compare)
		var got []int
		for _, x := range all {
			got = append(got, x.Trial)
		}
		if !slices.Equal(got, want) {
			t.Errorf("maximize %v: %v, want %v", maximize, got, want)
		}
	}
}

func TestPlotsAreWellFormedWhateverTheyShow(t *testing.T) {
	for name, draw := range plots {
		for _, texts := range [][]string{{"1", "2"}, {"<a> & \"b\"", strings.Repeat("long ", 20)}, {"3", "3"}} {
			text := draw(sample(texts...))
			d := xml.NewDecoder(strings.NewReader(text))
			elements := 0
			for {
				token, err := d.Token()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("%s: %v\n%s", name, err, text)
				}
				if _, ok := token.(xml.StartElement); ok {
					elements++
				}
			}
			if elements < 15 || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%s with %q: %d elements\n%s", name, texts, elements, text)
			}
		}
		nothing := sample("1", "2")
		nothing.Trials = nothing.Trials[2:]
		if text := draw(nothing); text != "" {
			t.Errorf("%s of nothing: %s", name, text)
		}
	}
}

func TestAnEstimateAddsUpTheRuns(t *testing.T) {
	p, err := expanded(t, start+"    network.depth: [8, 9]\n    learner.L2RegWeight: [0, 1]\n  repeats: 3\n")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	e, err := p.Estimate(func(Trial) (pipeline.Estimate, error) {
		asked++
		return pipeline.Estimate{Minibatch: 0.5, Minibatches: 20 - 2*startup}, nil
	})
	if err != nil || asked != 1 || e.Runs != 6 || e.String() != "6 runs, 1 at a time: about 1m0s" {
		t.Errorf("%v, asked %d times: %s", err, asked, e)
	}
}
