package sweep

import (
	"path/filepath"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"gotrain/configs"
)

// File is what a sweep file says.
type File struct {
	Name       string // of the sweep; default: the file's base name
	Dir        string // that the file lies in: relative paths of parameters are relative to it
	Base       string // the configuration that all trials extend: a path, or the name of one that ships
	Strategy   string // Grid, Random or TPE
	Parameters []Parameter
	Halving    *Halving // nil: no trial is stopped early
	Trials     int      // random, tpe: configurations to propose; grid: as many as there are
	Seed       int64    // of the proposals
	Repeats    int      // runs of each trial, with the seeds from the configuration's own on
	Parallel   int      // trials that run at a time; 0: as many as there are cores or GPUs for
	Retries    int      // how often a run that failed or crashed is started again
	Metric     string
	Maximize   bool

	Source []byte // its text

	basePos string
}

// Strategies.
const (
	Grid   = "grid"
	Random = "random"
	TPE    = "tpe"
)

// maxRuns is more runs than a sweep has.
const maxRuns = 10_000

// keys of a sweep, in the order of the documents.
var keys = []string{"name", "base", "strategy", "trials", "seed", "parameters", "halving", "repeats", "parallel", "retries", "metric", "goal"}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// Read reads a sweep file. The error is a configs.Errors that lists everything that is wrong.
func Read(path string) (*File, error) {
	root, text, err := configs.ReadYAML(path)
	if err != nil {
		return nil, err
	}
	f, err := parse(path, root)
	if err == nil {
		f.Source = text
	}
	return f, err
}

func parse(path string, root *yaml.Node) (*File, error) {
	f := &File{
		Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), Dir: filepath.Dir(path),
		Strategy: Grid, Seed: 1, Repeats: 1, Parallel: 1, Metric: "test.error",
	}
	d := &decoder{file: path}
	var section *yaml.Node
	d.mapping(root, "", func(name, value *yaml.Node) {
		if name.Value != "sweep" {
			d.fail(name, name.Value, "unknown key: a sweep file has the one key sweep, and what trials have in common belongs into the file that sweep.base names")
			return
		}
		section = value
	})
	if section == nil {
		d.fail(nil, "sweep", "missing: write sweep: with base and parameters below it")
		return nil, d.errs.Sorted()
	}
	var trials, goal *yaml.Node
	seen := map[string]bool{}
	d.mapping(section, "sweep", func(name, value *yaml.Node) {
		key := "sweep." + name.Value
		seen[name.Value] = true
		switch name.Value {
		case "name":
			if f.Name = d.text(value, key); f.Name != "" && !nameForm.MatchString(f.Name) {
				d.fail(value, key, "%q cannot name a folder: write up to 100 letters, digits, - and _", f.Name)
			}
		case "base":
			f.Base, f.basePos = d.text(value, key), d.pos(value)
		case "strategy":
			f.Strategy = d.word(value, key, Grid, Random, TPE)
		case "trials":
			f.Trials, trials = d.integer(value, key, 1, maxRuns), value
		case "seed":
			f.Seed = int64(d.integer(value, key, 0, 1<<53))
		case "parameters":
			f.Parameters = d.parameters(value)
		case "halving":
			f.Halving = d.halving(value)
		case "repeats":
			f.Repeats = d.integer(value, key, 1, maxRuns)
		case "parallel":
			if value.Kind == yaml.ScalarNode && value.Value == "auto" {
				f.Parallel = 0
			} else {
				f.Parallel = d.integer(value, key, 1, 1024)
			}
		case "retries":
			f.Retries = d.integer(value, key, 0, 100)
		case "metric":
			f.Metric = d.word(value, key, Metrics()...)
		case "goal":
			f.Maximize, goal = d.word(value, key, "minimize", "maximize") == "maximize", value
		default:
			d.unknown(name, "sweep", keys)
		}
	})
	if !nameForm.MatchString(f.Name) && !seen["name"] {
		d.fail(section, "sweep.name", "missing, and %q, the file's name, cannot name a folder: write a name of up to 100 letters, digits, - and _", f.Name)
	}
	if !seen["base"] {
		d.fail(section, "sweep.base", "missing: write the configuration that all trials extend, a file or one that ships (%s)", strings.Join(configs.Shipped(), ", "))
	}
	if !seen["parameters"] {
		d.fail(section, "sweep.parameters", "missing: write the keys that trials differ in, such as learner.L2RegWeight: [0, 1e-4]")
	}
	if goal == nil {
		f.Maximize = maximized(f.Metric)
	}
	d.count(f, section, trials)
	if err := d.errs.Sorted(); err != nil {
		return nil, err
	}
	return f, nil
}

// count settles how many trials there are.
func (d *decoder) count(f *File, section, trials *yaml.Node) {
	at := trials
	switch {
	case len(d.errs) > 0:
		return
	case f.Strategy == Grid && trials != nil:
		d.fail(trials, "sweep.trials", "a grid has as many trials as there are combinations: leave trials out, or write strategy: random or tpe")
		return
	case f.Strategy == Grid:
		f.Trials, at = 1, section
		for _, p := range f.Parameters {
			if f.Trials *= len(p.grid()); f.Trials > maxRuns {
				break
			}
		}
	case trials == nil:
		d.fail(section, "sweep.trials", "missing: write how many trials to propose")
		return
	}
	if f.Trials > maxRuns || f.Trials*f.Repeats > maxRuns {
		d.fail(at, "sweep", "there are more than %d runs: write fewer values, points or repeats, or strategy: random or tpe with trials", maxRuns)
	}
	if f.Repeats > 1 {
		for _, p := range f.Parameters {
			if p.Key == "seed" {
				d.errs = append(d.errs, &configs.Error{Pos: p.Pos, Key: "sweep.parameters.seed", Message: "repeats change the seed: leave one of the two out"})
			}
		}
	}
}
