package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func loadIn(dir, name string, overrides ...string) (*Config, error) {
	return Load(name, overrides, WithDir(dir), WithHome("/home/u"), environment(nil))
}

func TestAFileIsFoundByPathAndThenAmongThoseThatShip(t *testing.T) {
	dir := write(t, map[string]string{
		"quickstart.yaml":  "extends: resnet20_dense\n",
		"sub/own.yaml":     "extends: ../quickstart\n",
		"resnet20_1bit/x":  "",
		"sub/shipped.yaml": "extends: resnet20_fashion.yaml\n",
	})
	for name, want := range map[string]string{
		"quickstart":                       "quickstart.yaml:1:10",
		"quickstart.yaml":                  "quickstart.yaml:1:10",
		"sub/own.yaml":                     "sub/own.yaml:1:10",
		filepath.Join(dir, "sub/own.yaml"): filepath.Join(dir, "sub/own.yaml") + ":1:10",
	} {
		_, err := loadIn(dir, name, "learner.maxEpochs=x")
		sameError(t, err, []string{"argument learner.maxEpochs=x: x is not an integer of at least 1"})
		c, err := loadIn(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		if c.Network.Depth != 20 || c.Distributed.Workers != 4 {
			t.Errorf("%s: not the local file over the shipped one: %s", name, want)
		}
	}
	if c, err := loadIn(dir, "resnet20_1bit"); err != nil || c.Distributed.Bits.At(0) != 1 {
		t.Errorf("a folder hides the shipped file: %v", err)
	}
	if c, err := loadIn(dir, "sub/shipped"); err != nil || c.Reader.Path != "/usr/share/datasets/fashion-mnist" || c.Name != "shipped" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	names := "quickstart, resnet110_1bit, resnet110_dense, resnet18_imagenet, resnet20_10epochs, resnet20_1bit, resnet20_dense and resnet20_fashion"
	dir := write(t, map[string]string{
		"folder/x":   "",
		"bad.yaml":   "a: [\n",
		"over.yaml":  "extends: bad.yaml\n",
		"map.yaml":   "extends: {a: 1}\n",
		"short.yaml": "extends: resnet20_dens\n",
	})
	for name, want := range map[string]string{
		"nosuch.yaml":       "nosuch.yaml: there is no such file: the configurations that ship are " + names,
		"resnet20_dens":     "resnet20_dens: there is no such file: did you mean resnet20_dense, which ships?",
		"folder":            "folder: this is a folder: name a YAML file in it",
		"bad.yaml/x":        "bad.yaml/x: open: not a directory",
		"":                  `"" names no configuration: the configurations that ship are ` + names,
		"over.yaml":         "bad.yaml:2: not YAML: did not find expected node content",
		"short.yaml":        "short.yaml:1:10: extends: resnet20_dens: there is no such file: did you mean resnet20_dense, which ships?",
		"map.yaml":          "map.yaml:1:10: extends: write the name of a configuration or a list of names",
		"shipped:nosuch":    "shipped:nosuch: there is no such file: the configurations that ship are " + names,
		"./quickstart.yaml": "./quickstart.yaml: there is no such file: did you mean quickstart, which ships?",
	} {
		_, err := loadIn(dir, name)
		sameError(t, err, []string{want})
	}
	text := "extends: [nope/x, 3, [a], $v$, '${E}']\n" + good
	_, err := load(t, text)
	sameError(t, err, []string{
		"c.yaml:1:11: extends: nope/x: there is no such file: the configurations that ship are " + names,
		"c.yaml:1:19: extends: 3 is not the name of a configuration",
		"c.yaml:1:22: extends: write the name of a configuration or a list of names",
		"c.yaml:1:27: extends: $v$ is not known yet where files are put together: write ${NAME} for the environment's",
		"c.yaml:1:32: extends: ${E} is not set in the environment: export E, or write ${E:-default}",
	})
}

func TestACircleOfFilesIsRefusedWithItsChain(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml":     "extends: sub/b\n",
		"sub/b.yaml": "\nextends: [../c.yaml]\n",
		"c.yaml":     "extends: a\n" + good,
		"self.yaml":  "extends: self.yaml\n" + good,
	})
	_, err := loadIn(dir, "a.yaml")
	sameError(t, err, []string{"c.yaml:1:10: extends: the files extend one another in a circle: a.yaml extends sub/b.yaml extends c.yaml extends a.yaml"})
	_, err = loadIn(dir, "self.yaml")
	sameError(t, err, []string{"self.yaml:1:10: extends: the files extend one another in a circle: self.yaml extends self.yaml"})
}

func TestAFileExtendedAgainAndAgainEndsSoon(t *testing.T) {
	files := map[string]string{"f40.yaml": good}
	for i := range 40 {
		files[fmt.Sprintf("f%d.yaml", i)] = fmt.Sprintf("extends: [f%d, f%[1]d]\n", i+1)
	}
	start := time.Now()
	if _, err := loadIn(write(t, files), "f0"); err == nil || !strings.Contains(err.Error(), "more than 64 files extend one another") {
		t.Errorf("%.200v", err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestPathsAreRelativeToTheFileThatHoldsThem(t *testing.T) {
	dir := write(t, map[string]string{
		"base/b.yaml": "vars: {data: ../data, abs: /x}\nlog: {json: log.json, tensorBoardDir: ~/tb}\nreader: {type: cifar10, path: $data$/c}\n",
		"c.yaml":      "extends: base/b\nnetwork: {depth: 8, init: $abs$/m}\nlearner: {maxEpochs: 1, learningRatesPerMB: 1}\n",
	})
	c, err := Load("c.yaml", nil, WithDir(dir), WithHome("/home/u"), environment(nil))
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		c.Log.JSON:           dir + "/base/log.json",
		c.Log.TensorBoardDir: "/home/u/tb",
		c.Reader.Path:        dir + "/data/c",
		c.Network.Init:       "/x/m",
		c.OutputDir:          dir + "/runs",
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	c, err = Load("c.yaml", []string{"vars.data=d", "log.json=j", "network.init=he", "outputDir=${OUT}/r"}, WithDir(dir), environment(map[string]string{"OUT": "out"}))
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		c.Log.JSON:     dir + "/j",
		c.Reader.Path:  dir + "/d/c",
		c.Network.Init: "",
		c.OutputDir:    dir + "/out/r",
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestTheConfigurationKeepsTheFilesThatItCameFrom(t *testing.T) {
	dir := write(t, map[string]string{"b.yaml": good, "c.yaml": "extends: [b, b]\n"})
	c, err := loadIn(dir, "c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f := c.Files()
	real, _ := filepath.EvalSymlinks(dir)
	if len(f) != 2 || f[0].Path != real+"/b.yaml" || string(f[0].Content) != good || f[1].Path != real+"/c.yaml" {
		t.Errorf("%v", f)
	}
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
}
