package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/configs"
)

func TestMistakesInTheCommandLineAreNamedWithTheirRemedy(t *testing.T) {
	shipped := configs.Shipped()
	list := strings.Join(shipped, ", ")
	sentence := strings.Join(shipped[:len(shipped)-1], ", ") + " and " + shipped[len(shipped)-1]
	for _, c := range []struct{ args, says string }{
		{"chekc quickstart", "gotrain: chekc: unknown command: did you mean gotrain check?"},
		{"help grahp", "gotrain: grahp: unknown command: did you mean gotrain graph?"},
		{"frobnicate", "gotrain: frobnicate: unknown command: the commands are check, graph, profile, eval, sweep, runs, resume, replay, doctor, version, help"},
		{"runs shwo", "gotrain: runs shwo: unknown command: did you mean gotrain runs show?"},
		{"runs frobnicate", "gotrain: runs frobnicate: unknown command: the commands are runs show, runs compare, runs export, runs import, runs verify, runs rm, runs prune, runs reindex"},
		{"runs", "gotrain: runs: there is no such folder, and so no run: name the outputDir of the runs with -runs DIR"},
		{"runs show latest", "gotrain: runs: there is no such folder, and so no run: name the outputDir of the runs with -runs DIR"},
		{"runs show -runs . latest", "gotrain: latest: there is no run in ."},
		{"runs show -runs .", "gotrain: runs show: no run: give its name, folder, hash, or latest"},
		{"runs show one two", "gotrain: runs show: shows one run at a time: gotrain runs compare sets several side by side"},
		{"runs -runs . sped=3", "gotrain: sped=3: sped is neither a key of a configuration nor one of status, name, folder, hash, device, precision, bits, version, workers, epochs, attempts, loss, error, speed, time, started"},
		{"runs -runs . -sort sped", "gotrain: -sort sped: runs are sorted by one of status, name, folder, hash, device, precision, bits, version, workers, epochs, attempts, loss, error, speed, time, started"},
		{"runs prune -runs .", "gotrain: runs prune: neither -older nor a condition: it would remove nearly all runs: give one of them"},
		{"runs prune -older soon", "gotrain: -older soon: not a duration: write 720h, or 90m"},
		{"runs prune -older 1h -keep all", "gotrain: -keep all: not a number of runs"},
		{"sweep", "gotrain: no sweep: name one with -config FILE"},
		{"sweep rates.yaml", "gotrain: rates.yaml: not key=value: the sweep goes after -config, all else is key=value"},
		{"sweep -config nowhere.yaml", "nowhere.yaml: open: no such file or directory"},
		{"sweep -config s.yaml -retries few", "gotrain: -retries few: not a number of times"},
		{"sweep -config s.yaml -json -csv", "gotrain: -json and -csv: give one of the two"},
		{"resume", "gotrain: resume: no run: give its name, folder, hash, or latest"},
		{"replay latest twice", "gotrain: twice: not key=value: replay takes one run, and latest is it"},
		{"replay latest -epochs none", "gotrain: -epochs none: not a number of epochs"},
		{"runs reindex now", "gotrain: runs reindex: takes no arguments"},
		{"train quickstart", "gotrain: train: to train, name a configuration: gotrain -config FILE"},
		{"quickstart", "gotrain: quickstart: a configuration goes after a flag: gotrain -config quickstart"},
		{"mine.yaml", "gotrain: mine.yaml: a configuration goes after a flag: gotrain -config mine.yaml"},
		{"-confg quickstart", "gotrain: -confg: unknown flag: did you mean -config?"},
		{"-config quickstart -restrat", "gotrain: -restrat: unknown flag: did you mean -restart?"},
		{"-config quickstart --accept-change", "gotrain: -accept-change: unknown flag: did you mean -accept-changes?"},
		{"-config quickstart -v", "gotrain: -v: unknown flag: the flags are -accept-changes, -config, -restart: see gotrain help"},
		{"version -long", "gotrain: -long: unknown flag: gotrain version has none"},
		{"-config", "gotrain: -config: FILE is missing after it: see gotrain help"},
		{"eval -run", "gotrain: -run: DIR is missing after it: see gotrain help eval"},
		{"-config quickstart -restart=perhaps", "gotrain: -restart=perhaps: write -restart or -restart=false"},
		{"-config quickstart -restart -accept-changes", "gotrain: -restart starts a new run, and -accept-changes continues the last one: give one of the two"},
		{"-config quickstart other", "gotrain: other: not key=value: a configuration goes after -config, all else is key=value"},
		{"-restart", "gotrain: no configuration: name one with -config FILE"},
		{"seed=2", "gotrain: no configuration: name one with -config FILE"},
		{"check", "gotrain: check: no configuration: name a file or one that ships (" + list + ")"},
		{"graph -o plan.svg", "gotrain: graph: no configuration: name a file or one that ships (" + list + ")"},
		{"check quickstart resnet20_dense", "gotrain: resnet20_dense: not key=value: check takes one configuration, and quickstart is it"},
		{"graph quickstart -streams -inference", "gotrain: -streams draws a training step: leave -inference out"},
		{"graph quickstart -o plan.png", "gotrain: -o plan.png: unknown form: end the name in .svg, .dot or .txt"},
		{"eval", "gotrain: eval: no run: name its folder with -run DIR"},
		{"eval -run runs/a runs/b", "gotrain: runs/b: not key=value: the run's folder goes after -run, all else is key=value"},
		{"doctor now", "gotrain: doctor: takes no arguments"},
		{"version now", "gotrain: version: takes no arguments"},
		{"help check graph", "gotrain: help: explains one command at a time"},
		{"-config nowhere.yaml", "nowhere.yaml: there is no such file: the configurations that ship are " + sentence},
		{"check quickstart learner.minibatchSize=0 learnr.seed=1", "argument learner.minibatchSize=0: 0 is not an integer of at least 1\n" +
			"argument learnr.seed=1: learnr: unknown key: did you mean learner?"},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := gotrain(t, t.TempDir(), strings.Fields(c.args)...).want(t, 2)
			if r.log != c.says+"\n" {
				t.Errorf("says\n%swant\n%s", r.log, c.says)
			}
			if r.out != "" {
				t.Errorf("writes to standard output:\n%s", r.out)
			}
		})
	}
}

