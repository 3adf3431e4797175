package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/internal/synthetic"
)

// cifar makes a small set like CIFAR-10 below dir.
func cifar(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "cifar-10-batches-bin")
	if err := synthetic.CIFAR10(path, 40); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABundleWithItsDataReplaysElsewhereToTheBit(t *testing.T) {
	for _, args := range []string{"", "precision=bfloat16", "distributed.workers=4 distributed.bits=1", "distributed.workers=4 distributed.bits=1 precision=bfloat16"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			dir, other := t.TempDir(), t.TempDir()
			file := filepath.Join(other, "run.tar.zst")
			words := append([]string{"-config", "quickstart", "name=it", "reader.type=cifar10", "reader.path=" + cifar(t, dir), "reader.transforms=[{crop: {padding: 2}}, {normalize: {mean: [120], std: [60]}}]",
				"learner.minibatchSize=32", "learner.maxEpochs=2", "checkpoint.everyMinibatches=3", "checkpoint.keep=1"}, strings.Fields(args)...)
			gotrain(t, dir, words...).want(t, 0)
			gotrain(t, dir, "runs", "export", "it", "-with-data", "-o", file).want(t, 0)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			gotrain(t, other, "runs", "import", "run.tar.zst").want(t, 0)
			r := gotrain(t, other, "replay", "it").want(t, 0)
			if !strings.HasSuffix(r.out, "\nidentical through epoch 2\n") {
				t.Errorf("says\n%s", r.out)
			}
			r = gotrain(t, other, "replay", "it", "-epochs", "1").want(t, 0)
			if !strings.HasSuffix(r.out, "\nidentical through epoch 1\n") {
				t.Errorf("one epoch says\n%s", r.out)
			}
		})
	}
}

func TestAReplayNamesWhatDiffers(t *testing.T) {
	dir := t.TempDir()
	data := cifar(t, dir)
	gotrain(t, dir, "-config", "quickstart", "name=it", "reader.type=cifar10", "reader.path="+data, "reader.transforms=[{normalize: {mean: [120], std: [60]}}]",
		"learner.minibatchSize=32", "learner.maxEpochs=1").want(t, 0)

	r := gotrain(t, dir, "replay", "it", "seed=2").want(t, 1)
	contains(t, "another seed", r.out, "\ndiffers: epoch 1, minibatch 1 (step 1): the loss was ", ", and is ", "\nwhat differs from the record: configuration: seed: 1 -> 2\n")
	if !strings.HasPrefix(r.log[strings.LastIndex(r.log, "gotrain: "):], "gotrain: the replay of it-") {
		t.Errorf("says %q", r.log)
	}

	flip(t, filepath.Join(data, "data_batch_1.bin"))
	r = gotrain(t, dir, "replay", "it").want(t, 1)
	contains(t, "another byte", r.out, "\ndiffers: epoch 1, minibatch ", "\nwhat differs from the record: data: "+filepath.Join(data, "data_batch_1.bin")+": SHA-256 ")
	flip(t, filepath.Join(data, "data_batch_1.bin"))

	other := filepath.Join(t.TempDir(), "gotrain")
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, append(text, 0), 0o777); err != nil { // which it doesn't mind
		t.Fatal(err)
	}
	c := exec.Command(other, "replay", "it")
	c.Dir, c.Env = dir, append(environment(), "OMP_DYNAMIC=false")
	r = finish(t, c).want(t, 0)
	contains(t, "another binary", r.out, "\nidentical through epoch 1\n", "\nalthough this differs from the record: binary: gotrain v0-test, SHA-256 ",
		"\nalthough this differs from the record: environment: OMP_DYNAMIC: (none) -> false\n")
}

