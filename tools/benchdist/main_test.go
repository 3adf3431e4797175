package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// script writes a program for the shell.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	// A network in which 32 bits are slow on slow links, and everything else is not.
	network = `while [ "$1" != -- ]; do [ "$1" = -r ] && export RATE=$2; shift; done; shift; exec "$@"
`
	trains = `case "$*" in
profile*) cat <<TABLE
 bits         sent    compute   quantize   exchange     hidden    exposed   predicted   measured
   32    1645.0 kB     302 ms      24 µs     152 ms      83 ms      69 ms      1.28 s     405 ms
    1      76.5 kB     302 ms      71 µs     1.4 ms     686 µs     680 µs      128 ms     241 ms  <- chosen
TABLE
exit;; esac
speed=1000.0
case "$RATE $*" in 10mbit*bits=32*) speed=100.0;; *bits=auto*) speed=990.0; echo "Chosen: 1 bit" >&2;; esac
for n in 1 2; do
	echo "Finished Epoch [$n]: [Training] loss = 1.6 * 50000, metric = 62% * 50000 1s ($speed samples per second)"
	echo "time: compute 3.00s, quantize 0.50s (and 0.10s beside the computation), exchange exposed 0.50s, wait for data 0.00s; 68.2 kB sent a minibatch" >&2
done
`
	peer = "case $3 in dense) echo 400; echo 500; echo 450;; *) echo 600;; esac\n"
)

