package sweep

import (
	"strings"
	"testing"

	"gotrain/configs"
)

// parsed parses the text of a sweep file.
func parsed(text string) (*File, error) {
	root, err := configs.ParseYAML("s.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	return parse("s.yaml", root)
}

const head = "sweep:\n  base: quickstart\n  parameters:\n"

func TestMistakesAreNamedWithTheirPlaceAndRemedy(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"another key", "reader: {}\nsweep: {}\n", "s.yaml:1:1: reader: unknown key: a sweep file has the one key sweep, and what trials have in common belongs into the file that sweep.base names\n" +
			"s.yaml:2:8: sweep.base: missing: write the configuration that all trials extend, a file or one that ships (" + strings.Join(configs.Shipped(), ", ") + ")\n" +
			"s.yaml:2:8: sweep.parameters: missing: write the keys that trials differ in, such as learner.L2RegWeight: [0, 1e-4]"},
		{"no sweep", "a: 1\n", "s.yaml: sweep: missing: write sweep: with base and parameters below it\n" +
			"s.yaml:1:1: a: unknown key: a sweep file has the one key sweep, and what trials have in common belongs into the file that sweep.base names"},
		{"syntax", "sweep:\n\tbase: x\n", "s.yaml:2:1: a tab in the indentation: indent with spaces"},
		{"a misspelt key", head + "    seed: [1]\n  paralel: 2\n", "s.yaml:5:3: sweep.paralel: unknown key: did you mean parallel?"},
		{"a key twice", head + "    seed: [1]\n  base: x\n", "s.yaml:5:3: sweep.base: the key stands here twice, first at line 2: keep one"},
		{"a misspelt parameter", head + "    learner.minibatchsizes: [1]\n", "s.yaml:4:5: sweep.parameters.learner.minibatchsizes: unknown key: did you mean learner.minibatchSize?"},
		{"a parameter of another section", head + "    reader.depth: [8]\n", "s.yaml:4:5: sweep.parameters.reader.depth: unknown key: did you mean network.depth?"},
		{"a parameter twice", head + "    network.depth: [8]\n    network.Depth: [14]\n", "s.yaml:5:5: sweep.parameters.network.Depth: the key stands here twice, in another spelling: keep one"},
		{"a name", head + "    name: [a, b]\n", "s.yaml:4:5: sweep.parameters.name: a sweep names its runs by itself: leave it out"},
		{"no list", head + "    network.depth: 8\n", "s.yaml:4:20: sweep.parameters.network.depth: 8 is neither a list of values nor a range: write [8], or {uniform: [0, 1]}, logUniform or int"},
		{"an empty list", head + "    network.depth: []\n", "s.yaml:4:20: sweep.parameters.network.depth: the list is empty: write at least one value"},
		{"a value twice", head + "    network.depth: [8, 8]\n", "s.yaml:4:24: sweep.parameters.network.depth: 8 stands here twice: keep one"},
		{"an unknown range", head + "    network.depth: {unifrom: [1, 2]}\n", "s.yaml:4:21: sweep.parameters.network.depth.unifrom: unknown key: did you mean uniform?"},
		{"limits in the wrong order", head + "    seed: {uniform: [2, 1]}\n", "s.yaml:4:21: sweep.parameters.seed.uniform: 2 is not below 1: write the smaller limit first"},
		{"a logarithm of 0", head + "    seed: {logUniform: [0, 1]}\n", "s.yaml:4:25: sweep.parameters.seed.logUniform: 0 is not above 0: a logarithmic range has no zero"},
		{"a limit of text", head + "    seed: {uniform: [low, 1]}\n", "s.yaml:4:22: sweep.parameters.seed.uniform: low is not a number"},
		{"a fraction", head + "    seed: {int: [1, 2.5]}\n", "s.yaml:4:21: sweep.parameters.seed.int: 2.5 is not an integer from -9007199254740992 to 9007199254740992"},
		{"three limits", head + "    seed: {int: [1, 2, 3]}\n", "s.yaml:4:17: sweep.parameters.seed.int: a list is not a pair of limits such as [1e-5, 1e-3]"},
		{"points of a list", head + "    seed: {choice: [1, 2], points: 2}\n", "s.yaml:4:36: sweep.parameters.seed.points: a list has its own values: leave points out"},
		{"two ranges", head + "    seed: {int: [1, 2], uniform: [1, 2]}\n", "s.yaml:4:11: sweep.parameters.seed: write one of uniform, logUniform, int and choice"},
		{"trials of a grid", head + "    seed: [1]\n  trials: 3\n", "s.yaml:5:11: sweep.trials: a grid has as many trials as there are combinations: leave trials out, or write strategy: random or tpe"},
		{"random without trials", head + "    seed: [1]\n  strategy: random\n", "s.yaml:2:3: sweep.trials: missing: write how many trials to propose"},
		{"too many runs", head + "    seed: {int: [1, 5000], points: 5000}\n    learner.L2RegWeight: [0, 1, 2]\n", "s.yaml:2:3: sweep: there are more than 10000 runs: write fewer values, points or repeats, or strategy: random or tpe with trials"},
		{"repeats and seeds", head + "    seed: [1, 2]\n  repeats: 2\n", "s.yaml:4:5: sweep.parameters.seed: repeats change the seed: leave one of the two out"},
		{"quotes around a number", head + "    seed: [1]\n  parallel: \"2\"\n", "s.yaml:5:13: sweep.parallel: \"2\" is not an integer from 1 to 1024"},
		{"a metric", head + "    seed: [1]\n  metric: test.eror\n", "s.yaml:5:11: sweep.metric: test.eror is not one of test.error, test.loss, training.error, training.loss, training.samplesPerSecond: did you mean test.error?"},
		{"an alias", head + "    seed: &a [1]\n    network.depth: *a\n", "s.yaml:5:20: sweep.parameters.network.depth: a sweep takes no aliases: write out what *a stands for"},
		{"a bad name", "sweep:\n  name: a b\n  base: quickstart\n  parameters: {seed: [1]}\n", "s.yaml:2:9: sweep.name: \"a b\" cannot name a folder: write up to 100 letters, digits, - and _"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parsed(c.text)
			if err == nil {
				t.Fatal("no error")
			}
			if err.Error() != c.says {
				t.Errorf("says\n%s\nwant\n%s", err, c.says)
			}
		})
	}
}

