package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// script writes a program for the shell.
func script(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

const epochs = `echo "Finished Epoch [1]: [Training] loss = 1.6 * 50000, metric = 62% * 50000 1s (800.0 samples per second)"
echo "Finished Epoch [2]: [Training] loss = 1.5 * 50000, metric = 60% * 50000 1s (1000.0 samples per second)"
`

func TestMediansAndRatiosAreReported(t *testing.T) {
	o := options{
		gotrain: script(t, "gotrain", epochs), rounds: 2, epochs: 2,
		python: script(t, "python", "case $3 in contiguous) echo 300; echo 320; echo 310;; *) echo 500; echo 300; echo 450;; esac\n"),
	}
	var b bytes.Buffer
	if err := run(o, "set", &b); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{
		`(?m)^round 2: gotrain bfloat16: 800, 1000 samples/s$`,
		`(?m)^gotrain float32 +900 samples/s +\d+ MiB$`,
		`(?m)^PyTorch float32 contiguous +310 samples/s +\d+ MiB$`,
		`(?m)^PyTorch bfloat16 channelsLast +450 samples/s +\d+ MiB$`,
		`(?m)^  gotrain is 2\.00 times as fast as PyTorch's faster, and takes \d\.\d\d of the memory of its leaner$`,
		`(?m)^first epoch: 1\.25 times as long as the second$`,
	} {
		if !regexp.MustCompile(form).Match(b.Bytes()) {
			t.Errorf("the report does not match %s:\n%s", form, b.String())
		}
	}
}

func TestWithoutPyTorchGotrainIsMeasuredAlone(t *testing.T) {
	var b bytes.Buffer
	if err := run(options{gotrain: script(t, "gotrain", epochs), rounds: 1, epochs: 2}, "set", &b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "PyTorch") || !strings.Contains(b.String(), "gotrain bfloat16") {
		t.Errorf("the report is\n%s", b.String())
	}
}

func TestAProgramThatFailsEndsTheMeasurement(t *testing.T) {
	for _, c := range []struct{ gotrain, python, says string }{
		{"echo no such data >&2; exit 2\n", "", "exit status 2\nno such data\n"},
		{"echo nothing\n", "", "gotrain finished 0 of 2 epochs and said:\nnothing\n"},
		{epochs, "echo hello\n", `PyTorch said "hello\n"`},
		{epochs, "true\n", "PyTorch made no step"},
	} {
		o := options{gotrain: script(t, "gotrain", c.gotrain), rounds: 1, epochs: 2}
		if c.python != "" {
			o.python = script(t, "python", c.python)
		}
		if err := run(o, "set", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want one with %q", err, c.says)
		}
	}
}