func TestACommandLineWithoutWordsExplainsItself(t *testing.T) {
	r := gotrain(t, t.TempDir()).want(t, 2)
	contains(t, "standard error", r.log, "gotrain -config FILE [key=value ...]", "gotrain check ", "Examples:",
		"gotrain: nothing to do: name a configuration with -config, or a command\n")
}

func TestHelpGoesToStandardOutput(t *testing.T) {
	for _, c := range commands() {
		args := append([]string{"help"}, strings.Fields(c.name)...)
		r := gotrain(t, t.TempDir(), args...).want(t, 0)
		contains(t, "help", r.out, c.line(), c.short)
		if c.name == "" {
			continue
		}
		if again := gotrain(t, t.TempDir(), append(strings.Fields(c.name), "-h")...).want(t, 0); again.out != r.out {
			t.Errorf("gotrain %s -h says\n%sand gotrain help %s\n%s", c.name, again.out, c.name, r.out)
		}
	}
	if a, b := gotrain(t, t.TempDir(), "--help").want(t, 0), gotrain(t, t.TempDir(), "help"); a != b {
		t.Errorf("--help and help differ:\n%s\n%s", a.out, b.out)
	}
}

func TestExamplesOfTheHelpAreUnderstood(t *testing.T) {
	for _, c := range commands() {
		for _, e := range c.examples {
			line, _, _ := strings.Cut(e.line, " >")
			words := strings.Fields(line)[1:]
			words = words[len(strings.Fields(c.name)):]
			if _, err := c.parse(words); err != nil {
				t.Errorf("%s: %v", e.line, err)
			}
		}
	}
}

func TestVersionNamesWhatComputes(t *testing.T) {
	r := gotrain(t, t.TempDir(), "version").want(t, 0)
	contains(t, "version", r.out, "gotrain v0-test\n", "go1.", "oneDNN ")
	if other := gotrain(t, t.TempDir(), "--version").want(t, 0); other != r {
		t.Errorf("--version says %q", other.out)
	}
}

func TestTheDoctorSaysWhatIsThereAndHowToGetTheRest(t *testing.T) {
	r := gotrain(t, t.TempDir(), "doctor").want(t, 0)
	contains(t, "doctor", r.out, "gotrain      v0-test\n", "\noneDNN ", "\ncores ", "\nMPI ", "\nCUDA driver ", "\ncuDNN ", "\nNCCL ")
}

