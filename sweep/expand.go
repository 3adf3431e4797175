package sweep

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gotrain/configs"
	"gotrain/pipeline"
)

// Trial is a configuration that a sweep tries.
type Trial struct {
	Number int             // from 1
	Values []Value         // one a parameter; nil: it will be proposed when others have ended
	Config *configs.Config // nil where it does not load
	Fault  error           // why it cannot be trained; nil: it can
}

// Plan is a sweep with all its trials.
type Plan struct {
	*File
	Trials []Trial
	ID     string // hexadecimal; equal for a file that only tries more trials or repeats, or compares by another metric

	overrides []string
	checked   map[string]error // what check has found, by what it depends on
}

// open says that the trial is not proposed yet.
func (t Trial) open() bool { return t.Values == nil }

// Expand proposes all trials and checks each, its data too. Overrides, key=value, go over the base, and parameters over them.
// The error says what is wrong with the sweep as a whole; a trial that cannot be trained has a fault.
func Expand(ctx context.Context, f *File, overrides []string) (*Plan, error) {
	for _, o := range overrides {
		key, _, _ := strings.Cut(o, "=")
		if why := own[strings.ToLower(key)]; why != "" && !strings.EqualFold(key, "outputDir") && !strings.EqualFold(key, "command") {
			return nil, &pipeline.UsageError{Err: fmt.Errorf("%s: %s", o, why)}
		}
		for _, p := range f.Parameters {
			if strings.EqualFold(key, p.Key) {
				return nil, &pipeline.UsageError{Err: fmt.Errorf("%s: trials differ in %s (%s): change it there", o, p.Key, p.Pos)}
			}
		}
	}
	p := &Plan{File: f, overrides: overrides, checked: map[string]error{}}
	for i := range f.Trials {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t := Trial{Number: i + 1}
		if !f.waits(i) {
			t = p.trial(ctx, i+1, f.propose(i, nil))
		}
		if t.Config != nil && f.lacksTest(t.Config) {
			return nil, configs.Errors{{Pos: f.basePos, Key: "sweep.metric", Message: f.Metric + " is of a test, and the base's command has none: write metric: training.error, or command: [train, test] into the base"}}
		}
		p.Trials = append(p.Trials, t)
	}
	if !slices.ContainsFunc(p.Trials, func(t Trial) bool { return t.Fault == nil }) {
		return nil, fmt.Errorf("no trial of %s can be trained; the first: %w", f.Name, p.Trials[0].Fault)
	}
	p.ID = p.identity()
	return p, nil
}

// trial loads and checks a trial of some values.
func (p *Plan) trial(ctx context.Context, number int, values []Value) Trial {
	t := Trial{Number: number, Values: values}
	if t.Config, t.Fault = p.load(p.base(), p.overrides, values); t.Fault == nil {
		t.Fault = check(ctx, t.Config, p.checked)
	}
	return t
}

// lacksTest says that a trial would not have the metric.
func (f *File) lacksTest(c *configs.Config) bool {
	return metricNamed(f.Metric).test && !slices.Contains(c.Command, "test")
}

// base is the path of the base beside the sweep file, or the name of one that ships.
func (f *File) base() string {
	if filepath.IsAbs(f.Base) || strings.HasPrefix(f.Base, "~") {
		return f.Base
	}
	path := filepath.Join(f.Dir, f.Base)
	for _, ext := range []string{"", ".yaml"} {
		if info, err := os.Stat(path + ext); err == nil && !info.IsDir() {
			return path + ext
		}
	}
	if _, ships := configs.ShippedFile(f.Base); ships {
		return f.Base
	}
	return path
}

// load loads the configuration of a trial. What is wrong with a parameter's value is named with its place in the sweep file.
func (f *File) load(base string, overrides []string, values []Value) (*configs.Config, error) {
	all := slices.Clone(overrides)
	for i, v := range values {
		all = append(all, f.Parameters[i].Key+"="+v.Text)
	}
	c, err := configs.Load(base, all)
	var list configs.Errors
	if !errors.As(err, &list) {
		return c, err
	}
	for _, e := range list {
		for i, v := range values {
			if key := f.Parameters[i].Key; strings.HasPrefix(e.Pos, "argument "+key+"=") {
				e.Pos = v.Pos
				if e.Key == "" {
					e.Key = key
				}
			}
		}
	}
	return c, list
}

// check opens the data of a trial and compiles its plan, as far as no trial before had the same.
func check(ctx context.Context, c *configs.Config, checked map[string]error) error {
	d := c.Distributed
	key := fmt.Sprintf("%+v %+v %s %s %d %d %d %v %v", c.Reader, c.Network, c.Precision, c.Device, c.Learner.MinibatchSize, c.Learner.EpochSize,
		d.Workers, d.Transport, d.BlockMomentum)
	err, known := checked[key]
	if !known {
		err = pipeline.Check(ctx, c, io.Discard)
		checked[key] = err
	}
	return err
}

// identity tells sweeps apart whose trials are others.
func (p *Plan) identity() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d\n", p.Strategy, p.Seed)
	if p.Strategy == TPE || p.Halving != nil { // trials depend on what others have come to
		fmt.Fprintf(h, "%s %v %+v\n", p.Metric, p.Maximize, p.Halving)
	}
	for _, x := range p.Parameters {
		fmt.Fprintf(h, "%s %s %v %v %d", x.Key, x.Scale, x.Low, x.High, x.Points)
		for _, v := range x.Values {
			fmt.Fprintf(h, " %q", v.Text)
		}
		fmt.Fprintln(h)
	}
	for _, t := range p.Trials { // the first that loads stands for the base
		if t.Config != nil {
			fmt.Fprintln(h, t.Config.Hash())
			break
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:8]
}
