package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotrain/configs"
	"gotrain/pipeline"
)

var began = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// fake writes a run's folder as package pipeline does, with so many minibatches in epochs of 10.
func fake(t testing.TB, dir, name, status string, minibatches int, values ...configs.KeyValue) string {
	t.Helper()
	hash := fmt.Sprintf("%x", name) + strings.Repeat("0", 64)
	folder := fmt.Sprintf("%s-20260131-120000-%.8s", name, hash)
	run := filepath.Join(dir, folder)
	write := func(file string, v any) {
		t.Helper()
		text, err := json.Marshal(v)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(run, file)), 0o777)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(run, file), text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	record := pipeline.Record{Name: name, Hash: hash[:64], Started: began, Status: status, Threads: 1, Version: "v1", Engine: "an abacus", Team: "1 worker"}
	write(pipeline.RecordFile, record)
	values = append(values, configs.KeyValue{Key: "learner.maxEpochs", Value: "5"}, configs.KeyValue{Key: "distributed.workers", Value: "2"},
		configs.KeyValue{Key: "distributed.bits", Value: `"1"`}, configs.KeyValue{Key: "precision", Value: "float32"})
	write("attempts/001.json", pipeline.Attempt{Number: 1, Began: began, Values: values, Device: pipeline.Device{Kind: "cpu"}})
	add(t, run, pipeline.Event{Begin: &pipeline.BeginEvent{Attempt: 1, Time: began}})
	for i := range minibatches {
		add(t, run, minibatch(i)...)
	}
	if status != pipeline.Running {
		add(t, run, pipeline.Event{End: &pipeline.EndEvent{Status: status, Time: began.Add(time.Minute)}})
	}
	return folder
}

func minibatch(i int) []pipeline.Event {
	sums := pipeline.Sums{Loss: 20, Errors: pipeline.Float(8 - i/10), Count: 10}
	all := []pipeline.Event{{Minibatch: &pipeline.MinibatchEvent{Step: int64(i + 1), Epoch: i/10 + 1, Minibatch: i%10 + 1, Sums: sums, Rate: 0.1, Norm: 1, Bits: 1}}}
	if i%10 == 9 {
		all = append(all, pipeline.Event{Epoch: &pipeline.EpochEvent{Epoch: i/10 + 1, Step: int64(i + 1), Sums: sums, Seconds: 2}})
	}
	return all
}

func add(t testing.TB, run string, events ...pipeline.Event) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(run, pipeline.MetricsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
	}
}

