package network

import (
	"fmt"
	"math"
	"testing"

	"gotrain/configs"
	"gotrain/graph"
)

func spec(form string, depth int, shortcut string) Spec {
	s := Spec{
		Config: configs.Network{Type: "resnet", Form: form, Depth: depth, Shortcut: shortcut,
			BatchNorm: configs.BatchNorm{Epsilon: 1e-5, RunningUpdate: 0.1}},
		Channels: 3, Height: 32, Width: 32, Classes: 10, Precision: graph.Float32,
	}
	if form == "imagenet" {
		s.Height, s.Width, s.Classes = 224, 224, 1000
	}
	return s
}

// The published networks have these numbers of parameters: He et al. 2015, table 6, names 0.27, 0.46, 0.66, 0.85 and 1.7
// million for the CIFAR form; those of the ImageNet form are torchvision's.
func TestParameterCountsAreThePublishedOnes(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want int
	}{
		{spec("cifar", 20, "A"), 269722},
		{spec("cifar", 32, "A"), 464154},
		{spec("cifar", 44, "A"), 658586},
		{spec("cifar", 56, "A"), 853018},
		{spec("cifar", 110, "A"), 1727962},
		{spec("cifar", 20, "B"), 272474},
		{spec("imagenet", 18, "B"), 11689512},
		{spec("imagenet", 34, "B"), 21797672},
		{spec("imagenet", 50, "B"), 25557032},
		{spec("imagenet", 101, "B"), 44549160},
		{spec("imagenet", 152, "B"), 60192808},
	} {
		p, err := c.spec.Compile(2, graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, s := range p.Parameters.Slots {
			got += s.Shape.Values()
		}
		if got != c.want {
			t.Errorf("%s resnet%d %s has %d parameters, want %d", c.spec.Config.Form, c.spec.Config.Depth, c.spec.Config.Shortcut, got, c.want)
		}
	}
}

// layers lists the convolutions and poolings of the forward pass with their results' shapes.
func layers(t *testing.T, s Spec) []string {
	t.Helper()
	p, err := s.Compile(2, graph.Options{NoFusion: true})
	if err != nil {
		t.Fatal(err)
	}
	var l []string
	for _, o := range p.Ops[:p.Forward] {
		switch o.Kind {
		case graph.Conv, graph.MaxPool, graph.Subsample, graph.GlobalAveragePool, graph.Dense:
			l = append(l, fmt.Sprintf("%s %s %d/%d %s", o.Kind, o.Name, o.Attr.Kernel, o.Attr.Stride, o.Out[0].Shape))
		}
	}
	return l
}

