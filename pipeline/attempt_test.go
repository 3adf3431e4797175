package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotrain/configs"
	"gotrain/cuda/emulator"
	"gotrain/internal/synthetic"
)

// events are those of the only run below dir.
func events(t *testing.T, dir string) (all []Event) {
	t.Helper()
	if _, err := ReadEvents(filepath.Join(only(t, dir), MetricsFile), 0, func(e Event) error { all = append(all, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// kinds are the events' kinds, one letter each.
func kinds(all []Event) string {
	var b strings.Builder
	for _, e := range all {
		switch {
		case e.Begin != nil:
			b.WriteByte('B')
		case e.Minibatch != nil:
			b.WriteByte('m')
		case e.Epoch != nil:
			b.WriteByte('e')
		case e.Test != nil:
			b.WriteByte('t')
		case e.Checkpoint != nil:
			b.WriteByte('c')
		case e.End != nil:
			b.WriteByte('E')
		}
	}
	return b.String()
}

func TestARunLeavesItsRecord(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OMP_DYNAMIC", "false")
	do(t, small(t, dir, "learner.maxEpochs=2", "seed=5", "command=[train,test]"), nil)
	all := events(t, dir)
	if got, want := kinds(all), "BmmmmecmmmmectE"; got != want {
		t.Fatalf("the events are %s, want %s", got, want)
	}
	if e := all[13].Test; e.Epoch != 2 || e.Step != 8 || e.Count != 1000 || e.Loss <= 0 || e.Minibatches != 32 {
		t.Errorf("the test is %+v", e)
	}
	if m := all[7].Minibatch; m.Step != 5 || m.Epoch != 2 || m.Minibatch != 1 || m.Count != 32 || m.Loss <= 0 || m.Norm <= 0 || m.Bits != 32 {
		t.Errorf("the fifth minibatch is %+v", m)
	}
	var sum Float
	for _, e := range all[1:5] {
		sum += e.Minibatch.Loss
	}
	if e := all[5].Epoch; e.Epoch != 1 || e.Step != 4 || e.Count != 128 || e.Loss != sum || e.Minibatches != 4 || e.Compute <= 0 || e.Seconds < e.Compute {
		t.Errorf("the first epoch is %+v, and its minibatches have a loss of %v", e, sum)
	}
	if c := all[6].Checkpoint; c.Step != 4 || len(c.Parts[modelPart]) != 64 {
		t.Errorf("the first checkpoint is %+v", c)
	}
	if e := all[len(all)-1].End; e.Status != Finished || e.Error != "" {
		t.Errorf("the end is %+v", e)
	}

	a, err := ReadAttempt(only(t, dir), 1)
	if err != nil {
		t.Fatal(err)
	}
	if a.Number != 1 || a.Version != "v1" || len(a.Binary) != 64 || a.Device.Kind != "cpu" || a.Threads != 1 || a.Process != os.Getpid() || a.Environment["OMP_DYNAMIC"] != "false" {
		t.Errorf("the attempt is %+v", a)
	}
	if host, _ := os.Hostname(); !slices.Equal(a.Hosts, []string{host}) || a.Host != host {
		t.Errorf("the workers' hosts are %q, want %q", a.Hosts, host)
	}
	if len(a.Files) == 0 || !strings.Contains(a.Files[0].Text, "embedded") {
		t.Errorf("the files are %+v", a.Files)
	}
	i := slices.IndexFunc(a.Values, func(v configs.KeyValue) bool { return v.Key == "seed" })
	if i < 0 || a.Values[i].Value != "5" || a.Values[i].Origin != "argument seed=5" {
		t.Errorf("the values are %+v", a.Values)
	}
	if files, err := ReadData(only(t, dir), 1); err != nil || len(files) != 0 {
		t.Errorf("data in the binary has the files %v, %v", files, err)
	}
}

func TestARecordNamesTheDevice(t *testing.T) {
	if f := (device{}).facts(); f.Kind != "cpu" || f.Model == "" || f.ISA == "" || f.Kernels == "" || f.Cores < 1 {
		t.Errorf("of the CPU: %+v", f)
	}
	d := device{gpus: emulator.New(emulator.Options{Devices: 2})}
	info, err := d.gpus.Info(0)
	if err != nil {
		t.Fatal(err)
	}
	if f := d.facts(); f.Kind != "emulator" || f.Model != info.Name || f.ISA != fmt.Sprintf("sm_%d%d", info.Major, info.Minor) {
		t.Errorf("of an emulated GPU: %+v", f)
	}
}

func TestAContinuedRunIsAnotherAttempt(t *testing.T) {
	dir := t.TempDir()
	stop(t, small(t, dir), nil)
	path := filepath.Join(only(t, dir), MetricsFile)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"minibatch":{"step":2,"ep`) // as a process leaves it that is killed
	f.Close()
	if got := kinds(events(t, dir)); got != "BmcE" {
		t.Fatalf("the events are %s", got)
	}
	do(t, small(t, dir), nil)
	all := events(t, dir)
	if got, want := kinds(all), "BmcEBmmmecE"; got != want {
		t.Fatalf("the events are %s, want %s", got, want)
	}
	if e := all[3].End; e.Status != Interrupted || e.Error != "interrupted" {
		t.Errorf("the first attempt ended with %+v", e)
	}
	if b := all[4].Begin; b.Attempt != 2 || b.Step != 1 {
		t.Errorf("the second attempt begins with %+v", b)
	}
	if a, err := ReadAttempt(only(t, dir), 2); err != nil || a.Number != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestADivergedRunSaysSoInItsRecord(t *testing.T) {
	dir := t.TempDir()
	if _, err := try(small(t, dir, "learner.learningRatesPerMB=1e30"), nil); err == nil {
		t.Fatal("it did not diverge")
	}
	all := events(t, dir)
	if e := all[len(all)-1].End; e == nil || e.Status != Diverged || !strings.HasPrefix(e.Error, "diverged in epoch 1, minibatch ") {
		t.Errorf("the end is %+v", e)
	}
}

func TestADamagedLineOfTheMetricsIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), MetricsFile)
	for _, c := range []struct{ text, want string }{
		{"{}\n{]\n", path + ": at byte 3: invalid character ']' looking for beginning of object key string"},
		{"{\"minibatch\":{\"loss\":\"much\"}}\n", path + ": at byte 0: \"much\" is not a number"},
		{strings.Repeat(" ", maxEvent+1<<17) + "\n", path + ": at byte 0: a line is longer than 1048576 bytes"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := ReadEvents(path, 0, func(Event) error { return nil })
		demand(t, c.text[:min(len(c.text), 40)], err, c.want)
	}
}

func TestNumbersOfTheMetricsComeBackToTheBit(t *testing.T) {
	for _, v := range []float64{0, 1.0 / 3, -1e-310, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1)} {
		text, err := json.Marshal(Float(v))
		if err != nil {
			t.Fatal(err)
		}
		var got Float
		if err := json.Unmarshal(text, &got); err != nil || math.Float64bits(float64(got)) != math.Float64bits(v) && !math.IsNaN(v) {
			t.Errorf("%v became %s and %v: %v", v, text, got, err)
		}
	}
}

func TestChecksumsOfDataAreComputedOnce(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "cifar-10-batches-bin")
	if err := synthetic.CIFAR10(data, 40); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	files, _ := filepath.Glob(filepath.Join(data, "*.bin"))
	for _, f := range files {
		if err := os.Chtimes(f, long, long); err != nil {
			t.Fatal(err)
		}
	}
	cfg := small(t, dir, "reader.type=cifar10", "reader.path="+data, "learner.epochSize=64", "command=[train,test]")
	do(t, cfg, nil)
	found, err := ReadData(only(t, dir), 1)
	if err != nil || len(found) < 6 {
		t.Fatalf("%+v, %v", found, err)
	}
	cache := filepath.Join(dir, "runs", sumsFile)
	text, err := os.ReadFile(cache)
	if err != nil || strings.Count(string(text), "\n") < 6 {
		t.Fatalf("%s, %v", text, err)
	}

	// What is remembered is believed, as long as size and time are the same.
	if err := os.WriteFile(cache, []byte(strings.ReplaceAll(string(text), found[0].SHA256, "remembered")), 0o666); err != nil {
		t.Fatal(err)
	}
	again, err := SumData(context.Background(), cache, []string{found[0].Path})
	if err != nil || again[0].SHA256 != "remembered" {
		t.Errorf("%+v, %v", again, err)
	}
	now := long.Add(time.Minute)
	if err := os.Chtimes(found[0].Path, now, now); err != nil {
		t.Fatal(err)
	}
	if again, err = SumData(context.Background(), cache, []string{found[0].Path}); err != nil || again[0].SHA256 != found[0].SHA256 {
		t.Errorf("%+v, %v", again, err)
	}

	// A file that has just changed may change again within its time's resolution.
	fresh := filepath.Join(dir, "fresh")
	if err := os.WriteFile(fresh, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := SumData(context.Background(), cache, []string{fresh}); err != nil {
		t.Fatal(err)
	}
	if _, remembered := readSums(cache)[fresh]; remembered {
		t.Error("the sum of a file that has just been written is remembered")
	}
	_, err = SumData(context.Background(), cache, []string{filepath.Join(dir, "gone")})
	demand(t, "a missing file", err, "computing the checksums of the data: stat "+filepath.Join(dir, "gone")+": no such file or directory")
}

// BenchmarkRecordingAMinibatch is what a line of the metrics takes.
func BenchmarkRecordingAMinibatch(b *testing.B) {
	j, _, err := openJournal(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer j.f.Close()
	e := Event{Minibatch: &MinibatchEvent{Step: 12345, Epoch: 32, Minibatch: 100, Sums: Sums{212.34567891, 71, 128}, Rate: 0.1, Norm: 1.234567, Bits: 1, Seconds: 12.3456}}
	for b.Loop() {
		if err := j.write(e); err != nil {
			b.Fatal(err)
		}
	}
}