func TestSettingsTakeTurnsAndAreComparedInEachRound(t *testing.T) {
	docs := t.TempDir()
	const page = "before\n<!-- bench-distributed: demands 20 -->\nold\n<!-- /bench-distributed -->\nafter\n"
	for _, name := range []string{"performance.md", "onebit.md"} {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	o := options{gotrain: script(t, trains), python: script(t, peer), network: script(t, network), docs: docs, out: filepath.Join(docs, "out.json"),
		rates: []string{"none", "10mbit", local}, settings: []string{"32", "1", "auto", cntk, columns, torch, torchFP16}, depths: []string{"20"},
		rounds: 2, samples: 640, limit: time.Minute, whole: true}
	var b bytes.Buffer
	if err := run(context.Background(), o, &b); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{
		`round 2: ResNet-20, 10 Mbit/s, 1 bit: 1000 samples/s`,
		`\| PyTorch \| 450 \| 450 \|  \|`,
		`\| 1 bit / 32 bits \| 1\.00 \(≥ 0\.97\) \| 10\.00 \(≥ 5\) \| 1\.00 \(≥ 0\.97\) \|`,
		`\| auto / best fixed \| 0\.99 \(≥ 0\.95\) \|`,
		`\| time predicted / measured, 32 bits \| \*\*10\.00\*\* \(0\.8 to 1\.2\) \| 1\.00 \(0\.8 to 1\.2\) \|`,
		`\| 1 bit / PyTorch's best \| 1\.67 \| \*\*1\.67\*\* \(≥ 4\) \|  \|`,
		`\| gotrain, 1 bit, columns of 3 values \| 68\.2 kB \|  \|  \| 1000 \|`,
		`\| 10 Mbit/s: 1 bit \| 96 \| 16 \| 16 \| 128 \|`,
		`- 10 Mbit/s: 1 bit\n`,
	} {
		if !regexp.MustCompile(form).Match(b.Bytes()) {
			t.Errorf("the report does not match %s:\n%s", form, b.String())
		}
	}
	written, err := os.ReadFile(filepath.Join(docs, "onebit.md"))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(written); !strings.HasPrefix(s, "before\n<!--") || !strings.HasSuffix(s, "-->\nafter\n") || strings.Contains(s, "old") || !strings.Contains(s, "10.00 (≥ 5)") {
		t.Errorf("the page is\n%s", s)
	}
	for _, name := range []string{"onebit-speed.svg", "onebit-time.svg"} {
		f, err := os.Open(filepath.Join(docs, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for d := xml.NewDecoder(f); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	// The tables come from the file of results alone, too.
	var again bytes.Buffer
	if err := run(context.Background(), options{from: o.out}, &again); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), again.String()) {
		t.Errorf("from the file come other tables:\n%s", again.String())
	}
}

func TestWhatFailsIsReportedAndTheRestIsMeasured(t *testing.T) {
	o := options{gotrain: script(t, `case "$*" in *bits=1*) echo no such bits >&2; exit 2;; esac`+"\n"+trains), network: script(t, network),
		rates: []string{local}, settings: []string{"32", "1"}, depths: []string{"20"}, rounds: 1, samples: 640, limit: time.Minute}
	var b bytes.Buffer
	if err := run(context.Background(), o, &b); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"one process, 1 bit: exit status 2\nno such bits\n", "1 measurements failed", "| 32 bits | 1000 |"} {
		if !strings.Contains(b.String(), words) {
			t.Errorf("the report lacks %q:\n%s", words, b.String())
		}
	}
}

func TestNothingBeginsBehindTheLimit(t *testing.T) {
	o := options{gotrain: script(t, trains), rates: []string{local}, settings: []string{"32"}, depths: []string{"20"}, rounds: 1, samples: 640, limit: -1}
	var b bytes.Buffer
	if err := run(context.Background(), o, &b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "1 of 1 measurements are left out (LIMIT)") {
		t.Errorf("the report is\n%s", b.String())
	}
}

func TestTheQuantizersBenchmarkIsRead(t *testing.T) {
	r := record{Quantizer: parseQuantizers("goos: linux\n" +
		"BenchmarkQuantizer/avx512/cached/bits=1/encode-2 \t 1280\t 60.52 GB/s\t 94.20 memcpyGB/s\t 0.6424 ratio\n" +
		"BenchmarkQuantizer/avx512/cached/bits=1/encode-apart-2 \t 1280\t 50.00 GB/s\t 100.0 memcpyGB/s\t 0.5 ratio\n" +
		"BenchmarkQuantizer/avx2/cached/bits=1/encode-2 \t 1280\t 30.52 GB/s\t 94.20 memcpyGB/s\t 0.3 ratio\n")}
	want := "| GB/s with avx512 (of memcpy) | quantize | quantize, residual elsewhere | decode | decode and add |\n" +
		"|---|--:|--:|--:|--:|\n| 1 bit, in cache | 61 (64 %) | 50 (50 %) |  |  |\n"
	if got := r.quantizer(); got != want {
		t.Errorf("the table is\n%swant\n%s", got, want)
	}
}

func TestEveryMeasurementIsPlannedOnceInEachRound(t *testing.T) {
	o := options{python: "python", rates: []string{"none", "10mbit", local}, settings: []string{"32", "1", "auto", cntk, late, torch},
		depths: []string{"20", "110"}, rounds: 3}
	times := map[job]int{}
	for _, j := range plan(o) {
		times[j]++
	}
	for _, c := range []struct {
		j     job
		times int
	}{
		{job{1, "20", "none", "32"}, 1}, {job{3, "20", "10mbit", "auto"}, 1}, {job{2, "20", local, cntk}, 1}, {job{2, "20", "none", torch}, 1},
		{job{1, "20", local, late}, 1}, {job{2, "20", local, late}, 0}, {job{1, "20", "10mbit", late}, 0}, {job{1, "20", local, torch}, 0},
		{job{1, "20", "10mbit", profile}, 1}, {job{1, "20", local, profile}, 0},
		{job{1, "110", "none", "32"}, 1}, {job{1, "110", "10mbit", "32"}, 1}, {job{3, "110", "10mbit", "1"}, 1}, {job{1, "110", "none", "auto"}, 0},
	} {
		if times[c.j] != c.times {
			t.Errorf("%v is planned %d times, want %d", c.j, times[c.j], c.times)
		}
	}
	for j, n := range times {
		if n > 1 {
			t.Errorf("%v is planned %d times", j, n)
		}
	}
}
