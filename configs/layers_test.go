package configs

import (
	"reflect"
	"testing"
)

func TestLaterLayersWin(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml": `name: a
command: [train, test]
network: {depth: 8, batchNorm: {epsilon: 0.5, normalizationTimeConstant: 4096}}
learner: {learningRatesPerMB: 1.0*80:0.1, momentumPerMB: 0.5, maxEpochs: 1, L2RegWeight: 0.1}
reader: {type: embedded, transforms: [{flip: horizontal}]}
distributed: {warmStart: {samples: 5, mode: single}}
`,
		"b.yaml": "learner: {momentumAsTimeConstant: 1000}\nseed: 5\n",
		"c.yaml": "extends: [a, b]\nNETWORK: {BatchNorm: {EPSILON: 0.25, runningUpdate: 0.5}}\nlearner: {learningRateSchedule: [{constant: {rate: 1, epochs: 2}}], L2RegWeight: null}\ncommand: [test]\n",
	})
	get := func(args ...string) *Config {
		t.Helper()
		c, err := loadIn(dir, "c.yaml", args...)
		if err != nil {
			t.Fatal(err)
		}
		again(t, c)
		return c
	}
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, not %v", what, got, want)
		}
	}
	c := get("distributed.warmStart=7")
	check("a name is the file's own", c.Name, "c")
	check("a list is replaced", c.Command, []string{"test"})
	check("a mapping is merged", c.Network.BatchNorm, BatchNorm{Epsilon: 0.25, RunningUpdate: 0.5})
	check("a choice puts out the other", c.Learner.LearningRatesPerMB.Set(), false)
	check("the choice", c.Learner.LearningRateSchedule, []Piece{{Kind: "constant", From: 1, To: 1, Epochs: 2}})
	check("of two extended files the later wins", c.Learner.MomentumAsTimeConstant, PerEpoch{{1000, 1}})
	check("and puts out the other's", c.Learner.MomentumPerMB.Set(), false)
	check("null resets", c.Learner.L2RegWeight, 0.0)
	check("and gives the default its origin", c.Origin("learner.L2RegWeight"), "default")
	check("a scalar for a section", c.Distributed.WarmStart, WarmStart{7, "single"})

	c = get("learner.learningRatesPerSample=0.01", "learner.momentumAsTimeConstant=null", "reader.transforms=null", "seed=0x10", "threads=0o12")
	check("an argument puts out a file's choice", c.Learner.LearningRateSchedule == nil && c.Learner.LearningRatesPerSample.At(9) == 0.01, true)
	check("null brings the group's default back", c.Learner.MomentumPerMB, PerEpoch{{0.9, 1}})
	check("null for a list", c.Reader.Transforms == nil, true)
	check("hexadecimal", c.Seed, int64(16))
	check("octal", c.Threads, 10)

	c = get("learner.learningRatesPerSample=0.01", "learner.learningRatesPerSample=0.02", "network.batchNorm=null")
	check("the last of equal arguments wins", c.Learner.LearningRatesPerSample.At(0), 0.02)
	check("null for a section", c.Network.BatchNorm, BatchNorm{Epsilon: 1e-5, RunningUpdate: 0.1})
}

func TestALearnerWithoutMomentumPutsOutThatOfTheLayersBefore(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml": good + "seed: 3\n",
		"b.yaml": "extends: a\nlearner: {momentumPerSample: 0.99, useNAG: true}\n",
		"c.yaml": "extends: b\nlearner: {type: adam}\n",
	})
	for _, c := range []struct {
		file string
		args []string
	}{{"c.yaml", nil}, {"b.yaml", []string{"learner.type=sgd"}}} {
		cfg, err := loadIn(dir, c.file, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		if l := cfg.Learner; l.MomentumPerMB.Set() || l.MomentumPerSample.Set() || l.UseNAG {
			t.Errorf("%s %v: momentum is left: %+v", c.file, c.args, l)
		}
		again(t, cfg)
	}
	cfg, err := loadIn(dir, "c.yaml", "learner.type=momentumSGD", "learner.momentumPerSample=0.5")
	if err != nil || cfg.Learner.MomentumPerSample.At(0) != 0.5 {
		t.Errorf("a later layer's momentum is %v, %v", cfg.Learner.MomentumPerSample, err)
	}
}

func TestScalarsFollowYAML12(t *testing.T) {
	for text, want := range map[string]string{
		"name: on":               "on",
		"name: Yes":              "Yes",
		"name: 1_000":            "1_000",
		"name: 0b1":              "0b1",
		"name: 2024-01-01":       "2024-01-01",
		"name: !!str 12":         "12",
		"name: '12'":             "12",
		"name: |-\n  a text":     "a text",
		"name: 12:30:45":         "12:30:45",
		"name: \"caf\\u00e9 1\"": "café 1",
	} {
		if c := mustLoad(t, good+text+"\n"); c.Name != want {
			t.Errorf("%s is %q", text, c.Name)
		} else {
			again(t, c)
		}
	}
	for text, want := range map[string]int64{"012": 12, "+3": 3, "-0": 0, "0x1F": 31, "0o17": 15, "!!int 7": 7, "-9223372036854775808": -1 << 63} {
		if c := mustLoad(t, good+"seed: "+text+"\n"); c.Seed != want {
			t.Errorf("%s is %d", text, c.Seed)
		}
	}
	for text, want := range map[string]float64{"1e-4": 1e-4, "1E+1": 10, ".5": 0.5, "1.": 1, "3": 3, "0x10": 16, "!!float 1": 1} {
		if c := mustLoad(t, good+"distributed: {blockMomentum: {learningRate: "+text+"}}\n"); c.Distributed.BlockMomentum.LearningRate != want {
			t.Errorf("%s is %v", text, c.Distributed.BlockMomentum.LearningRate)
		}
	}
}

func TestWhatFollowsFromOtherKeysIsSettled(t *testing.T) {
	for depth, want := range map[string]string{"8": "cifar", "20": "cifar", "110": "cifar", "18": "imagenet", "50": "imagenet", "152": "imagenet"} {
		c := mustLoad(t, good, "network.depth="+depth)
		if c.Network.Form != want {
			t.Errorf("depth %s has form %s", depth, c.Network.Form)
		}
		again(t, c)
	}
	if c := mustLoad(t, good, "network.depth=50", "network.form=cifar"); c.Network.Form != "cifar" {
		t.Error(c.Network.Form)
	}
	for _, kind := range []string{"sgd", "adam"} {
		c := mustLoad(t, good, "learner.type="+kind)
		if c.Learner.MomentumPerMB.Set() {
			t.Errorf("%s has momentum", kind)
		}
		again(t, c)
	}
	block := []string{"distributed.workers=4", "distributed.blockMomentum.blockSize=1000"}
	c := mustLoad(t, good, block...)
	if c.Distributed.BlockMomentum.Momentum != 0.75 {
		t.Error(c.Distributed.BlockMomentum)
	}
	again(t, c)
	c = mustLoad(t, good, append(block, "distributed.blockMomentum.momentum=0")...)
	if c.Distributed.BlockMomentum.Momentum != 0 {
		t.Error(c.Distributed.BlockMomentum)
	}
	again(t, c)
	c = mustLoad(t, good, append(block, "distributed.blockMomentum.momentumAsTimeConstant=500")...)
	if b := c.Distributed.BlockMomentum; b.Momentum != 0 || b.MomentumAsTimeConstant != 500 {
		t.Error(b)
	}
	again(t, c)
}

func TestItemsOfListsHaveTheirDefaults(t *testing.T) {
	c := mustLoad(t, good+`
`, `reader.transforms=[{crop: {type: randomSide, sideRatio: 0.5}}, {crop: {type: center}}, {scale: {width: 4, height: 5}}, {mean: {values: 3}}, {mean: {file: m.xml}}, {color: gray}, {crop: {PADDING: 2}}]`,
		`learner.learningRateSchedule=[{warmUp: {to: 0.1, epochs: 0.5}}, {oneCycle: {peak: 1, epochs: 3}}, {oneCycle: {peak: 1, epochs: 3, start: 0, warmUp: 0, end: 0.1}}, {linear: {from: 1, to: 0, epochs: 2}}]`)
	want := []Transform{
		{Kind: "crop", CropType: "randomSide", SideRatio: [2]float64{0.5, 0.5}, Jitter: "uniRatio"},
		{Kind: "crop", CropType: "center", SideRatio: [2]float64{1, 1}},
		{Kind: "scale", Width: 4, Height: 5, Interpolation: "linear"},
		{Kind: "mean", Mean: []float64{3}},
		{Kind: "mean", File: c.OutputDir[:len(c.OutputDir)-len("runs")] + "m.xml"},
		{Kind: "color", Color: "gray"},
		{Kind: "crop", CropType: "padded", Padding: 2},
	}
	if got := bare(c).Reader.Transforms; !reflect.DeepEqual(got, want) {
		t.Errorf("\n%+v\n%+v", got, want)
	}
	pieces := []Piece{
		{Kind: "warmUp", To: 0.1, Epochs: 0.5},
		{Kind: "oneCycle", From: 0.04, Peak: 1, Epochs: 3, WarmUp: 0.3},
		{Kind: "oneCycle", Peak: 1, Epochs: 3, To: 0.1},
		{Kind: "linear", From: 1, Epochs: 2},
	}
	if got := c.Learner.LearningRateSchedule; !reflect.DeepEqual(got, pieces) {
		t.Errorf("\n%+v\n%+v", got, pieces)
	}
	again(t, c)
	c, err := load(t, head+"learner: {maxEpochs: 1, learningRatesPerMB: 1}\n", "reader.transforms=[{flip: horizontal}]")
	if err != nil || c.Reader.Transforms[0].Origin != "argument reader.transforms=[{flip: horizontal}]" {
		t.Errorf("%v %v", c.Reader.Transforms, err)
	}
}