func openIndex(t testing.TB, dir string) *Index {
	t.Helper()
	x, err := Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// list gives all runs, and demands that there are no faults.
func (x *Index) list(t testing.TB) []Run {
	t.Helper()
	runs, faults, err := x.Runs(context.Background())
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	return runs
}

func (x *Index) count(t testing.TB, table string) (n int) {
	t.Helper()
	if err := x.db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func demand(t *testing.T, what string, got error, want string) {
	t.Helper()
	if got == nil || got.Error() != want {
		t.Errorf("%s: the error is\n%v\nwant\n%s", what, got, want)
	}
}

func TestTheIndexSaysWhatTheFoldersSay(t *testing.T) {
	dir := t.TempDir()
	folder := fake(t, dir, "one", pipeline.Finished, 25)
	x := openIndex(t, dir)
	runs := x.list(t)
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	r := runs[0]
	if r.Folder != folder || r.Name != "one" || r.Status != "finished" || !r.Started.Equal(began) || !r.Ended.Equal(began.Add(time.Minute)) || r.Attempts != 1 ||
		r.Device != "cpu" || r.Precision != "float32" || r.Workers != 2 || r.Bits != "1" || r.Epochs != 2 || r.MaxEpochs != 5 || r.Steps != 25 ||
		*r.Loss != 2 || *r.BestError != 70 || r.BestOf != "training" || r.SamplesPerSecond != 5 || r.Seconds != 4 || r.Version != "v1" || r.Engine != "an abacus" {
		t.Errorf("%+v, loss %v, error %v", r, *r.Loss, *r.BestError)
	}

	// It goes on: a second attempt forgets what it makes again.
	run := filepath.Join(dir, folder)
	add(t, run, pipeline.Event{Begin: &pipeline.BeginEvent{Attempt: 2, Step: 20, Time: began}})
	add(t, run, minibatch(20)...)
	add(t, run, pipeline.Event{Test: &pipeline.TestEvent{Epoch: 2, Step: 21, Sums: pipeline.Sums{Loss: 1, Errors: 3, Count: 20}}})
	if err := x.Sync(context.Background(), folder); err != nil {
		t.Fatal(err)
	}
	r = x.list(t)[0]
	if r.Attempts != 2 || r.Steps != 21 || *r.BestError != 15 || r.BestOf != "test" || !r.Ended.IsZero() {
		t.Errorf("%+v, error %v", r, *r.BestError)
	}

	if err := os.RemoveAll(run); err != nil {
		t.Fatal(err)
	}
	if runs := x.list(t); len(runs) != 0 || x.count(t, "minibatches")+x.count(t, "attempts")+x.count(t, "config") != 0 {
		t.Errorf("of a run whose folder is gone there is %+v", runs)
	}
}

func TestARunWhoseProcessIsGoneHasCrashed(t *testing.T) {
	dir := t.TempDir()
	folder := fake(t, dir, "one", pipeline.Running, 5)
	release := hold(t, filepath.Join(dir, folder))
	x := openIndex(t, dir)
	if s := x.list(t)[0].Status; s != "running" {
		t.Errorf("its process lives, and it is %s", s)
	}
	release()
	if s := x.list(t)[0].Status; s != "crashed" {
		t.Errorf("its process is gone, and it is %s", s)
	}
	release = hold(t, filepath.Join(dir, folder))
	if s := x.list(t)[0].Status; s != "running" {
		t.Errorf("another process goes on with it, and it is %s", s)
	}
	release()
}

// hold locks a run's folder as a process does that trains in it.
func hold(t *testing.T, run string) (release func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(run, pipeline.LockFile))
	if err == nil {
		_, err = f.WriteString("process 7 on elsewhere\n")
	}
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

func TestReindexMakesTheSameIndex(t *testing.T) {
	dir := t.TempDir()
	fake(t, dir, "one", pipeline.Finished, 25)
	fake(t, dir, "two", pipeline.Diverged, 3)
	x := openIndex(t, dir)
	want := x.list(t)
	x.Close()
	path := filepath.Join(dir, IndexFile)
	for _, damage := range []func() error{
		func() error { return nil },
		func() error { return os.Remove(path) },
		func() error { return os.WriteFile(path, []byte(strings.Repeat("this is no database ", 1000)), 0o666) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if n, faults, err := Reindex(context.Background(), dir); n != 2 || len(faults) > 0 || err != nil {
			t.Fatal(n, faults, err)
		}
		x := openIndex(t, dir)
		got, _ := json.Marshal(x.list(t))
		if wanted, _ := json.Marshal(want); string(got) != string(wanted) {
			t.Errorf("the index is\n%s, want\n%s", got, wanted)
		}
		if n := x.count(t, "minibatches"); n != 28 {
			t.Errorf("%d minibatches", n)
		}
		x.Close()
	}
}

func TestFaultsOfIndexAndFoldersAreNamed(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	_, err := Open(ctx, filepath.Join(dir, "nowhere"))
	demand(t, "no folder", err, filepath.Join(dir, "nowhere")+": there is no such folder, and so no run: name the outputDir of the runs with -runs DIR")

	path := filepath.Join(dir, IndexFile)
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database ", 1000)), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = Open(ctx, dir)
	demand(t, "no database", err, path+": file is not a database: gotrain runs reindex makes it anew from the folders")
	os.Remove(path)

	x := openIndex(t, dir)
	if _, err := x.db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	x.Close()
	_, err = Open(ctx, dir)
	demand(t, "a newer index", err, fmt.Sprintf("%s: the index has version 99, and this gotrain knows %d: use the newer gotrain, or remove %s, for the folders have all that is in it", path, len(migrations), path))
	os.Remove(path)

	broken := filepath.Join(dir, fake(t, dir, "broken", pipeline.Finished, 1))
	lines := filepath.Join(dir, fake(t, dir, "lines", pipeline.Finished, 1))
	if err := os.WriteFile(filepath.Join(broken, pipeline.RecordFile), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lines, pipeline.MetricsFile), []byte("{\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	x = openIndex(t, dir)
	runs, faults, err := x.Runs(ctx)
	if err != nil || len(faults) != 2 || len(runs) != 1 || runs[0].Name != "lines" {
		t.Fatalf("%v, %q, %+v", err, faults, runs)
	}
	demand(t, "a broken record", faults[0], filepath.Join(broken, "run.json")+": unexpected end of JSON input")
	demand(t, "a broken line", faults[1], filepath.Join(lines, "metrics.jsonl")+": at byte 0: unexpected end of JSON input")
}

func TestRunsAreFilteredAndSorted(t *testing.T) {
	dir := t.TempDir()
	fake(t, dir, "one", pipeline.Finished, 25, configs.KeyValue{Key: "seed", Value: "7"})
	fake(t, dir, "other", pipeline.Failed, 10, configs.KeyValue{Key: "seed", Value: "8"})
	fake(t, dir, "none", pipeline.Interrupted, 0, configs.KeyValue{Key: "learner.learningRatesPerMB", Value: `"1.0*80:0.1"`})
	x := openIndex(t, dir)
	all := x.list(t)
	names := func(runs []Run) string {
		var names []string
		for _, r := range runs {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for _, c := range []struct{ conditions, want string }{
		{"status=finished", "one"},
		{"name=o*", "one other"},
		{"name!=o* status!=failed", "none"},
		{"error<75%", "one"},
		{"error>=75", "other"},
		{"epochs=0", "none"},
		{"seed=7", "one"},
		{"SEED>7", "other"},
		{"learner.learningRatesPerMB=1.0*", "none"},
		{"workers=2 bits=1 device=cpu", "none one other"},
	} {
		got, err := x.Filter(context.Background(), all, strings.Fields(c.conditions))
		if err != nil || names(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", c.conditions, names(got), err, c.want)
		}
	}
	for _, c := range []struct{ condition, want string }{
		{"finished", "finished: no condition: write KEY=VALUE, KEY!=VALUE, KEY<NUMBER or KEY>NUMBER"},
		{"sped=3", "sped=3: sped is neither a key of a configuration nor one of " + strings.Join(FieldNames(), ", ")},
		{"error<low", `error<low: "low" is not a number`},
		{"name<b", "name<b: name is a text: write = or !="},
		{"name=[", `name=[: "[" is not a pattern: close its bracket`},
	} {
		_, err := x.Filter(context.Background(), all, []string{c.condition})
		demand(t, c.condition, err, c.want)
	}
	for _, c := range []struct {
		by         string
		descending bool
		want       string
	}{{"name", false, "none one other"}, {"error", false, "one other none"}, {"error", true, "other one none"}, {"status", true, "none one other"}} {
		runs := slices.Clone(all)
		if err := Sort(runs, c.by, c.descending); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range runs {
			got = append(got, r.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("by %s, descending %v: %s, want %s", c.by, c.descending, got, c.want)
		}
	}
	demand(t, "sorting", Sort(all, "colour", false), "colour: runs are sorted by one of "+strings.Join(FieldNames(), ", "))
}

func TestARunIsFoundByItsNames(t *testing.T) {
	runs := []Run{
		{Folder: "b-20260131-120001-abcd1234", Name: "b", Hash: "abcd1234ff"},
		{Folder: "a-20260131-120000-abcd1234", Name: "a", Hash: "abcd1234ff"},
		{Folder: "a-20260130-120000-abcdef00", Name: "a", Hash: "abcdef0000"},
	}
	for _, c := range []struct{ word, want string }{
		{"latest", runs[0].Folder}, {"a", runs[1].Folder}, {runs[2].Folder, runs[2].Folder}, {"abcd12", runs[0].Folder}, {"ABCDEF", runs[2].Folder},
		{"runs/" + runs[1].Folder + "/", runs[1].Folder},
	} {
		if r, err := Find(runs, "runs", c.word); err != nil || r.Folder != c.want {
			t.Errorf("%s: %s, %v, want %s", c.word, r.Folder, err, c.want)
		}
	}
	for _, c := range []struct{ word, want string }{
		{"abcd", "abcd: abcd1234ff and abcdef0000 begin so: give more digits, or a folder's name"},
		{"abc", "abc: no run in runs has this name, folder or hash: gotrain runs lists them"},
		{"elsewhere/" + runs[1].Folder, "elsewhere/" + runs[1].Folder + ": no run in runs has this name, folder or hash: gotrain runs lists them"},
	} {
		_, err := Find(runs, "runs", c.word)
		demand(t, c.word, err, c.want)
	}
	_, err := Find(nil, "runs", "latest")
	demand(t, "no runs", err, "latest: there is no run in runs")
}

// TestWritingProcess is no test: TestProcessesWriteAtOnce runs it in processes of its own. Each writes a run's metrics while it
// keeps the index up to date.
func TestWritingProcess(t *testing.T) {
	dir, name := os.Getenv("ARCHIVE_TEST_DIR"), os.Getenv("ARCHIVE_TEST_NAME")
	if dir == "" {
		t.Skip("for TestProcessesWriteAtOnce")
	}
	folder := fake(t, dir, name, pipeline.Running, 0)
	x := openIndex(t, dir)
	for i := range rowsEach {
		add(t, filepath.Join(dir, folder), minibatch(i)...)
		if i%500 == 499 {
			if err := x.Sync(context.Background(), folder); err != nil {
				t.Fatal(err)
			}
		}
	}
}

const (
	processes = 8
	rowsEach  = 10_000
)

func TestProcessesWriteAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	start := time.Now()
	var running sync.WaitGroup
	for i := range processes {
		running.Go(func() {
			c := exec.Command(os.Args[0], "-test.run=^TestWritingProcess$")
			c.Env = append(os.Environ(), "ARCHIVE_TEST_DIR="+dir, fmt.Sprintf("ARCHIVE_TEST_NAME=p%d", i))
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("process %d: %v\n%s", i, err, out)
			}
		})
	}
	running.Wait()
	took := time.Since(start)
	x := openIndex(t, dir)
	if n := x.count(t, "minibatches"); n != processes*rowsEach {
		t.Errorf("%d rows, want %d", n, processes*rowsEach)
	}
	if n := x.count(t, "epochs"); n != processes*rowsEach/10 {
		t.Errorf("%d epochs, want %d", n, processes*rowsEach/10)
	}
	if took > time.Minute {
		t.Errorf("it took %v", took)
	}
	t.Logf("%d rows of %d processes in %v", processes*rowsEach, processes, took)
}

// BenchmarkListing10000Runs is what `gotrain runs` asks for: the index opened, brought up to date with the folders, read, sorted.
func BenchmarkListing10000Runs(b *testing.B) {
	dir := b.TempDir()
	for i := range 10_000 {
		fake(b, dir, fmt.Sprintf("run%05d", i), pipeline.Finished, 0)
	}
	x := openIndex(b, dir)
	x.list(b)
	x.Close()
	for b.Loop() {
		x, err := Open(context.Background(), dir)
		if err != nil {
			b.Fatal(err)
		}
		runs := x.list(b)
		if err := Sort(runs, "speed", true); err != nil || len(runs) != 10_000 {
			b.Fatal(len(runs), err)
		}
		x.Close()
	}
}
