package configs

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checker reports settings that do not go together. A check whose keys have
// errors of their own is passed over.
type checker struct {
	c *Config
	l *loader
}

// check settles what follows from other keys, and reports all settings that
// do not go together.
func check(c *Config, l *loader) {
	k := checker{c, l}
	k.run()
	k.reader()
	k.network()
	k.learner()
	k.distributed()
}

// fail reports keys that do not go together at the place of the first of them
// that was written.
func (k checker) fail(keys []string, format string, args ...any) {
	pos := k.l.where(keys[0])
	for _, key := range keys {
		if k.l.bad[key] {
			return
		}
	}
	for _, key := range keys {
		if o := k.c.Origin(key); o != "" && o != defaultOrigin {
			pos, _, _ = strings.Cut(o, " (environment ")
			break
		}
	}
	k.l.errs = append(k.l.errs, errorf(pos, keys[0], format, args...))
}

func (k checker) run() {
	c := k.c
	if strings.ContainsAny(c.Name, `/\`) || strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		!utf8.ValidString(c.Name) || c.Name == "" || c.Name[0] == '.' || len(c.Name) > 100 || strings.TrimSpace(c.Name) != c.Name {
		k.fail([]string{"name"}, "%s cannot name a folder: write up to 100 letters, digits, - and _", strconv.Quote(c.Name))
	}
	if len(c.Command) == 0 {
		k.fail([]string{"command"}, "nothing to do: write [train, test], or one of them")
	}
	if c.Precision == "tf32" && c.Device == "cpu" {
		k.fail([]string{"precision", "device"}, "tf32 is a format of GPUs, and device is cpu: write float32 or bfloat16, or device: cuda")
	}
	if a := c.Log.MetricsAddress; a != "" {
		if _, port, err := net.SplitHostPort(a); err != nil || !isPort(port) {
			k.fail([]string{"log.metricsAddress"}, "%s is not host:port such as localhost:9100", scalar{text: a}.show())
		}
	}
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 0 && n < 1<<16
}

func (k checker) reader() {
	r := k.c.Reader
	only := func(key string, set bool, types ...string) {
		if set && r.Type != "" && !slices.Contains(types, r.Type) {
			k.fail([]string{key, "reader.type"}, "means nothing with reader.type: %s: leave it out (it belongs to %s)", r.Type, listed(types, "and"))
		}
	}
	only("reader.path", r.Path != "", "cifar10", "cifar100", "idx", "images", "ctf")
	only("reader.testPath", r.TestPath != "", "images", "ctf")
	explicit := []string{r.TrainImages, r.TrainLabels, r.TestImages, r.TestLabels}
	for i, key := range []string{"trainImages", "trainLabels", "testImages", "testLabels"} {
		only("reader."+key, explicit[i] != "", "idx")
	}
	only("reader.featureShape", r.FeatureShape != nil, "ctf")
	only("reader.channels", r.Channels != 0, "images")
	only("reader.width", r.Width != 0, "images")
	only("reader.height", r.Height != 0, "images")

	keys := []string{"reader.path", "reader.type"}
	pairs := (r.TrainImages == "") == (r.TrainLabels == "") && (r.TestImages == "") == (r.TestLabels == "")
	switch {
	case r.Type == "idx" && !pairs:
		k.fail([]string{"reader.trainImages", "reader.trainLabels", "reader.testImages", "reader.testLabels"},
			"images and labels come in pairs: write both trainImages and trainLabels, both testImages and testLabels")
	case r.Type == "idx" && r.TrainImages != "" && r.TestImages != "":
		if r.Path != "" {
			k.fail(append(keys[:1], "reader.trainImages"), "all four files are named, and path has no use then: leave it out")
		}
	case r.Type != "" && r.Type != "embedded" && r.Path == "":
		what := map[string]string{
			"images": "a map file or a folder with one folder a class",
			"ctf":    "a file in CNTK's text format",
			"idx":    "the folder of the IDX files",
		}[r.Type]
		if what == "" {
			what = "the folder of the binary files"
		}
		k.fail(keys, "missing: write %s", what)
	}
	if r.FeatureShape != nil && len(r.FeatureShape) != 3 {
		k.fail([]string{"reader.featureShape"}, "%d numbers: write three, [channels, height, width]", len(r.FeatureShape))
	}
	if r.Type == "ctf" && r.FeatureShape == nil {
		k.fail([]string{"reader.featureShape", "reader.type"}, "missing: write [channels, height, width] of the features in the file")
	}
	if r.Type == "ctf" && r.FeatureStream == r.LabelStream {
		k.fail([]string{"reader.labelStream", "reader.featureStream"}, "features and labels are one stream, %s: write the names of two", scalar{text: r.LabelStream}.show())
	}
}

// imageNetDepths are the depths of He et al. (2015), table 1.
var imageNetDepths = []int{18, 34, 50, 101, 152}

func (k checker) network() {
	n := &k.c.Network
	imageNet, cifar := slices.Contains(imageNetDepths, n.Depth), n.Depth >= 8 && n.Depth%6 == 2
	keys := []string{"network.depth", "network.form"}
	low := max(8, n.Depth-(n.Depth+4)%6)
	six := fmt.Sprintf("%d and %d (6n+2, the CIFAR form)", low, low+6)
	i := min(max(1, sortedAt(imageNetDepths, n.Depth)), len(imageNetDepths)-1)
	net := fmt.Sprintf("%d and %d (the ImageNet form)", imageNetDepths[i-1], imageNetDepths[i])
	switch {
	case n.Form == "auto" && imageNet:
		n.Form = "imagenet"
	case n.Form == "auto" && cifar:
		n.Form = "cifar"
	case n.Form == "auto":
		k.fail(keys, "%d is not a depth of a ResNet: the nearest are %s, %s", n.Depth, six, net)
	case n.Form == "cifar" && !cifar:
		k.fail(keys, "%d is not a depth of the CIFAR form: the nearest are %s", n.Depth, six)
	case n.Form == "imagenet" && !imageNet:
		k.fail(keys, "%d is not a depth of the ImageNet form: the nearest are %s", n.Depth, net)
	}
	if n.Convolution == "cudnn" && (k.c.Device == "cpu" || k.c.Device == "emulator") {
		k.fail([]string{"network.convolution", "device"}, "cudnn runs on cuda only, and device is %s: write auto", k.c.Device)
	}
}

func sortedAt(sorted []int, v int) int {
	i, _ := slices.BinarySearch(sorted, v)
	return i
}

// maxSamples is how many samples can be counted, in float64 too.
const maxSamples = 1 << 53

func (k checker) learner() {
	l := &k.c.Learner
	if !l.LearningRatesPerMB.Set() && !l.LearningRatesPerSample.Set() && len(l.LearningRateSchedule) == 0 {
		k.fail([]string{"learner.learningRatesPerMB", "learner.learningRatesPerSample", "learner.learningRateSchedule"},
			"missing: write one of learningRatesPerMB, learningRatesPerSample and learningRateSchedule, such as learningRatesPerMB: 1.0*80:0.1*40:0.01")
	}
	if l.EpochSize > 0 && l.MaxEpochs > maxSamples/l.EpochSize {
		k.fail([]string{"learner.epochSize", "learner.maxEpochs"}, "%d epochs of %d samples are more than 2^53 samples in all: lower one of the two",
			l.MaxEpochs, l.EpochSize)
	}
	if l.Type == "momentumSGD" {
		return
	}
	momentum := []struct {
		key string
		p   *PerEpoch
	}{
		{"learner.momentumPerMB", &l.MomentumPerMB},
		{"learner.momentumPerSample", &l.MomentumPerSample},
		{"learner.momentumAsTimeConstant", &l.MomentumAsTimeConstant},
	}
	for _, m := range momentum {
		switch {
		case k.c.Origin(m.key) == defaultOrigin:
			*m.p = nil
			delete(k.c.origins, strings.ToLower(m.key))
		case m.p.Set():
			k.fail([]string{m.key, "learner.type"}, "type %s has no momentum of this kind: write type: momentumSGD, or leave it out", l.Type)
		}
	}
	if l.UseNAG {
		k.fail([]string{"learner.useNAG", "learner.type"}, "type %s has no momentum to take Nesterov's form: write type: momentumSGD, or leave it out", l.Type)
	}
}

func (k checker) distributed() {
	d := &k.c.Distributed
	b := &d.BlockMomentum
	if d.Transport == "nccl" && (k.c.Device == "cpu" || k.c.Device == "emulator") {
		k.fail([]string{"distributed.transport", "device"}, "nccl runs between GPUs only, and device is %s: write auto, local or mpi", k.c.Device)
	}
	if b.BlockSize == 0 {
		return
	}
	k.momentum()
	with := func(key string, clash bool, why string) {
		if clash {
			k.fail([]string{key, "distributed.blockMomentum.blockSize"}, "does not go with blockMomentum: %s", why)
		}
	}
	quantized := slices.ContainsFunc(d.Bits.Schedule, func(s Span) bool { return s.Value != 32 })
	with("distributed.bits", d.Bits.Auto || quantized, "whole models are exchanged, at 32 bits: write bits: 32, or blockSize: 0")
	with("distributed.doubleBuffering", d.DoubleBuffering, "no gradients are exchanged that could be late: write false, or blockSize: 0")
	with("distributed.warmStart.samples", d.WarmStart.Samples > 0, "nothing is quantized from which a warm start could keep: write 0, or blockSize: 0")
	with("network.batchNorm.sync", k.c.Network.BatchNorm.Sync, "workers go on alone between blocks: write false, or blockSize: 0")
}

// momentum settles the momentum of a block: 1 - 1/workers where none is
// written (Chen and Huo, 2016, section 2.3).
func (k checker) momentum() {
	d := &k.c.Distributed
	key := "distributed.blockMomentum.momentum"
	if k.c.Origin(key) == "" && k.c.Origin(key+"AsTimeConstant") == "" {
		d.BlockMomentum.Momentum = 1 - 1/math.Max(1, float64(d.Workers))
		k.c.origins[strings.ToLower(key)] = defaultOrigin
	}
}