func TestFormsHaveTheLayersOfTheirPapers(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want []string
	}{
		{spec("cifar", 8, "A"), []string{
			"conv stem.conv 3/1 [2x16x32x32]",
			"conv stage1.0.conv1 3/1 [2x16x32x32]", "conv stage1.0.conv2 3/1 [2x16x32x32]",
			"subsample stage2.0.shortcut 0/2 [2x32x16x16]", "conv stage2.0.conv1 3/2 [2x32x16x16]", "conv stage2.0.conv2 3/1 [2x32x16x16]",
			"subsample stage3.0.shortcut 0/2 [2x64x8x8]", "conv stage3.0.conv1 3/2 [2x64x8x8]", "conv stage3.0.conv2 3/1 [2x64x8x8]",
			"average pool pool 0/0 [2x64]", "dense fc 0/0 [2x10]"}},
		{spec("cifar", 8, "B"), []string{
			"conv stem.conv 3/1 [2x16x32x32]",
			"conv stage1.0.conv1 3/1 [2x16x32x32]", "conv stage1.0.conv2 3/1 [2x16x32x32]",
			"conv stage2.0.shortcut.conv 1/2 [2x32x16x16]", "conv stage2.0.conv1 3/2 [2x32x16x16]", "conv stage2.0.conv2 3/1 [2x32x16x16]",
			"conv stage3.0.shortcut.conv 1/2 [2x64x8x8]", "conv stage3.0.conv1 3/2 [2x64x8x8]", "conv stage3.0.conv2 3/1 [2x64x8x8]",
			"average pool pool 0/0 [2x64]", "dense fc 0/0 [2x10]"}},
		{spec("imagenet", 18, "B"), []string{
			"conv stem.conv 7/2 [2x64x112x112]", "max pool stem.pool 3/2 [2x64x56x56]",
			"conv stage1.0.conv1 3/1 [2x64x56x56]", "conv stage1.0.conv2 3/1 [2x64x56x56]",
			"conv stage1.1.conv1 3/1 [2x64x56x56]", "conv stage1.1.conv2 3/1 [2x64x56x56]",
			"conv stage2.0.shortcut.conv 1/2 [2x128x28x28]", "conv stage2.0.conv1 3/2 [2x128x28x28]", "conv stage2.0.conv2 3/1 [2x128x28x28]",
			"conv stage2.1.conv1 3/1 [2x128x28x28]", "conv stage2.1.conv2 3/1 [2x128x28x28]",
			"conv stage3.0.shortcut.conv 1/2 [2x256x14x14]", "conv stage3.0.conv1 3/2 [2x256x14x14]", "conv stage3.0.conv2 3/1 [2x256x14x14]",
			"conv stage3.1.conv1 3/1 [2x256x14x14]", "conv stage3.1.conv2 3/1 [2x256x14x14]",
			"conv stage4.0.shortcut.conv 1/2 [2x512x7x7]", "conv stage4.0.conv1 3/2 [2x512x7x7]", "conv stage4.0.conv2 3/1 [2x512x7x7]",
			"conv stage4.1.conv1 3/1 [2x512x7x7]", "conv stage4.1.conv2 3/1 [2x512x7x7]",
			"average pool pool 0/0 [2x512]", "dense fc 0/0 [2x1000]"}},
		{spec("imagenet", 50, "B"), []string{ // the beginning: the rest repeats it
			"conv stem.conv 7/2 [2x64x112x112]", "max pool stem.pool 3/2 [2x64x56x56]",
			"conv stage1.0.shortcut.conv 1/1 [2x256x56x56]", "conv stage1.0.conv1 1/1 [2x64x56x56]", "conv stage1.0.conv2 3/1 [2x64x56x56]",
			"conv stage1.0.conv3 1/1 [2x256x56x56]",
			"conv stage1.1.conv1 1/1 [2x64x56x56]", "conv stage1.1.conv2 3/1 [2x64x56x56]", "conv stage1.1.conv3 1/1 [2x256x56x56]",
			"conv stage1.2.conv1 1/1 [2x64x56x56]", "conv stage1.2.conv2 3/1 [2x64x56x56]", "conv stage1.2.conv3 1/1 [2x256x56x56]",
			"conv stage2.0.shortcut.conv 1/2 [2x512x28x28]", "conv stage2.0.conv1 1/1 [2x128x56x56]", "conv stage2.0.conv2 3/2 [2x128x28x28]",
			"conv stage2.0.conv3 1/1 [2x512x28x28]"}},
	} {
		got := layers(t, c.spec)
		if len(got) < len(c.want) || c.spec.Config.Depth != 50 && len(got) != len(c.want) {
			t.Errorf("%s resnet%d: %d layers, want %d", c.spec.Config.Form, c.spec.Config.Depth, len(got), len(c.want))
			continue
		}
		for i, w := range c.want {
			if got[i] != w {
				t.Errorf("%s resnet%d %s: layer %q, want %q", c.spec.Config.Form, c.spec.Config.Depth, c.spec.Config.Shortcut, got[i], w)
			}
		}
	}
}

