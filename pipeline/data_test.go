package pipeline

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/internal/synthetic"
)

func TestARunGoesOnWithItsDataOnly(t *testing.T) {
	dir := t.TempDir()
	const two = "|features 1 2 |labels 1 0\n|features 3 4 |labels 0 1\n"
	cfg := small(t, dir, append(ctf(t, dir, two, two), "learner.minibatchSize=1", "learner.epochSize=4")...)
	stop(t, cfg, nil)
	end := "\ncontinue it with -accept-changes, start a new run with -restart, or give this one another name="
	begin := only(t, dir) + " is not finished, and its configuration or data was another:\n    training data: "
	ctf(t, dir, two+two, two)
	_, err := try(cfg, nil)
	demand(t, "more samples", err, begin+"samples: 2 -> 4"+end)
	if ExitStatus(err) != 2 {
		t.Errorf("exit status %d", ExitStatus(err))
	}
	ctf(t, dir, "|features 1 2 |labels 1 0\n|features 3 5 |labels 0 1\n", two)
	if _, err := try(cfg, nil); err == nil || !strings.HasPrefix(err.Error(), begin+"fingerprint: ") {
		t.Errorf("other contents: %v", err)
	}
	if s := do(t, cfg, accepting); !strings.HasPrefix(s.screen, "Accepted: training data: fingerprint: ") {
		t.Errorf("says\n%s", s.screen)
	}
}

func TestOtherClassesAreNamed(t *testing.T) {
	old := dataRecord{Fingerprint: "0123456789", Samples: 2, Classes: []string{"a", "b", "c"}}
	for want, classes := range map[string][]string{
		"training data: classes: 3 -> 1":                             {"a"},
		"training data: class 1: b -> x":                             {"a", "x", "c"},
		"training data: class 0, the first of 2 that differ: a -> b": {"b", "a", "c"},
	} {
		changes := old.changes(dataRecord{Fingerprint: old.Fingerprint, Samples: 2, Classes: classes})
		if len(changes) != 1 || changes[0].String() != want {
			t.Errorf("%q gives %v, want %s", classes, changes, want)
		}
	}
	if changes := old.changes(old); changes != nil {
		t.Errorf("itself gives %v", changes)
	}
}

func TestEvalNamesClassesThatTheRunDoesNotHave(t *testing.T) {
	dir := t.TempDir()
	cfg := small(t, dir)
	do(t, cfg, nil)
	run := only(t, dir)
	r, err := ReadRecord(run)
	if err != nil {
		t.Fatal(err)
	}
	name := r.Data.Classes[3]
	r.Data.Classes[3] = "Tent"
	if err := newCheckpoints(run, 0).WriteRunFile(jsonPart(RecordFile, r)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := Settings{Out: &out, Log: &out}
	err = Evaluate(context.Background(), run, nil, s)
	demand(t, "eval", err, run+" has other classes than the test set:\n    training data: class 3: Tent -> "+name+
		"\ngive a test set of its classes, or accept the other names with -accept-changes")
	s.AcceptChanges = true
	if err := Evaluate(context.Background(), run, nil, s); err != nil {
		t.Error(err)
	}
}

func TestAModelOfAnotherNetworkIsRefused(t *testing.T) {
	dir := t.TempDir()
	do(t, small(t, dir, "network.depth=14"), nil)
	run := only(t, dir)
	config, err := os.ReadFile(filepath.Join(run, ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	const says = " is not in the network: the file is of another one\n    network.depth: 14 -> 8\n" +
		"give the network and the kind of data that the run was trained with"
	model := filepath.Join(run, modelPart)
	err = Evaluate(context.Background(), run, []string{"network.depth=8"}, Settings{Out: &bytes.Buffer{}, Log: &bytes.Buffer{}})
	demand(t, "eval", err, model+": stage1.1.bn1.beta"+says)
	if ExitStatus(err) != 2 {
		t.Errorf("exit status %d", ExitStatus(err))
	}
	_, err = try(small(t, dir, "network.depth=8"), accepting)
	demand(t, "going on", err, filepath.Join(run, "checkpoints", "000000000004")+": stage1.1.bn1.beta"+says)
	if after, err := os.ReadFile(filepath.Join(run, ConfigFile)); err != nil || !bytes.Equal(after, config) {
		t.Errorf("the run's configuration became\n%s", after)
	}
}

func TestAModelThatHasChangedIsNotEvaluated(t *testing.T) {
	dir := t.TempDir()
	do(t, small(t, dir), nil)
	path := filepath.Join(only(t, dir), modelPart)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = try(small(t, dir, "command=[test]"), nil)
	if err == nil || !strings.HasPrefix(err.Error(), path+": has the SHA-256 ") ||
		!strings.HasSuffix(err.Error(), "...: it has changed since it was written: restore it, or remove it to take the newest checkpoint") {
		t.Errorf("says %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	do(t, small(t, dir, "command=[test]"), nil)
}

// pictures writes a folder of pictures and one of files that are none, and gives the arguments that read them.
func pictures(t *testing.T, dir string) []string {
	t.Helper()
	classes := []string{"a", "b"}
	if err := synthetic.Images(filepath.Join(dir, "good"), classes, 2, 8); err != nil {
		t.Fatal(err)
	}
	for _, class := range classes {
		folder := filepath.Join(dir, "bad", class)
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "x.png"), []byte("no picture"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"reader.type=images", "reader.path=good", "reader.testPath=bad", "reader.onError=skip", "learner.epochSize=2",
		"reader.transforms=[{color: rgb}, {scale: {width: 8, height: 8}}]"}
}

func TestAnEpochAndATestOfWhichNothingCountsAreErrors(t *testing.T) {
	const skipped = "every sample was skipped: see the messages before, and mend the data or its path"
	for want, args := range map[string][]string{
		"writing the log: epoch 1: " + skipped: {"reader.path=bad"},
		"evaluating: " + skipped:               {"command=[train, test]"},
	} {
		dir := t.TempDir()
		_, err := try(small(t, dir, append(pictures(t, dir), args...)...), nil)
		demand(t, args[0], err, want)
		if ExitStatus(err) != 1 {
			t.Errorf("%s: exit status %d", args[0], ExitStatus(err))
		}
	}
}

func TestAFaultThatTheDataShowsHasItsPlaceInTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	_, err := try(small(t, dir, append(pictures(t, dir), "reader.numClasses=7")...), nil)
	demand(t, "classes", err, "argument reader.numClasses=7: 7, but "+filepath.Join(dir, "good")+" has 2 classes: set it to 2 or auto")
	if ExitStatus(err) != 2 {
		t.Errorf("exit status %d", ExitStatus(err))
	}
}

func TestARunIsNotShortened(t *testing.T) {
	dir := t.TempDir()
	do(t, small(t, dir, "learner.maxEpochs=2"), nil)
	_, err := try(small(t, dir), accepting)
	demand(t, "fewer epochs", err, "argument learner.maxEpochs=1: learner.maxEpochs: 1: "+only(t, dir)+
		" has trained 2 epochs and 0 minibatches already: give more, or start a new run with -restart")
}

func TestMoreThreadsThanCoresAreWarnedOf(t *testing.T) {
	s := stop(t, small(t, t.TempDir(), "threads=64"), nil)
	if !strings.Contains(s.screen, "\nwarning: threads: 64, and there are ") {
		t.Errorf("says\n%s", s.screen)
	}
}
