package readers

import (
	"path/filepath"
	"slices"
	"testing"

	"gotrain/configs"
)

func ctfConfig(path string) configs.Reader {
	return configs.Reader{Type: "ctf", Path: path, FeatureShape: []int{1, 1, 3}, FeatureStream: "features", LabelStream: "labels"}
}

func TestCNTKTextFormat(t *testing.T) {
	tests := []struct {
		name, content string
		classes       int
		values        []float32
		labels        []int32
	}{
		{"dense", "|labels 0 1 0 |features 1 2 3\n|labels 1 0 0 |features 4 5 255\n", 0,
			[]float32{1, 2, 3, 4, 5, 255}, []int32{1, 0}},
		{"sparse", "|labels 3:1 |features 0:1 2:-0.5\n", 5,
			[]float32{1, 0, -0.5}, []int32{3}},
		{"any order, other streams, tabs, CRLF, byte-order mark and empty lines",
			"\xef\xbb\xbf|features\t1e1 2.5 .5\t|weights 9 |labels 0 1\r\n\r\n", 2,
			[]float32{10, 2.5, 0.5}, []int32{1}},
		{"comments and numbers of sequences", "0 |labels 1 0 |# a #| b |features 1 2 3 |# end\n1 |labels 0 1 |features 1 2 3", 2,
			[]float32{1, 2, 3, 1, 2, 3}, []int32{0, 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "train.txt")
			write(t, path, []byte(test.content))
			cfg := ctfConfig(path)
			cfg.NumClasses = test.classes
			ds := open(t, cfg, Train)
			var plan []Sample
			for i := range ds.Len() {
				plan = append(plan, Sample{Index: int32(i)})
			}
			b := get(t, ds, plan...)
			if !slices.Equal(b.Images, test.values) || !slices.Equal(b.Labels, test.labels) {
				t.Errorf("%v, labels %v; want %v, %v", b.Images, b.Labels, test.values, test.labels)
			}
		})
	}
}

func TestCNTKTextThatDoesNotFit(t *testing.T) {
	const good = "|labels 0 1 |features 1 2 3\n"
	tests := []struct{ name, content, want string }{
		{"too few values", good + "|labels 0 1 |features 1 2",
			"DIR/t.txt:2: stream 'features': 2 values, 3 expected (reader.featureShape is [1 1 3])"},
		{"too many values", good + "|labels 0 1 |features 1 2 3 4",
			"DIR/t.txt:2: stream 'features': 4 values, 3 expected (reader.featureShape is [1 1 3])"},
		{"a word", good + "|labels 0 1 |features 1 two 3",
			"DIR/t.txt:2: stream 'features': 'two' is not a finite number (reader.featureShape is [1 1 3])"},
		{"NaN", good + "|labels 0 1 |features 1 NaN 3",
			"DIR/t.txt:2: stream 'features': 'NaN' is not a finite number (reader.featureShape is [1 1 3])"},
		{"another number of classes, twice", good + "|labels 0 1 0 |features 1 2 3\n|labels 1 |features 1 2 3",
			"DIR/t.txt:2: stream 'labels': 3 values, 2 expected (2 classes)\nDIR/t.txt:3: stream 'labels': 1 values, 2 expected (2 classes)"},
		{"two ones", good + "|labels 1 1 |features 1 2 3",
			"DIR/t.txt:2: stream 'labels': '1 1' is not one-hot: write one 1 among zeros"},
		{"no one", good + "|labels 0 0 |features 1 2 3",
			"DIR/t.txt:2: stream 'labels': '0 0' is not one-hot: write one 1 among zeros"},
		{"a class out of range", good + "|labels 2:1 |features 1 2 3",
			"DIR/t.txt:2: stream 'labels': index 2 is not from 0 to 1 (2 classes)"},
		{"mixed dense and sparse", good + "|labels 0 1 |features 0:1 2",
			"DIR/t.txt:2: stream 'features': '2' is not index:value (reader.featureShape is [1 1 3])"},
		{"sparse labels without a number of classes", "|labels 1:1 |features 1 2 3",
			"DIR/t.txt:1: stream 'labels': '1:1' does not tell the number of classes: set reader.numClasses"},
		{"a missing stream", good + "|label 0 1 |features 1 2 3",
			"DIR/t.txt:2: no stream 'labels' in '|label 0 1 |features 1 2 3': add it, or set reader.featureStream and reader.labelStream"},
		{"a stream twice", good + "|labels 0 1 |features 1 2 3 |features 1 2 3",
			"DIR/t.txt:2: stream 'features' comes twice"},
		{"no bar", good + "0 1 1 2 3",
			"DIR/t.txt:2: no stream in '0 1 1 2 3': write |labels and |features with their values"},
		{"a word before the bar", good + "x |labels 0 1 |features 1 2 3",
			"DIR/t.txt:2: 'x' before the first bar is not a number"},
		{"a sequence", "7 " + good + "7 |labels 0 1 |features 1 2 3",
			"DIR/t.txt:2: sequence 7 has a second line: a sample is one line, give each its own number or none"},
		{"nothing", "\n", "DIR/t.txt: no samples in it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "t.txt")
			write(t, path, []byte(test.content))
			_, err := Open(ctfConfig(path), Train)
			fails(t, err, dir, test.want)
		})
	}
	cfg := ctfConfig("")
	cfg.FeatureShape = []int{3}
	_, err := Open(cfg, Train)
	fails(t, err, "", "reader.featureShape: [3]: set it to [channels, height, width] of a sample")
	_, err = Open(ctfConfig(""), Test)
	fails(t, err, "", "reader.testPath is missing: set it to a file in CNTK's text format")
}

func TestNumbersAreNoPictures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.txt")
	write(t, path, []byte("|labels 0 1 |features 1 2 3\n"))
	for _, test := range []struct {
		f    configs.Transform
		want string
	}{
		{configs.Transform{Kind: "scale", Width: 2, Height: 2},
			"reader.transforms[0].scale: samples of a text file cannot be scaled"},
		{configs.Transform{Kind: "crop", CropType: "center", SideRatio: [2]float64{0.5, 0.5}},
			"reader.transforms[0].crop: center: samples of a text file are cropped with padding only"},
		{configs.Transform{Kind: "color", Color: "rgb"},
			"reader.transforms[0].color: samples of 1 channels of numbers have no rule that makes them rgb"},
	} {
		cfg := ctfConfig(path)
		cfg.Transforms = []configs.Transform{test.f}
		_, err := Open(cfg, Train)
		fails(t, err, "", test.want)
	}
}

func FuzzCNTKText(f *testing.F) {
	f.Add([]byte("|labels 0 1 |features 1 2 3\n"))
	f.Add([]byte("1 |labels 1:1 |# a #| b |features 0:1\r\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		s, err := (&ctf{path: "t", features: "features", labels: "labels", shape: []int{1, 1, 3}, classes: 2}).parse(content)
		if err == nil && (len(s.values) != 3*len(s.labels) || slices.Min(s.labels) < 0 || slices.Max(s.labels) > 1) {
			t.Errorf("%d values, labels %v", len(s.values), s.labels)
		}
	})
}
