package configs

import (
	"reflect"
	"strings"
	"testing"
)

func TestThePrintedConfigurationIsComplete(t *testing.T) {
	c, err := Load("resnet20_1bit", nil, WithDir("/w"), WithHome("/home/u"), environment(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := `name: resnet20_1bit
command: [train, test]
precision: float32
device: auto
threads: auto
seed: 1
outputDir: /w/runs
reader:
  type: cifar10
  path: /home/u/.cache/gotrain/cifar-10-batches-bin
  labelKind: fine
  numClasses: auto
  channels: auto
  width: auto
  height: auto
  featureStream: features
  labelStream: labels
  transforms: [{crop: {padding: 4}}, {flip: horizontal}, {normalize: {mean: [125.3, 123, 113.9], std: [63, 62.1, 66.7]}}]
  randomize: true
  onError: fail
  maxSkipped: 100
  prefetch: 4
  workers: auto
network:
  type: resnet
  depth: 20
  form: cifar
  shortcut: B
  batchNorm:
    epsilon: 1e-05
    runningUpdate: 0.1
    sync: false
  init: he
  convolution: auto
learner:
  type: momentumSGD
  minibatchSize: 128
  maxEpochs: 160
  epochSize: 0
  learningRatesPerMB: 1*80:0.1*40:0.01
  momentumPerMB: 0.9
  unitGain: true
  useNAG: false
  L2RegWeight: 0.0001
  gradientClippingNorm: 0
  numMBsToShowResult: 10
  beta1: 0.9
  beta2: 0.999
  epsilon: 1e-08
distributed:
  workers: 4
  bits: 1
  transport: auto
  zeroThreshold: false
  columns: channel
  bucketSize: auto
  overlap: true
  doubleBuffering: false
  scaleMinibatch: false
  timeout: 1m0s
  warmStart:
    samples: 50000
    mode: dense
  blockMomentum:
    blockSize: 0
    learningRate: 1
    nesterov: true
    resetMomentum: true
checkpoint:
  everyEpochs: 1
  everyMinibatches: 0
  keep: 3
`
	if got := string(c.YAML()); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestTextsOfEveryKindSurvivePrinting(t *testing.T) {
	for _, name := range []string{"on", "null", "12", "1e5", "a: b", "#x", "- y", "x #y", "é", "'", `"`, "a$b$$", "~", "*a", "&a", "!a", "%a", "@a", "0x1", "<<", "=", "a,b", "{a}", "[a]", "012", "0o7", "1_0"} {
		c := mustLoad(t, good+"name: ''\n", "name='"+strings.NewReplacer("'", "''", "$", "$$").Replace(name)+"'")
		if c.Name != name {
			t.Errorf("%q became %q", name, c.Name)
		}
		again(t, c)
	}
}

func TestChangesAreListedAndOnlyWhatIsTrainedCountsForTheHash(t *testing.T) {
	a := mustLoad(t, good)
	b := mustLoad(t, good, "outputDir="+a.OutputDir, "learner.minibatchSize=32", "learner.learningRateSchedule=[{warmUp: {to: 1, epochs: 2}}]", "checkpoint.keep=1")
	got := Diff(a, b)
	want := []Change{
		{"learner.minibatchSize", "256", "32", false},
		{"learner.learningRatesPerMB", "1", "", false},
		{"learner.learningRateSchedule", "", "[{warmUp: {to: 1, epochs: 2}}]", false},
		{"checkpoint.keep", "3", "1", true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if s := got[1].String(); s != "learner.learningRatesPerMB: 1 -> (not set)" {
		t.Error(s)
	}
	if a.Hash() == b.Hash() || len(a.Hash()) != 64 {
		t.Error("the hash does not tell them apart")
	}
	aside := mustLoad(t, good+"vars: {unused: 1}\n", "outputDir=/o", "log={json: /j, tensorBoardDir: /t, metricsAddress: ':9100'}", "checkpoint={everyEpochs: 2, everyMinibatches: 3, keep: 4}", "reader.prefetch=0", "distributed.timeout=5m")
	if a.Hash() != aside.Hash() {
		t.Errorf("the hash counts what is aside: %v", Diff(a, aside))
	}
	for _, d := range Diff(a, aside) {
		if !d.Aside {
			t.Errorf("%v is not aside", d)
		}
	}
}