func TestARunIsResumedByItsName(t *testing.T) {
	want, _ := straight(t)
	dir := t.TempDir()
	stopAfter(t, dir, 5, 0, os.Interrupt)
	if l := list(t, dir); l[0].Status != "interrupted" {
		t.Fatalf("%+v", l)
	}
	r := gotrain(t, dir, "resume", "short").want(t, 0)
	contains(t, "standard error", r.log, "Continuing ")
	if string(model(t, dir)) != string(want) {
		t.Error("the model is another than that of a run that was not interrupted")
	}
	l := list(t, dir)
	if len(l) != 1 || l[0].Status != "finished" || l[0].Attempts != 2 {
		t.Errorf("%+v", l)
	}
	r = gotrain(t, dir, "resume", "short").want(t, 2)
	if r.log != "gotrain: "+l[0].Folder+" is finished: to train on, give more epochs: gotrain resume short learner.maxEpochs=6 -accept-changes\n" {
		t.Errorf("says %q", r.log)
	}
	gotrain(t, dir, "resume", "short", "learner.maxEpochs=4", "-accept-changes").want(t, 0)
	if l := list(t, dir); len(l) != 1 || l[0].Epochs != 4 || l[0].Attempts != 3 {
		t.Errorf("%+v", l)
	}
	if r := gotrain(t, dir, "replay", "short").want(t, 0); !strings.HasSuffix(r.out, "\nidentical through epoch 4\nnote: attempt 3 went on from step 60 with another configuration than the one before: the replay has the last one from the beginning\n") {
		t.Errorf("says\n%s", r.out)
	}
}

func TestADivergedRunDivergesAgain(t *testing.T) {
	dir := t.TempDir()
	gotrain(t, dir, "-config", "quickstart", "name=it", "learner.minibatchSize=32", "learner.learningRateSchedule=null", "learner.learningRatesPerMB=1e6", "learner.maxEpochs=1").want(t, 1)
	if l := list(t, dir); l[0].Status != "diverged" || !strings.HasPrefix(l[0].Error, "diverged in epoch 1, minibatch ") {
		t.Errorf("%+v", l)
	}
	if r := gotrain(t, dir, "replay", "it").want(t, 0); !strings.HasPrefix(r.out, "identical through step ") {
		t.Errorf("says %s", r.out)
	}
}

func TestPicturesGoWithABundle(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for name, n := range map[string]int{"train": 8, "test": 4} {
		if err := synthetic.Images(filepath.Join(dir, "flowers", name), []string{"daisy", "rose"}, n, 32); err != nil {
			t.Fatal(err)
		}
	}
	pictures, _ := filepath.Glob(filepath.Join(dir, "flowers", "train", "*", "*"))
	relative, absolute := "", ""
	for i, p := range pictures {
		name, _ := filepath.Rel(filepath.Join(dir, "flowers"), p)
		relative += fmt.Sprintf("%s\t%d\n", name, i%2)
		absolute += fmt.Sprintf("%s\t%d\n", p, i%2)
	}
	for name, text := range map[string]string{"relative.map": relative, "absolute.map": absolute} {
		if err := os.WriteFile(filepath.Join(dir, "flowers", name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-config", "quickstart", "command=[train]", "reader.type=images", "reader.transforms=[{scale: {width: 16, height: 16}}, {normalize: {mean: [120], std: [60]}}]", "learner.minibatchSize=4", "learner.maxEpochs=1"}
	gotrain(t, dir, append(args, "name=folder", "reader.path=flowers", "command=[train,test]")...).want(t, 0)
	gotrain(t, dir, append(args, "name=map", "reader.path=flowers/relative.map")...).want(t, 0)
	gotrain(t, dir, append(args, "name=absolute", "reader.path=flowers/absolute.map")...).want(t, 0)
	for _, name := range []string{"folder", "map"} {
		file := filepath.Join(other, name+".tar.zst")
		gotrain(t, dir, "runs", "export", name, "-with-data", "-o", file).want(t, 0)
		gotrain(t, other, "runs", "import", file).want(t, 0)
	}
	r := gotrain(t, dir, "runs", "export", "absolute", "-with-data").want(t, 1)
	contains(t, "standard error", r.log, ": exporting its data: "+filepath.Join(dir, "flowers", "absolute.map")+":1: an absolute path, which leads nowhere elsewhere: write paths relative to the map\n")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"folder", "map"} {
		if r := gotrain(t, other, "replay", name).want(t, 0); !strings.HasSuffix(r.out, "identical through epoch 1\n") {
			t.Errorf("%s: says\n%s", name, r.out)
		}
	}
	gotrain(t, other, "runs", "verify", "map", "-data").want(t, 1) // whose data lay where it was trained
}
