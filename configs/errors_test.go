package configs

import (
	"errors"
	"strings"
	"testing"
)

// head is enough of a configuration for the rest to be tested; it ends line 2.
const head = "reader: {type: embedded}\nnetwork: {depth: 8}\n"

// good is head with a learner; it ends line 3.
const good = head + "learner: {maxEpochs: 1, learningRatesPerMB: 1}\n"

func TestEveryErrorIsNamedWithItsPlaceAndItsRemedy(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		args []string
		want []string
	}{
		{"zero minibatch", head + "learner: {maxEpochs: 1, learningRatesPerMB: 1, minibatchSize: 0}", nil, []string{
			"c.yaml:3:63: learner.minibatchSize: 0 is not an integer of at least 1"}},
		{"wrong types, all at once", head + "learner:\n  maxEpochs: ten\n  learningRatesPerMB: 1\n  unitGain: yes\n  useNAG: \"true\"\n  L2RegWeight: 1_0\n  epochSize: 1e3\n  beta1: 1.0\n  epsilon: .inf\nthreads: \"2\"\nname: 3\nseed: [1]\n", nil, []string{
			"c.yaml:4:14: learner.maxEpochs: ten is not an integer of at least 1",
			"c.yaml:6:13: learner.unitGain: yes is not true or false: write true",
			"c.yaml:7:11: learner.useNAG: \"true\" is not true or false: write true without quotes",
			"c.yaml:8:16: learner.L2RegWeight: 1_0 is not a number of at least 0: write 10",
			"c.yaml:9:14: learner.epochSize: 1e3 is not an integer of at least 0: write 1000",
			"c.yaml:10:10: learner.beta1: 1.0 is not a number from 0 to below 1",
			"c.yaml:11:12: learner.epsilon: .inf is not a number above 0",
			"c.yaml:12:10: threads: \"2\" is not auto or an integer from 1 to 4096: write 2 without quotes",
			"c.yaml:13:7: name: 3 is not text: write \"3\" with quotes",
			"c.yaml:14:7: seed: a list is not an integer"}},
		{"unknown keys", good + "minibatchSize: 3\nlerner: {}\nnetwerk: {depth: 3}\nlog: {tensorboard: x}\nzzz: 1\n", nil, []string{
			"c.yaml:4:1: minibatchSize: unknown key: did you mean learner.minibatchSize?",
			"c.yaml:5:1: lerner: unknown key: did you mean learner?",
			"c.yaml:6:1: netwerk: unknown key: did you mean network?",
			"c.yaml:7:7: log.tensorboard: unknown key: did you mean tensorBoardDir?",
			"c.yaml:8:1: zzz: unknown key: the keys here are extends, name, command, precision, device, threads, seed, vars, outputDir, reader, network, learner, distributed, checkpoint and log"}},
		{"a misspelt key is not missing too", head + "learner: {maxEpoch: 3, learningRatePerMB: 1}", nil, []string{
			"c.yaml:3:11: learner.maxEpoch: unknown key: did you mean maxEpochs?",
			"c.yaml:3:24: learner.learningRatePerMB: unknown key: did you mean learningRatesPerMB?"}},
		{"keys of CNTK", good + "distributed: {gradientBits: 1}\ncheckpoint: {L1RegWeight: 0.1}\nlog: {clippingThresholdPerSample: 1}\naction: train\n<<: {}\n", nil, []string{
			"c.yaml:4:15: distributed.gradientBits: unknown key: CNTK's gradientBits is distributed.bits here",
			"c.yaml:5:14: checkpoint.L1RegWeight: unknown key: L1 regularization is not supported: use learner.L2RegWeight",
			"c.yaml:6:7: log.clippingThresholdPerSample: unknown key: clipping of single samples is not supported: use learner.gradientClippingNorm, the greatest norm of the whole gradient",
			"c.yaml:7:1: action: unknown key: use command, such as [train, test]",
			"c.yaml:8:1: <<: unknown key: merge keys are not in YAML 1.2: use extends, or repeat the keys"}},
		{"missing keys", "learner: {minibatchSize: 3}", nil, []string{
			"c.yaml: reader.type: missing: write one of cifar10, cifar100, idx, images, ctf, embedded",
			"c.yaml: network.depth: missing: write an integer from 8 to 100000",
			"c.yaml:1:1: learner.maxEpochs: missing: write an integer of at least 1",
			"c.yaml:1:1: learner.learningRatesPerMB: missing: write one of learningRatesPerMB, learningRatesPerSample and learningRateSchedule, such as learningRatesPerMB: 1.0*80:0.1*40:0.01"}},
		{"words", good + "precision: float31\ndevice: GPU\ncommand: [train, tests]\ndistributed: {columns: chanel, transport: true}", nil, []string{
			"c.yaml:4:12: precision: float31 is not one of float32, bfloat16, tf32: did you mean float32?",
			"c.yaml:5:9: device: GPU is not one of auto, cpu, cuda, emulator: did you mean cpu?",
			"c.yaml:6:18: command[1]: tests is not one of train, test: did you mean test?",
			"c.yaml:7:24: distributed.columns: chanel is not channel or an integer of at least 1",
			"c.yaml:7:43: distributed.transport: true is not one of auto, local, mpi, nccl"}},
		{"a list is a list", good + "command: train", nil, []string{
			"c.yaml:4:10: command: train is not a list of train and test such as [train, test]: write [train]"}},
		{"sections are mappings", "reader: [1]\nnetwork: 8\nlearner:\n- maxEpochs: 1\n", nil, []string{
			"c.yaml:1:9: reader: a list is not a mapping: write keys below it, such as type: ...",
			"c.yaml:2:10: network: 8 is not a mapping: write keys below it, such as type: ...",
			"c.yaml:4:1: learner: a list is not a mapping: write keys below it, such as type: ..."}},
		{"schedules", head + "learner: {maxEpochs: 1, learningRatesPerMB: 1.0*x:0.1, momentumPerMB: 0.9:1.0}\ndistributed: {bits: 32*1:3, timeout: 60}", nil, []string{
			"c.yaml:3:45: learner.learningRatesPerMB: 1.0*x:0.1 is not a number of at least 0 or a schedule by epoch such as 1.0*80:0.1*40:0.01: \"x\" is not a number of epochs",
			"c.yaml:3:71: learner.momentumPerMB: 0.9:1.0 is not a number from 0 to below 1 or a schedule by epoch such as 0*1:0.9: 1 is not",
			"c.yaml:4:21: distributed.bits: 32*1:3 is not auto, 32, 16, 8, 4, 2 or 1, or a schedule of them by epoch such as 32*1:1: 3 is not a number of bits",
			"c.yaml:4:38: distributed.timeout: 60 is not a duration such as 60s or 2m30s: write the unit too, such as 60s"}},
		{"duplicate keys, without regard to case", good + "Reader: {type: embedded}\nlog: {json: a, JSON: b}\nvars: {a: 1, A: 2}", nil, []string{
			"c.yaml:4:1: reader: the key stands here twice, first at line 1: keep one",
			"c.yaml:5:16: log.json: the key stands here twice, first at line 5: keep one",
			"c.yaml:6:14: vars.A: the key stands here twice: keep one"}},
		{"two of a group", head + "learner: {maxEpochs: 1, learningRatesPerMB: 1, learningRatesPerSample: 0.1}", nil, []string{
			"c.yaml:3:48: learner.learningRatesPerSample: learner.learningRatesPerMB is set too, and only one of the two can be: keep one"}},
		{"two of a group as arguments", good, []string{"learner.momentumPerMB=0.5", "learner.momentumPerSample=0.9"}, []string{
			"argument learner.momentumPerSample=0.9: learner.momentumPerMB is an argument too, and only one of the two can be set: keep one"}},
		{"arguments", good, []string{"learner.minibatchSize=abc", "learner.minibatchSize=", "256", "=3", "foo.bar=3", "reader=3", "command=[train", "learner={maxEpochs: 0}", "extends=x", "vars.a b=3"}, []string{
			"argument learner.minibatchSize=: no value after the equals sign: write key=value without spaces, \"\" for an empty text, null for the default",
			"argument 256: not key=value: is there a space before or after an equals sign?",
			"argument =3: no key before the equals sign: write key=value",
			"argument command=[train: the value is not YAML: did not find expected ',' or ']'",
			"argument extends=x: a file extends another, an argument cannot: write extends into a file",
			"argument vars.a b=3: vars: a b is not a name of letters, digits and _",
			"argument learner.minibatchSize=abc: abc is not an integer of at least 1",
			"argument foo.bar=3: foo: unknown key: the keys here are extends, name, command, precision, device, threads, seed, vars, outputDir, reader, network, learner, distributed, checkpoint and log",
			"argument reader=3: 3 is not a mapping: write keys below it, such as type: ...",
			"argument learner={maxEpochs: 0}: learner.maxEpochs: 0 is not an integer of at least 1"}},
		{"an argument of bytes", good, []string{"outputDir=/a\xff"}, []string{
			"argument outputDir=/a?: this is not UTF-8 text"}},
		{"transforms", good, []string{"reader.transforms=[{crop: {padding: 4, type: center}}, flip, {flip: vertical}, {normalize: {mean: 1}}, {mean: {}}, {crop: {}}, {crop: null}, {flip: }, {scale: {width: 3}, flip: horizontal}, {blur: 3}]"}, []string{
			"ARG: reader.transforms[0].crop.type: reader.transforms[0].crop.padding is set too, and only one of the two can be: keep one",
			"ARG: reader.transforms[1]: flip is not a mapping with one key of crop, flip, scale, mean, normalize or color: write {flip: horizontal}",
			"ARG: reader.transforms[2].flip: vertical is not horizontal",
			"ARG: reader.transforms[3].normalize.std: missing: write a number above 0 or a list of them, one a channel",
			"ARG: reader.transforms[4].mean: missing: write values or file",
			"ARG: reader.transforms[5].crop: missing: write padding, or type with sideRatio",
			"ARG: reader.transforms[6].crop: null says nothing here: write padding: ...",
			"ARG: reader.transforms[7].flip: null says nothing here: write horizontal",
			"ARG: reader.transforms[8]: 2 keys in one item: write one key of crop, flip, scale, mean, normalize or color, and each as an item of its own",
			"ARG: reader.transforms[9].blur: unknown key: the keys here are crop, flip, scale, mean, normalize and color"}},
		{"values of transforms", good, []string{"reader.transforms=[{normalize: {mean: [1, 2], std: [1]}}, {normalize: {mean: 1, std: 0}}, {crop: {type: center, sideRatio: [0.5, 1]}}, {crop: {type: randomSide, sideRatio: [1, 0.5]}}, {crop: {padding: 1, sideRatio: 1}}, {mean: {values: []}}]"}, []string{
			"ARG: reader.transforms[0].normalize: mean has 2 values and std 1: write as many of each, one or one a channel",
			"ARG: reader.transforms[1].normalize.std: 0 is not a number above 0 or a list of them, one a channel",
			"ARG: reader.transforms[2].crop: a center crop has one sideRatio, not a range of them",
			"ARG: reader.transforms[3].crop.sideRatio: a list is not a number above 0 and up to 1 or a pair of them such as [0.8, 1], the smaller first",
			"ARG: reader.transforms[4].crop: sideRatio and jitterType belong to type: randomSide or center, not to padding",
			"ARG: reader.transforms[5].mean: values is empty: write one value, or one a channel"}},
		{"pieces", head + "learner:\n  maxEpochs: 1\n  learningRateSchedule:\n  - linear: {from: 0}\n  - cosin: 3\n  - constant: {rate: 1, epochs: 0}\n  - 3\n  - cosine\n", nil, []string{
			"c.yaml:6:13: learner.learningRateSchedule[0].linear.to: missing: write a number of at least 0",
			"c.yaml:6:13: learner.learningRateSchedule[0].linear.epochs: missing: write a number above 0",
			"c.yaml:7:5: learner.learningRateSchedule[1].cosin: unknown key: did you mean cosine?",
			"c.yaml:8:33: learner.learningRateSchedule[2].constant.epochs: 0 is not a number above 0",
			"c.yaml:9:5: learner.learningRateSchedule[3]: 3 is not a mapping with one key of constant, linear, cosine, warmUp or oneCycle",
			"c.yaml:10:5: learner.learningRateSchedule[4]: cosine is not a mapping with one key of constant, linear, cosine, warmUp or oneCycle: write {cosine: {from: ...}}"}},
		{"depth 21", good, []string{"network.depth=21"}, []string{
			"argument network.depth=21: 21 is not a depth of a ResNet: the nearest are 20 and 26 (6n+2, the CIFAR form), 18 and 34 (the ImageNet form)"}},
		{"depth 20 in the other form", good, []string{"network.depth=20", "network.form=imagenet"}, []string{
			"argument network.depth=20: 20 is not a depth of the ImageNet form: the nearest are 18 and 34 (the ImageNet form)"}},
		{"depth 18 in the other form", good, []string{"network={depth: 18, form: cifar}"}, []string{
			"argument network={depth: 18, form: cifar}: network.depth: 18 is not a depth of the CIFAR form: the nearest are 14 and 20 (6n+2, the CIFAR form)"}},
		{"depth 1000", good, []string{"network.depth=1000"}, []string{
			"argument network.depth=1000: 1000 is not a depth of a ResNet: the nearest are 998 and 1004 (6n+2, the CIFAR form), 101 and 152 (the ImageNet form)"}},
		{"momentum beside a type without it", good + "seed: 2\n", []string{"learner.momentumPerSample=0.5", "learner.type=sgd"}, []string{
			"argument learner.momentumPerSample=0.5: type sgd has no momentum of this kind: write type: momentumSGD, or leave it out"}},
		{"more samples than can be counted", head + "learner: {maxEpochs: 2147483647, learningRatesPerMB: 1, epochSize: 4194305}", nil, []string{
			"c.yaml:3:68: learner.epochSize: 2147483647 epochs of 4194305 samples are more than 2^53 samples in all: lower one of the two"}},
		{"a limit is written as an integer", good, []string{"reader.numClasses=0"}, []string{
			"argument reader.numClasses=0: 0 is not auto or an integer from 1 to 1048576"}},
		{"settings that do not go together, all at once", good, []string{"distributed.blockMomentum.blockSize=1000", "distributed.bits=1", "distributed.doubleBuffering=true", "network.batchNorm.sync=true", "learner.type=adam", "learner.useNAG=true", "learner.momentumPerMB=0.9", "device=cpu", "precision=tf32", "distributed.transport=nccl", "network.convolution=cudnn"}, []string{
			"argument precision=tf32: tf32 is a format of GPUs, and device is cpu: write float32 or bfloat16, or device: cuda",
			"argument network.convolution=cudnn: cudnn runs on cuda only, and device is cpu: write auto",
			"argument learner.momentumPerMB=0.9: type adam has no momentum of this kind: write type: momentumSGD, or leave it out",
			"argument learner.useNAG=true: type adam has no momentum to take Nesterov's form: write type: momentumSGD, or leave it out",
			"argument distributed.transport=nccl: nccl runs between GPUs only, and device is cpu: write auto, local or mpi",
			"argument distributed.bits=1: does not go with blockMomentum: whole models are exchanged, at 32 bits: write bits: 32, or blockSize: 0",
			"argument distributed.doubleBuffering=true: does not go with blockMomentum: no gradients are exchanged that could be late: write false, or blockSize: 0",
			"argument network.batchNorm.sync=true: does not go with blockMomentum: workers go on alone between blocks: write false, or blockSize: 0"}},
		{"readers and their paths", good, []string{"reader.path=x", "reader.testPath=y", "reader.testImages=z", "reader.width=3"}, []string{
			"argument reader.path=x: means nothing with reader.type: embedded: leave it out (it belongs to cifar10, cifar100, idx, images and ctf)",
			"argument reader.testPath=y: means nothing with reader.type: embedded: leave it out (it belongs to images and ctf)",
			"argument reader.testImages=z: means nothing with reader.type: embedded: leave it out (it belongs to idx)",
			"argument reader.width=3: means nothing with reader.type: embedded: leave it out (it belongs to images)"}},
		{"a path missing", good, []string{"reader.type=cifar10"}, []string{
			"argument reader.type=cifar10: reader.path: missing: write the folder of the binary files"}},
		{"half of the idx files", good, []string{"reader.type=idx", "reader.trainImages=a"}, []string{
			"argument reader.trainImages=a: images and labels come in pairs: write both trainImages and trainLabels, both testImages and testLabels"}},
		{"a path beside all idx files", good, []string{"reader={type: idx, path: p, trainImages: a, trainLabels: b, testImages: c, testLabels: d}"}, []string{
			"ARG: reader.path: all four files are named, and path has no use then: leave it out"}},
		{"ctf", good, []string{"reader={type: ctf, path: p, featureShape: [3, 4], labelStream: features}"}, []string{
			"ARG: reader.featureShape: 2 numbers: write three, [channels, height, width]",
			"ARG: reader.labelStream: features and labels are one stream, features: write the names of two"}},
		{"ctf without a shape", good, []string{"reader={type: ctf, path: p}"}, []string{
			"argument reader={type: ctf, path: p}: reader.featureShape: missing: write [channels, height, width] of the features in the file"}},
		{"names and addresses", good, []string{"name=a/b", "log.metricsAddress=9100", "command=[]"}, []string{
			"argument name=a/b: \"a/b\" cannot name a folder: write up to 100 letters, digits, - and _",
			"argument command=[]: nothing to do: write [train, test], or one of them",
			"argument log.metricsAddress=9100: 9100 is not host:port such as localhost:9100"}},
		{"tags and odd keys", good + "seed: !foo 3\nthreads: !!int x\n? [a]\n: 1\n", nil, []string{
			"c.yaml:4:7: seed: the tag !foo is not of YAML's core schema: leave it out",
			"c.yaml:5:10: threads: x is not what its tag !!int says: leave the tag out",
			"c.yaml:6:3: a key is text, not a list"}},
		{"paths", good + "outputDir: ~bob/runs\nlog: {json: \"\"}", nil, []string{
			"c.yaml:4:12: outputDir: ~bob/runs is not a path: ~ stands for your own home folder only: write the whole path, or ./~bob/runs",
			"c.yaml:5:13: log.json: \"\" is not a path: write the name of a file or folder"}},
		{"numbers too large", good + "seed: 99999999999999999999\ndistributed: {blockMomentum: {learningRate: 1e999}}", nil, []string{
			"c.yaml:4:7: seed: 99999999999999999999 is not an integer",
			"c.yaml:5:45: distributed.blockMomentum.learningRate: 1e999 is not a number above 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, test.text, test.args...)
			if len(test.args) == 1 {
				for i, w := range test.want {
					test.want[i] = strings.Replace(w, "ARG", argumentPrefix+clip(test.args[0]), 1)
				}
			}
			sameError(t, err, test.want)
		})
	}
}

