package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"gotrain/tools/internal/bench"
)

// record is all that was measured.
type record struct {
	Processor string           `json:"processor"`
	Cores     int              `json:"cores"`
	Load      string           `json:"load"` // of the machine, before
	Results   []result         `json:"results"`
	Quantizer []quantizerSpeed `json:"quantizer,omitempty"`
}

// result of a job. Times are in seconds, of one minibatch.
type result struct {
	job
	Speed     float64            `json:"samplesPerSecond,omitempty"`
	Compute   float64            `json:"compute,omitempty"`
	Quantize  float64            `json:"quantize,omitempty"` // on the worker's own thread
	Exposed   float64            `json:"exposed,omitempty"`
	Sent      string             `json:"sent,omitempty"`      // by a worker, in a minibatch
	Chosen    string             `json:"chosen,omitempty"`    // what gotrain has said to it
	Predicted map[string]float64 `json:"predicted,omitempty"` // by bits
	Profile   string             `json:"profile,omitempty"`   // what gotrain profile has said
}

func (r result) String() string {
	if r.Setting == profile {
		return fmt.Sprintf("%.1f ms predicted at 32 bits, %.1f at 1", 1e3*r.Predicted["32"], 1e3*r.Predicted["1"])
	}
	words := fmt.Sprintf("%.0f samples/s", r.Speed)
	if r.Chosen != "" {
		words += "; " + r.Chosen
	}
	return words
}

func newRecord(load string) record {
	r := record{Processor: runtime.GOARCH, Cores: runtime.NumCPU(), Load: load}
	info, _ := os.ReadFile("/proc/cpuinfo")
	if m := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(info); m != nil {
		r.Processor = string(m[1])
	}
	return r
}

func (r *record) read(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func (r *record) write(file string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o666)
}

var (
	timeLine = regexp.MustCompile(`(?m)^time: compute ([0-9.]+)s, quantize ([0-9.]+)s .*exchange exposed ([0-9.]+)s, .*; (.*) sent a minibatch$`)
	chosen   = regexp.MustCompile(`(?m)^Chosen: (.*)$`)
)

// parse reads what a program has written.
func parse(j job, stdout, stderr string) (result, error) {
	r := result{job: j}
	switch {
	case isTorch(j.Setting):
		var speeds []float64
		for _, word := range strings.Fields(stdout) {
			speed, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return r, fmt.Errorf("PyTorch said %q", stdout)
			}
			speeds = append(speeds, speed)
		}
		if len(speeds) == 0 {
			return r, errNothing
		}
		r.Speed = bench.Median(speeds)
		return r, nil
	case j.Setting == profile:
		r.Profile, r.Predicted = stdout, predictions(stdout)
		if r.Predicted["32"] == 0 || r.Predicted["1"] == 0 {
			return r, fmt.Errorf("%w: %s%s", errNothing, stdout, stderr)
		}
		return r, nil
	}
	speeds, err := bench.EpochRates(stdout, 2)
	if err != nil {
		return r, fmt.Errorf("%w%s", err, stderr)
	}
	r.Speed = speeds[1]
	lines := timeLine.FindAllStringSubmatch(stderr, -1)
	if len(lines) != 2 {
		return r, fmt.Errorf("gotrain said %d times and not 2 where its time went:\n%s", len(lines), stderr)
	}
	line := lines[1]
	// The line is of the whole epoch, whose time is that of its steps.
	var spent [3]float64
	sum := 0.0
	for i := range spent {
		spent[i], _ = strconv.ParseFloat(line[i+1], 64)
		sum += spent[i]
	}
	if step := batch / r.Speed; sum > 0 {
		r.Compute, r.Quantize, r.Exposed = spent[0]/sum*step, spent[1]/sum*step, spent[2]/sum*step
	}
	r.Sent = line[4]
	if m := chosen.FindStringSubmatch(stderr); m != nil {
		r.Chosen = m[1]
	}
	return r, nil
}

// predictions reads the column of that name in the table of gotrain profile.
func predictions(table string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(table) {
		words := strings.Fields(line) // bits, and seven columns of a number and a unit up to predicted
		if len(words) < 17 || bits(words[0]) == 0 {
			continue
		}
		n, err := strconv.ParseFloat(words[13], 64)
		unit, ok := map[string]float64{"s": 1, "ms": 1e-3, "µs": 1e-6}[words[14]]
		if err == nil && ok {
			all[words[0]] = n * unit
		}
	}
	return all
}

// of are the results of one kind, by round.
func (r *record) of(depth, rate, setting string) []result {
	var all []result
	for _, x := range r.Results {
		if x.Depth == depth && x.Rate == rate && x.Setting == setting {
			all = append(all, x)
		}
	}
	return all
}

// median of a figure of results of one kind; 0 where there are none.
func (r *record) median(depth, rate, setting string, figure func(result) float64) float64 {
	var values []float64
	for _, x := range r.of(depth, rate, setting) {
		values = append(values, figure(x))
	}
	if len(values) == 0 {
		return 0
	}
	return bench.Median(values)
}

func speed(x result) float64 { return x.Speed }

func (r *record) speed(depth, rate, setting string) float64 {
	return r.median(depth, rate, setting, speed)
}

// in is a figure of one round, 0 where it was not measured.
func (r *record) in(round int, depth, rate, setting string, figure func(result) float64) float64 {
	for _, x := range r.of(depth, rate, setting) {
		if x.Round == round {
			return figure(x)
		}
	}
	return 0
}

// ratio is the median over the rounds that have both figures; 0 where none has.
func (r *record) ratio(a, b func(round int) float64) float64 {
	var values []float64
	for round := 1; round <= r.rounds(); round++ {
		if x, y := a(round), b(round); x > 0 && y > 0 {
			values = append(values, x/y)
		}
	}
	if len(values) == 0 {
		return 0
	}
	return bench.Median(values)
}

func (r *record) rounds() int {
	n := 0
	for _, x := range r.Results {
		n = max(n, x.Round)
	}
	return n
}

// have are those of a list of values that some result has, in the list's order, and the others behind them.
func (r *record) have(value func(result) string, order ...string) []string {
	var seen []string
	for _, x := range r.Results {
		if v := value(x); !slices.Contains(seen, v) {
			seen = append(seen, v)
		}
	}
	var all []string
	for _, v := range append(order, seen...) {
		if slices.Contains(seen, v) && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

func (r *record) rates() []string {
	return r.have(func(x result) string { return x.Rate }, "none", "1gbit", "100mbit", "10mbit", local)
}

func (r *record) depths() []string {
	return r.have(func(x result) string { return x.Depth }, "20", "110")
}

func (r *record) settings() []string {
	all := r.have(func(x result) string { return x.Setting }, "32", "16", "8", "4", "2", "1", "auto", blocking, columns, tensors, late, cntk, torch, torchFP16)
	return slices.DeleteFunc(all, func(s string) bool { return s == profile })
}
