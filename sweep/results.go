package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gotrain/archive"
	"gotrain/configs"
	"gotrain/pipeline"
)

// Results are what a sweep has come to. Its trials stand in their order, the best first, and those without a result last.
type Results struct {
	Name     string   `json:"name"`
	Folder   string   `json:"folder"`
	Strategy string   `json:"strategy"`
	Metric   string   `json:"metric"`
	Goal     string   `json:"goal"` // minimize or maximize
	Keys     []string `json:"parameters"`
	Trials   []Result `json:"trials"`

	metric metric
	best   *configs.Config // of the first trial; nil where there is no result
}

// Result is what a trial has come to.
type Result struct {
	Trial   int       `json:"trial"`
	Values  []string  `json:"values"` // one a parameter
	Status  string    `json:"status"` // finished; or that of its first run that has no result
	Error   string    `json:"error,omitempty"`
	Mean    *float64  `json:"mean"`   // of the metric over the runs that have it; null: none has
	Spread  *float64  `json:"spread"` // standard deviation of one run; null: there are fewer than two
	Results []float64 `json:"results"`
	Seconds float64   `json:"seconds"` // of training, all runs together
	Runs    []string  `json:"runs"`    // folders

	curves [][]float64 // of the metric by epoch, or of training's counterpart, one a run
}

// results reads what the runs have come to.
func (r *runner) results() (*Results, error) {
	all := &Results{Name: r.Name, Folder: r.folder.dir, Strategy: r.Strategy, Metric: r.Metric, Goal: "minimize", metric: metricNamed(r.Metric)}
	if r.Maximize {
		all.Goal = "maximize"
	}
	for _, p := range r.Parameters {
		all.Keys = append(all.Keys, p.Key)
	}
	for _, t := range r.Trials {
		one := Result{Trial: t.Number, Status: pipeline.Finished, Results: []float64{}, Runs: []string{}}
		for _, v := range t.Values { // all are proposed when a sweep has ended
			one.Values = append(one.Values, v.Text)
		}
		if t.Fault != nil {
			one.Status, one.Error = Invalid, t.Fault.Error()
		} else if err := r.read(&one); err != nil {
			return nil, err
		}
		all.Trials = append(all.Trials, one)
	}
	slices.SortStableFunc(all.Trials, func(a, b Result) int { return r.compare(a, b) })
	if first := all.Trials[0]; first.Mean != nil {
		var err error
		if all.best, err = r.bestConfig(first.Trial); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// read adds up the runs of a trial.
func (r *runner) read(one *Result) error {
	for n := range r.Repeats {
		s := r.states[job{one.Trial, n + 1}]
		if one.Status == pipeline.Finished && s.status != pipeline.Finished && !r.skipped(job{one.Trial, n + 1}) {
			one.Status, one.Error = s.status, s.error
		}
		if s.run == "" {
			continue
		}
		one.Runs = append(one.Runs, s.run)
		h, err := archive.ReadHistory(filepath.Join(r.folder.dir, runsFolder, s.run))
		if err != nil {
			return err
		}
		var curve []float64
		for _, e := range h.Epochs {
			one.Seconds += float64(e.Seconds)
			curve = append(curve, curveOf(r.Metric, e))
		}
		one.curves = append(one.curves, curve)
		if v := metricNamed(r.Metric).of(h); s.status == pipeline.Finished && !math.IsNaN(v) && !math.IsInf(v, 0) {
			one.Results = append(one.Results, v)
		}
	}
	one.Mean, one.Spread = moments(one.Results)
	return nil
}

// moments are mean and standard deviation; nil where there are too few values.
func moments(values []float64) (mean, spread *float64) {
	n := float64(len(values))
	if n == 0 {
		return nil, nil
	}
	m, s := 0.0, 0.0
	for _, v := range values {
		m += v / n
	}
	if n < 2 {
		return &m, nil
	}
	for _, v := range values {
		s += (v - m) * (v - m)
	}
	s = math.Sqrt(s / (n - 1))
	return &m, &s
}

// compare puts the better trial first; one with fewer results is worse than any with more, for its mean may be luck.
func (r *runner) compare(a, b Result) int {
	if c := len(b.Results) - len(a.Results); c != 0 || a.Mean == nil {
		return cmp.Or(c, a.Trial-b.Trial)
	}
	c := cmp.Compare(*a.Mean, *b.Mean)
	if r.Maximize {
		c = -c
	}
	return cmp.Or(c, a.Trial-b.Trial)
}

// bestConfig is the configuration of a trial as a user would run it: with the base's outputDir, and a name of its own. It has the threads
// that the trial had, so that its first run comes to the same to the bit.
func (r *runner) bestConfig(trial int) (*configs.Config, error) {
	return configs.Load(r.folder.trialFile(trial), []string{"name=" + r.Name + "-best", "outputDir=" + r.Trials[trial-1].Config.OutputDir})
}

// write writes the results into the sweep's folder.
func (s *Results) write() error {
	var table, list strings.Builder
	if err := s.CSV(&table); err != nil {
		return err
	}
	if err := s.JSON(&list); err != nil {
		return err
	}
	files := map[string]string{"results.csv": table.String(), "results.json": list.String()}
	for name, draw := range plots {
		files[name] = draw(s)
	}
	if s.best != nil {
		first := s.Trials[0]
		files[bestFile] = fmt.Sprintf("# The best of the sweep %s by %s: trial %d, %s.\n# With its threads it comes to the same to the bit; threads: auto takes all cores.\n%s", s.Name, s.Metric, first.Trial, s.value(first), s.best.YAML())
	}
	for name, text := range files {
		path := filepath.Join(s.Folder, name)
		if text == "" {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		} else if err := writeFile(path, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

const bestFile = "best.yaml"

// Best is the file with the best configuration, "" where no trial has a result.
func (s *Results) Best() string {
	if s.best == nil {
		return ""
	}
	return filepath.Join(s.Folder, bestFile)
}