func TestAFileMeansWhatItSays(t *testing.T) {
	f, err := parsed(`
sweep:
  name: rates
  base: quickstart
  strategy: random
  trials: 7
  seed: 3
  parameters:
    learner.learningratespermb: ["0.5", "1.0*80:0.1"]
    learner.L2RegWeight: {logUniform: [1e-5, 1e-3]}
    distributed.warmStart: [{samples: 10, mode: dense}, null]
    vars.x: [" a", "[b]"]
  repeats: 3
  parallel: auto
  retries: 1
  metric: training.samplesPerSecond
`)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != "rates" || f.Base != "quickstart" || f.Strategy != Random || f.Trials != 7 || f.Seed != 3 || f.Repeats != 3 || f.Parallel != 0 || f.Retries != 1 || !f.Maximize {
		t.Errorf("%+v", f)
	}
	var all []string
	for _, p := range f.Parameters {
		line := p.Key + p.Scale
		for _, v := range p.Values {
			line += " " + v.Text
		}
		all = append(all, line)
	}
	want := `learner.learningRatesPerMB 0.5 1.0*80:0.1
learner.L2RegWeightlogUniform
distributed.warmStart {samples: 10, mode: dense} null
vars.x " a" "[b]"`
	if got := strings.Join(all, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if p := f.Parameters[1]; p.Low != 1e-5 || p.High != 1e-3 {
		t.Errorf("the range is %v to %v", p.Low, p.High)
	}
}

// FuzzParse checks that no file makes the parser panic, and that what it accepts proposes values within its limits.
func FuzzParse(f *testing.F) {
	f.Add(head + "    seed: [1, 2]\n")
	f.Add(head + "    learner.L2RegWeight: {logUniform: [1e-5, 1e-3], points: 4}\n  strategy: random\n  trials: 4\n  repeats: 2\n  parallel: auto\n")
	f.Add(head + "    reader.transforms: [[{crop: {padding: 4}}], []]\n    vars.a: {choice: [1, \"[\"]}\n    seed: {int: [-3, 9]}\n  metric: test.loss\n  goal: maximize\n")
	f.Add("sweep: &a\n  base: *a\n  parameters: {x: *a}\n")
	f.Add("sweep: [1]\n---\nx")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parsed(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a message")
			}
			return
		}
		if s.Trials < 1 || s.Trials*s.Repeats > maxRuns {
			t.Errorf("%d trials, %d repeats", s.Trials, s.Repeats)
		}
		for _, i := range []int{0, s.Trials / 2, s.Trials - 1} {
			values := s.propose(i, nil)
			for k, p := range s.Parameters {
				v := values[k].Text
				if v == "" || strings.ContainsAny(v, "\n\r") {
					t.Errorf("%s=%q is no argument", p.Key, v)
				}
				if p.Scale != "" && !within(p, v) {
					t.Errorf("%s is not from %v to %v", v, p.Low, p.High)
				}
			}
		}
	})
}