func TestTheResolvedConfigurationLoadsAgainToItself(t *testing.T) {
	dir := t.TempDir()
	for _, name := range configs.Shipped() {
		first := gotrain(t, dir, "check", "-print", name).want(t, 0).out
		file := filepath.Join(dir, "printed.yaml")
		if err := os.WriteFile(file, []byte(first), 0o666); err != nil {
			t.Fatal(err)
		}
		if second := gotrain(t, dir, "check", "printed.yaml", "-print").want(t, 0).out; second != first {
			t.Errorf("%s: printed\n%sand loaded and printed again\n%s", name, first, second)
		}
	}
}

func TestCheckReportsTheData(t *testing.T) {
	r := gotrain(t, t.TempDir(), "check", "quickstart").want(t, 0)
	contains(t, "the report", r.out, "6000 samples of shape 1x28x28 in 10 classes", "1000 samples", "Sneaker 600", "resnet-8")
	dir := t.TempDir()
	r = gotrain(t, dir, "check", "resnet20_10epochs", "reader.path=nowhere").want(t, 1)
	contains(t, "standard error", r.log, filepath.Join(dir, "nowhere"), "cifar-10-batches-bin")
}

func TestThePlanIsDrawnInEveryForm(t *testing.T) {
	dir := t.TempDir()
	table := gotrain(t, dir, "graph", "quickstart").want(t, 0).out
	contains(t, "the table", table, "training step", "stem.conv", "backward", "update")
	if inference := gotrain(t, dir, "graph", "-inference", "quickstart").want(t, 0).out; strings.Contains(inference, "backward") {
		t.Errorf("the plan of an evaluation has a backward pass:\n%s", inference)
	}
	streams := gotrain(t, dir, "graph", "quickstart", "-streams", "learner.minibatchSize=2", "distributed.workers=2", "distributed.bits=1").want(t, 0).out
	if !strings.HasPrefix(streams, "work  device  worker  stream") || !strings.Contains(streams, "bucket 0: encode") {
		t.Errorf("the streams are\n%s", streams)
	}
	for name, begins := range map[string]string{"plan.svg": "<svg", "plan.dot": "digraph", "plan.TXT": "training step"} {
		if r := gotrain(t, dir, "graph", "quickstart", "-o", name).want(t, 0); r.out+r.log != "" {
			t.Errorf("-o %s: says %q", name, r.out+r.log)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		contains(t, name, string(b), begins)
		if name == "plan.TXT" && string(b) != table {
			t.Errorf("%s is not the table of standard output", name)
		}
	}
	r := gotrain(t, dir, "graph", "quickstart", "-o", "nowhere/plan.svg").want(t, 1)
	contains(t, "standard error", r.log, "gotrain: open nowhere/plan.svg: no such file or directory")
}

func TestResultsThatCannotBeWrittenAreAnError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range []string{"check quickstart", "doctor", "version", "help", "help graph", "graph -h", "check -print quickstart"} {
		var log bytes.Buffer
		c := prepare(t.TempDir(), nil, strings.Fields(args)...)
		c.Stdout, c.Stderr = full, &log
		c.Run()
		if status := c.ProcessState.ExitCode(); status != 1 || !strings.HasSuffix(log.String(), "write /dev/stdout: no space left on device\n") {
			t.Errorf("%s: status %d, says %q", args, status, log.String())
		}
	}
}

func TestADrawingThatCannotBeWrittenLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command("sh", "-c", `trap '' XFSZ; ulimit -f 0; exec "$0" graph quickstart -o plan.svg`, binary)
	c.Dir, c.Env = dir, environment()
	r := finish(t, c).want(t, 1)
	if r.log != "" && !strings.HasPrefix(r.log, "gotrain: write plan.svg: ") {
		t.Errorf("says %q", r.log)
	}
	if _, err := os.Lstat(filepath.Join(dir, "plan.svg")); err == nil {
		t.Error("half a drawing is left")
	}
}

func TestAnEmptyNameOfAConfigurationIsRefused(t *testing.T) {
	r := gotrain(t, t.TempDir(), "check", "").want(t, 2)
	contains(t, "standard error", r.log, "gotrain: check: the name of the configuration is empty: name a file or one that ships (quickstart, ")
}