func sameError(t *testing.T, err error, want []string) {
	t.Helper()
	var list Errors
	if !errors.As(err, &list) {
		t.Fatalf("error is %v", err)
	}
	if got := err.Error(); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestWhatIsNotYAMLIsNamedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "c.yaml: the file is empty: write keys, such as extends: resnet20_dense",
		"# nothing\n":                      "c.yaml: the file is empty: write keys, such as extends: resnet20_dense",
		"- 1\n":                            "c.yaml:1:1: this is not a mapping of keys to values: write lines such as extends: resnet20_dense",
		"a:\n\tb: 3\n":                     "c.yaml:2:1: a tab in the indentation: indent with spaces",
		"x: 1\ny: 2\na: b: c\n":            "c.yaml:3: not YAML: mapping values are not allowed in this context: put text that holds a colon and a space in quotes",
		"x: 1\ny: 2\na: [1\nb: 2\n":        "c.yaml:3: not YAML: did not find expected ',' or ']'",
		"x:\n  a: 1\n b: 2\n":              "c.yaml:3: not YAML: did not find expected key",
		"x: 1\na: {b: ${A}}\n":             "c.yaml:2: not YAML: did not find expected ',' or '}': inside braces put ${...} in quotes",
		"a: 1\n---\nb: 2\n":                "c.yaml:2:1: a second document begins here: write one document a file",
		"x: 1\na: *b":                      "c.yaml:2:4: *b stands for nothing: write &b before what it repeats, above it, or quotes around text that begins with *",
		"a: \"\x01\"":                      "c.yaml:1:5: not YAML: \"\\x01\" is not a character of text: save the file as UTF-8",
		"a: \xff\n":                        "c.yaml:1:4: not YAML: \"\\xff\" is not a character of text: save the file as UTF-8",
		strings.Repeat("# much\n", 200000): "c.yaml: the file is larger than 1048576 bytes: this is no configuration",
	} {
		_, err := load(t, text)
		sameError(t, err, []string{want})
	}
}

func TestErrorsCanBeTakenOneByOne(t *testing.T) {
	_, err := load(t, good+"seed: x\n")
	var e *Error
	if !errors.As(err, &e) || e.Key != "seed" || e.Pos != "c.yaml:4:7" || e.Message != "x is not an integer" {
		t.Errorf("%#v", e)
	}
}
