package configs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// write puts files into a new folder and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// environment is a fixed one for tests.
func environment(pairs map[string]string) Option {
	return WithEnv(func(name string) (string, bool) { v, ok := pairs[name]; return v, ok })
}

// load loads c.yaml with the given text in an empty folder.
func load(t *testing.T, text string, overrides ...string) (*Config, error) {
	t.Helper()
	dir := write(t, map[string]string{"c.yaml": text})
	return Load("c.yaml", overrides, WithDir(dir), WithHome("/home/u"), environment(nil))
}

func mustLoad(t *testing.T, text string, overrides ...string) *Config {
	t.Helper()
	c, err := load(t, text, overrides...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryShippedFileLoadsAndPrintsToTheSame(t *testing.T) {
	for _, name := range Shipped() {
		t.Run(name, func(t *testing.T) {
			c, err := Load(name, nil, WithHome("/home/u"), environment(nil))
			if err != nil {
				t.Fatal(err)
			}
			if c.Name != name {
				t.Errorf("name is %q", c.Name)
			}
			again(t, c)
			text, _ := ShippedFile(name)
			if !strings.HasPrefix(string(text), "# ") || !strings.Contains(string(text), "gotrain -config "+name) {
				t.Error("the file does not begin with a comment that shows how to run it")
			}
		})
	}
}

// again checks that the printed configuration loads to the same thing.
func again(t *testing.T, c *Config) {
	t.Helper()
	dir := write(t, map[string]string{"printed.yaml": string(c.YAML())})
	b, err := Load("printed.yaml", nil, WithDir(dir), WithHome("/elsewhere"), environment(nil))
	if err != nil {
		t.Fatalf("%v\n%s", err, c.YAML())
	}
	if string(b.YAML()) != string(c.YAML()) {
		t.Errorf("printed again:\n%s\nfirst:\n%s", b.YAML(), c.YAML())
	}
	if d := Diff(c, b); len(d) > 0 || c.Hash() != b.Hash() {
		t.Errorf("differs after printing: %v", d)
	}
	x, y := bare(c), bare(b)
	if !reflect.DeepEqual(x, y) {
		t.Errorf("\n%+v\n%+v", x, y)
	}
}

// bare is a copy without what says where things come from.
func bare(c *Config) Config {
	d := *c
	d.origins, d.files, d.Vars = nil, nil, nil
	d.Reader.Transforms = nil
	for _, t := range c.Reader.Transforms {
		t.Origin = ""
		d.Reader.Transforms = append(d.Reader.Transforms, t)
	}
	return d
}

func TestTheDocumentedExampleMeansWhatItSays(t *testing.T) {
	c, err := Load("resnet20_1bit", []string{"learner.minibatchSize=256", "distributed.bits=32"}, WithDir("/w"), WithHome("/home/u"), environment(nil))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, not %v", what, got, want)
		}
	}
	check("name", c.Name, "resnet20_1bit")
	check("path", c.Reader.Path, "/home/u/.cache/gotrain/cifar-10-batches-bin")
	check("outputDir", c.OutputDir, "/w/runs")
	check("minibatchSize", c.Learner.MinibatchSize, 256)
	check("bits", c.Distributed.Bits.At(3), 32)
	check("warmStart", c.Distributed.WarmStart, WarmStart{50000, "dense"})
	check("rates", c.Learner.LearningRatesPerMB, PerEpoch{{1, 80}, {0.1, 40}, {0.01, 1}})
	check("form", c.Network.Form, "cifar")
	check("transform 1", c.Reader.Transforms[1].Flip, "horizontal")
	check("mean", c.Reader.Transforms[2].Mean, []float64{125.3, 123, 113.9})
	for key, want := range map[string]string{
		"learner.minibatchsize":         "argument learner.minibatchSize=256",
		"distributed.bits":              "argument distributed.bits=32",
		"distributed.warmStart.samples": "shipped:resnet20_1bit.yaml:8:14",
		"network.depth":                 "shipped:resnet20_dense.yaml:21:10",
		"learner.beta1":                 "default",
		"learner.momentumPerSample":     "",
	} {
		check("origin of "+key, c.Origin(key), want)
	}
	var files []string
	for _, f := range c.Files() {
		files = append(files, f.Path)
	}
	check("files", files, []string{"shipped:resnet20_dense.yaml", "shipped:resnet20_1bit.yaml"})
}
