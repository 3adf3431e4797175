package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gotrain/archive"
	"gotrain/pipeline"
)

// metric is what trials can be compared by.
type metric struct {
	name     string
	maximize bool   // more is better, where the file does not say
	unit     string // behind its values
	test     bool   // it is there only where the command tests
	of       func(h archive.History) float64
}

// metrics: a run that has none of it gives a NaN.
var metrics = []metric{
	{"test.error", false, "%", true, func(h archive.History) float64 { return errorOf(lastTest(h)) }},
	{"test.loss", false, "", true, func(h archive.History) float64 { return lossOf(lastTest(h)) }},
	{"training.error", false, "%", false, func(h archive.History) float64 { return errorOf(lastEpoch(h)) }},
	{"training.loss", false, "", false, func(h archive.History) float64 { return lossOf(lastEpoch(h)) }},
	{"training.samplesPerSecond", true, "", false, samplesPerSecond},
}

// Metrics are the names of what trials can be compared by. Errors are in percent. Those of a test are of the last one, those of
// training of the last epoch.
func Metrics() (names []string) {
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return names
}

func metricNamed(name string) metric {
	return metrics[slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })]
}

func maximized(name string) bool { return metricNamed(name).maximize }

func errorOf(s pipeline.Sums) float64 { return 100 * float64(s.Errors) / float64(s.Count) }
func lossOf(s pipeline.Sums) float64  { return float64(s.Loss) / float64(s.Count) }

func lastTest(h archive.History) (s pipeline.Sums) {
	if n := len(h.Tests); n > 0 {
		s = h.Tests[n-1].Sums
	}
	return s
}

func lastEpoch(h archive.History) (s pipeline.Sums) {
	if n := len(h.Epochs); n > 0 {
		s = h.Epochs[n-1].Sums
	}
	return s
}

func samplesPerSecond(h archive.History) float64 {
	var samples, seconds float64
	for _, e := range h.Epochs {
		samples, seconds = samples+float64(e.Count), seconds+float64(e.Seconds)
	}
	return samples / seconds
}

// show writes a value of the metric for a person.
func (m metric) show(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	if m.unit != "" {
		return fmt.Sprintf("%.2f%s", v, m.unit)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

// curveOf is the metric at an epoch of training; that of a test has its counterpart in training, for tests are made in the end.
func curveOf(name string, e pipeline.EpochEvent) float64 {
	switch name {
	case "test.loss", "training.loss":
		return lossOf(e.Sums)
	case "training.samplesPerSecond":
		return float64(e.Count) / float64(e.Seconds)
	}
	return errorOf(e.Sums)
}

// curveName is the name of what curveOf gives.
func curveName(name string) string { return strings.Replace(name, "test.", "training.", 1) }
