package archive

import (
	"fmt"
	"math"
	"testing"

	"gotrain/configs"
	"gotrain/pipeline"
)

func TestTheFirstDifferenceIsNamedWithBothValues(t *testing.T) {
	history := func(change func(*History)) History {
		var h History
		for i := range 20 {
			for _, e := range minibatch(i) {
				h.add(e)
			}
			if i%10 == 9 {
				h.add(pipeline.Event{Checkpoint: &pipeline.CheckpointEvent{Step: int64(i + 1), Parts: map[string]string{"model.safetensors": "aa", "state.json": "bb"}}})
			}
		}
		h.add(pipeline.Event{Test: &pipeline.TestEvent{Epoch: 2, Step: 20, Sums: pipeline.Sums{Loss: 1, Errors: 2, Count: 3}}})
		if change != nil {
			change(&h)
		}
		return h
	}
	for _, c := range []struct {
		name   string
		change func(*History)
		want   string
	}{
		{"nothing", nil, "identical through epoch 2\n"},
		{"times", func(h *History) {
			h.Minibatches[3].Seconds = 7
			h.Epochs[0].Compute = 9
			h.Checkpoints[0].Parts["state.json"] = "cc"
		}, "identical through epoch 2\n"},
		{"the last bit of a loss", func(h *History) { h.Minibatches[12].Loss = pipeline.Float(math.Nextafter(20, 21)) },
			"differs: epoch 2, minibatch 3 (step 13): the loss was 20, and is 20.000000000000004\nnothing of environment, binary, libraries, data and device differs from the record\n"},
		{"an error, before a loss", func(h *History) { h.Minibatches[12].Loss = 1; h.Minibatches[1].Errors = 9 },
			"differs: epoch 1, minibatch 2 (step 2): the number of errors was 8, and is 9\nnothing of environment, binary, libraries, data and device differs from the record\n"},
		{"a checkpoint", func(h *History) { h.Checkpoints[0].Parts["model.safetensors"] = "dd"; h.Minibatches[12].Loss = 1 },
			"differs: the checkpoint of step 10: the SHA-256 of model.safetensors was aa, and is dd\nnothing of environment, binary, libraries, data and device differs from the record\n"},
		{"a part more", func(h *History) { h.Checkpoints[1].Parts["sums.safetensors"] = "ee" },
			"differs: the checkpoint of step 20: the SHA-256 of sums.safetensors was (none), and is ee\nnothing of environment, binary, libraries, data and device differs from the record\n"},
		{"a test", func(h *History) { h.Tests[0].Errors = 3 },
			"differs: the test after epoch 2: the number of errors was 2, and is 3\nnothing of environment, binary, libraries, data and device differs from the record\n"},
		{"one epoch", func(h *History) { h.forget(10) }, "identical through epoch 1\n"},
		{"half an epoch", func(h *History) { h.forget(5) }, "identical through step 5\n"},
	} {
		r := compareHistories(history(nil), history(c.change))
		if got := r.String(); got != c.want {
			t.Errorf("%s: says\n%swant\n%s", c.name, got, c.want)
		}
	}
}

func TestCausesAreNamed(t *testing.T) {
	attempt := func(change func(*pipeline.Attempt)) *pipeline.Attempt {
		a := pipeline.Attempt{Version: "v1", Go: "go1.26", Binary: "aaaaaaaaaaaa", Libraries: []pipeline.Library{{Name: "oneDNN", Version: "2.6.3"}},
			Device: pipeline.Device{Kind: "cpu", Model: "EPYC", ISA: "AVX-512", Kernels: "avx512", Cores: 2}, Threads: 1, Environment: map[string]string{"OMP_DYNAMIC": "true"}}
		if change != nil {
			change(&a)
		}
		return &a
	}
	data := func(sum string) []pipeline.DataFile {
		return []pipeline.DataFile{{Path: "/there/a.bin", SHA256: "11111111111"}, {Path: "/there/b.bin", SHA256: sum}}
	}
	was := Details{Attempt: attempt(nil), Data: data("22222222222")}
	for _, c := range []struct {
		name   string
		change func(*pipeline.Attempt)
		data   []pipeline.DataFile
		want   string
	}{
		{"nothing", func(a *pipeline.Attempt) { a.Device.Cores = 64 }, data("22222222222"), "[]"},
		{"another place", nil, []pipeline.DataFile{{Path: "/here/a.bin", SHA256: "11111111111"}, {Path: "/here/b.bin", SHA256: "22222222222"}}, "[]"},
		{"a library", func(a *pipeline.Attempt) { a.Libraries[0].Version = "3.0" }, was.Data, "[libraries: oneDNN: 2.6.3 -> 3.0]"},
		{"a program", func(a *pipeline.Attempt) { a.Binary, a.Version = "bbbbbbbbbbbb", "v2" }, was.Data, "[binary: gotrain v1, SHA-256 aaaaaaaa... -> gotrain v2, SHA-256 bbbbbbbb...]"},
		{"a variable", func(a *pipeline.Attempt) { a.Environment = nil }, was.Data, "[environment: OMP_DYNAMIC: true -> (none)]"},
		{"a processor", func(a *pipeline.Attempt) { a.Device.Model, a.Device.ISA = "Xeon", "AVX2" }, was.Data, "[device: model: EPYC -> Xeon device: instruction set: AVX-512 -> AVX2]"},
		{"a file", nil, data("33333333333"), "[data: /there/b.bin: SHA-256 22222222... -> 33333333...]"},
		{"files", nil, data("22222222222")[:1], "[data: 2 files -> 1 files]"},
	} {
		got := causes(was, Details{Attempt: attempt(c.change), Data: c.data}, pipeline.Record{}, pipeline.Record{})
		if text := fmt.Sprint(got); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
	var is pipeline.Record
	is.Data.Fingerprint = "12345678ff"
	if got := fmt.Sprint(causes(Details{Attempt: attempt(nil)}, Details{Attempt: attempt(nil)}, pipeline.Record{}, is)); got != "[data: the training set's fingerprint: ... -> 12345678...]" {
		t.Errorf("without a list of files: %s", got)
	}
}

func TestRunsAreSetSideBySide(t *testing.T) {
	one := Details{Run: Run{Folder: "one"}, Attempt: &pipeline.Attempt{Values: []configs.KeyValue{{Key: "seed", Value: "1"}, {Key: "device", Value: "cpu"}}}}
	two := Details{Run: Run{Folder: "two"}, Attempt: &pipeline.Attempt{Values: []configs.KeyValue{{Key: "device", Value: "cpu"}}}}
	for i := range 20 {
		for _, e := range minibatch(i) {
			one.History.add(e)
			if i < 10 {
				two.History.add(e)
			}
		}
	}
	c := Compare([]Details{one, two})
	if got := fmt.Sprint(c.Keys); got != "[{seed [1 ]}]" {
		t.Errorf("the keys that differ are %s", got)
	}
	if len(c.Epochs) != 2 || c.Epochs[0].Runs[1] == nil || c.Epochs[1].Runs[0] == nil || c.Epochs[1].Runs[1] != nil {
		t.Errorf("the epochs are %+v", c.Epochs)
	}
}