func TestBFloat16HoldsActivationsOnly(t *testing.T) {
	s := spec("cifar", 8, "B")
	s.Precision = graph.BFloat16
	p, err := s.Compile(2, graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	convolved := map[*graph.Tensor]bool{}
	for _, o := range p.Ops {
		if o.Kind == graph.Conv {
			convolved[o.Out[0]] = true
		}
	}
	for _, x := range p.Tensors {
		image := len(x.Shape) == 4 && x.Role == graph.Intermediate && !convolved[x]
		if want := map[bool]graph.DType{true: graph.BFloat16, false: graph.Float32}[image]; x.DType != want && x.DType != graph.Int32 && x.DType != graph.Float64 {
			t.Errorf("%s %s is %s, want %s", x.Name, x.Shape, x.DType, want)
		}
	}
}

func TestRunningUpdateFollowsTheTimeConstant(t *testing.T) {
	s := spec("cifar", 8, "B")
	s.Config.BatchNorm = configs.BatchNorm{Epsilon: 1e-5, NormalizationTimeConstant: 100}
	for samples, want := range map[int]float64{50: 1 - math.Exp(-0.5), 1: 1 - math.Exp(-0.01)} {
		p, err := s.Compile(samples, graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range p.Ops {
			if o.Kind == graph.BatchNorm && math.Abs(o.Attr.Update-want) > 1e-15 {
				t.Errorf("%s: update %v for %d samples, want %v", o.Name, o.Attr.Update, samples, want)
			}
		}
	}
}

func TestBatchNormIsSynchronizedWhereTheFileSaysSo(t *testing.T) {
	for _, sync := range []bool{false, true} {
		s := spec("cifar", 8, "B")
		s.Config.BatchNorm.Sync = sync
		p, err := s.Compile(2, graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		norms := 0
		for _, o := range p.Ops {
			if o.Kind == graph.BatchNorm || o.Kind == graph.BatchNormBackward {
				if norms++; o.Attr.Sync != sync {
					t.Errorf("%s: %s is synchronized: %v, want %v", o.Name, o.Kind, o.Attr.Sync, sync)
				}
			}
		}
		if norms != 18 {
			t.Errorf("%d batch norms and gradients of them, want 18", norms)
		}
	}
}

func TestImagesOfOnePixelCanBeTrained(t *testing.T) {
	for _, s := range []Spec{spec("cifar", 20, "B"), spec("imagenet", 50, "B"), spec("imagenet", 18, "A")} {
		s.Channels, s.Height, s.Width, s.Classes = 1, 1, 1, 2
		if _, err := s.Compile(1, graph.Options{}); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatCannotBeBuiltIsRefused(t *testing.T) {
	for _, c := range []struct {
		change  func(s *Spec)
		samples int
		want    string
	}{
		{func(s *Spec) { s.Config.Depth = 21 }, 2, "network.depth: 21 is not 6n+2; the nearest depths of the CIFAR form are 20 and 26"},
		{func(s *Spec) { s.Config.Depth = 2 }, 2, "network.depth: 2 is too small; the CIFAR form has 6n+2 layers, 8 at least"},
		{func(s *Spec) { s.Config.Form, s.Config.Depth = "imagenet", 20 }, 2, "network.depth: 20 is unknown; the depths of the ImageNet form are 18, 34, 50, 101 and 152"},
		{func(s *Spec) { s.Config.Form = "svhn" }, 2, `network.form: "svhn" is unknown; use cifar or imagenet`},
		{func(s *Spec) { s.Config.Type = "vgg" }, 2, `network.type: "vgg" is unknown; use resnet`},
		{func(s *Spec) { s.Config.Shortcut = "C" }, 2, `network.shortcut: "C" is unknown; use A (zero-padded identity) or B (1x1 projection)`},
		{func(s *Spec) { s.Width = 0 }, 2, "images of 3 channels, 32 rows and 0 columns cannot be trained on: each has to be 1 at least"},
		{func(s *Spec) { s.Classes = 1 }, 2, "the data has 1 classes: a classifier needs 2 at least"},
		{func(s *Spec) { s.Precision = graph.Int32 }, 2, "activations cannot be int32: use float32 or bfloat16"},
		{func(s *Spec) {}, 0, "a plan for 0 samples cannot be made: 1 is the least"},
	} {
		s := spec("cifar", 20, "B")
		c.change(&s)
		if _, err := s.Compile(c.samples, graph.Options{}); err == nil || err.Error() != c.want {
			t.Errorf("got error %v, want %q", err, c.want)
		}
	}
}
