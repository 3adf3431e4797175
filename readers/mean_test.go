package readers

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotrain/configs"
)

func meanFile(c, h, w int, values []float32) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprintf("%e", v)
	}
	return fmt.Sprintf(`<?xml version="1.0" ?>
<opencv_storage>
  <Channel>%d</Channel>
  <Row>%d</Row>
  <Col>%d</Col>
  <MeanImg type_id="opencv-matrix">
    <rows>1</rows>
    <cols>%d</cols>
    <dt>f</dt>
    <data>%s</data>
  </MeanImg>
</opencv_storage>`, c, h, w, len(values), strings.Join(words, " "))
}

func TestMeanFileInBothLayouts(t *testing.T) {
	planes := []float32{100, 101, 102, 103, 120, 121, 122, 123, 140, 141, 142, 143} // red, green, blue of 2x2 pixels
	pixels := []float32{140, 120, 100, 141, 121, 101, 142, 122, 102, 143, 123, 103} // blue first
	for note, values := range map[string][]float32{
		"DIR/m.xml holds planes: red, green, blue": planes,
		"DIR/m.xml holds pixels: blue, green, red": pixels,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "m.xml")
		write(t, path, []byte(meanFile(3, 2, 2, values)))
		got, said, err := readMean(path, 3, 2, 2)
		if err != nil {
			t.Fatal(err)
		}
		if said = strings.ReplaceAll(said, dir, "DIR"); said != note || !slices.Equal(got, planes) {
			t.Errorf("%q, %v; want %q, %v", said, got, note, planes)
		}
	}
}

func TestMeanFileIsSubtractedAndScaled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.xml")
	write(t, path, []byte(meanFile(1, 2, 2, []float32{1, 1, 1, 2})))
	got := transformed(t, numberSet(1, 2, 2), Train, Sample{X: 1, Flip: true},
		configs.Transform{Kind: "crop", CropType: "padded", Padding: 1},
		configs.Transform{Kind: "flip", Flip: "horizontal"},
		configs.Transform{Kind: "mean", File: path},
		configs.Transform{Kind: "normalize", Std: []float64{2}})
	// the picture 1 2 / 3 4, moved by one and flipped: 0 2 / 0 4
	if want := []float32{-0.5, 0.5, -0.5, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMeanFileThatDoesNotFit(t *testing.T) {
	tests := []struct{ name, content, want string }{
		{"other pictures", meanFile(3, 2, 2, make([]float32, 12)),
			"reader.transforms: mean: DIR/m.xml: a mean of 3 channels, 2 rows, 2 columns; samples have 1, 2, 3"},
		{"too few values", meanFile(1, 2, 3, make([]float32, 5)),
			"reader.transforms: mean: DIR/m.xml: 5 values, 6 expected"},
		{"a word", strings.Replace(meanFile(1, 2, 3, make([]float32, 6)), "0.000000e+00", "x", 1),
			`reader.transforms: mean: DIR/m.xml: value 1: "x" is not a number`},
		{"another file of OpenCV", "<opencv_storage><Channel>1</Channel></opencv_storage>",
			"reader.transforms: mean: DIR/m.xml: no <MeanImg>: not a mean file of CNTK"},
		{"another file", "<a/>",
			"reader.transforms: mean: DIR/m.xml: not a mean file of CNTK: expected element type <opencv_storage> but have <a>"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "m.xml")
			write(t, path, []byte(test.content))
			_, err := compile([]configs.Transform{{Kind: "mean", File: path}}, Train, numberSet(1, 2, 3))
			fails(t, err, dir, test.want)
		})
	}
}
