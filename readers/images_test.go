package readers

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotrain/configs"
)

// pngOf returns a PNG of w x h pixels of one color.
func pngOf(t *testing.T, w, h int, c color.Color) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		m.Set(i%w, i/w, c)
	}
	return encoded(t, m)
}

func encoded(t *testing.T, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t *testing.T, w, h int, c color.Color) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		m.Set(i%w, i/w, c)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var red, green = color.RGBA{200, 0, 0, 255}, color.RGBA{0, 200, 0, 255}

func TestFolderOfClasses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "train/cat/2.png"), pngOf(t, 2, 2, red))
	write(t, filepath.Join(dir, "train/cat/10.JPEG"), jpegOf(t, 2, 2, red))
	write(t, filepath.Join(dir, "train/ant bear/x y.png"), pngOf(t, 2, 2, green))
	write(t, filepath.Join(dir, "train/cat/Thumbs.db"), []byte("x"))
	write(t, filepath.Join(dir, "train/.hidden/x.png"), nil)
	write(t, filepath.Join(dir, "train/notes.txt"), []byte("x"))
	write(t, filepath.Join(dir, "test/cat/1.png"), pngOf(t, 2, 2, red))
	cfg := configs.Reader{Type: "images", Path: dir}
	train, test := open(t, cfg, Train), open(t, cfg, Test)
	want := []string{"ant bear", "cat"}
	if !slices.Equal(train.Classes(), want) || !slices.Equal(test.Classes(), want) {
		t.Errorf("classes %q and %q, want %q", train.Classes(), test.Classes(), want)
	}
	b := get(t, train, Sample{Index: 0}, Sample{Index: 1}, Sample{Index: 2})
	if !slices.Equal(b.Labels, []int32{0, 1, 1}) {
		t.Errorf("labels %v", b.Labels)
	}
	if !slices.Equal(b.Images[:12], []float32{0, 0, 0, 0, 200, 200, 200, 200, 0, 0, 0, 0}) {
		t.Errorf("picture %v", b.Images[:12])
	}
	if r := b.Images[12]; r < 198 || r > 202 {
		t.Errorf("red of the JPEG file %v, want about 200", r)
	}
	if got := get(t, test, Sample{Index: 0}); got.Labels[0] != 1 {
		t.Errorf("test label %d, want 1", got.Labels[0])
	}
	d := strings.ReplaceAll(train.Describe().String(), dir, "DIR")
	if want := "train: 3 samples of shape 3x2x2 in 2 classes, from DIR/train\n  ant bear 1, cat 2\n" +
		"  note: DIR/train: 1 files that are neither .jpg, .jpeg nor .png are not used\n"; d != want {
		t.Errorf("got\n%s\nwant\n%s", d, want)
	}
}

func TestFolderThatDoesNotFit(t *testing.T) {
	tests := []struct {
		name  string
		files map[string][]byte
		split Split
		want  string
	}{
		{"an empty class folder", map[string][]byte{"train/a/1.png": pngOf(t, 2, 2, red), "train/b/readme.txt": nil, "test/a/1.png": nil}, Train,
			"DIR/train/b: a class without pictures: put .jpg, .jpeg or .png files there or remove the folder"},
		{"no classes", map[string][]byte{"1.png": nil}, Train,
			"DIR: no folders in it: put the pictures of each class into a folder of its own"},
		{"a class of the test half only", map[string][]byte{"train/a/1.png": nil, "test/a/1.png": nil, "test/b/1.png": nil}, Test,
			"DIR/test/b: no such class in DIR/train: remove the folder or add it there\n" +
				"DIR/test/b: a class without pictures: put .jpg, .jpeg or .png files there or remove the folder"},
		{"no test half", map[string][]byte{"a/1.png": nil}, Test,
			"reader.testPath is missing: set it to a map file or a folder with one folder a class"},
		{"pictures of several sizes", map[string][]byte{"a/1.png": pngOf(t, 2, 2, red), "a/2.png": pngOf(t, 3, 2, red)}, Train,
			"DIR/a/2.png: a picture of 3x2 pixels where 2x2 are expected: add {scale: {width: W, height: H}} to reader.transforms"},
		{"files that are no pictures", map[string][]byte{"a/1.png": []byte("GIF89a"), "a/2.png": nil}, Train,
			"DIR/a/1.png: neither JPEG nor PNG: mend or remove it, or set reader.onError: skip\n" +
				"DIR/a/2.png: neither JPEG nor PNG: mend or remove it, or set reader.onError: skip"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range test.files {
				write(t, filepath.Join(dir, name), content)
			}
			if test.name == "a class of the test half only" {
				if err := os.Remove(filepath.Join(dir, "test/b/1.png")); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Open(configs.Reader{Type: "images", Path: dir}, test.split)
			fails(t, err, dir, test.want)
		})
	}
}

func TestMapFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pictures/a b.png"), pngOf(t, 2, 2, red))
	write(t, filepath.Join(dir, "c.png"), pngOf(t, 2, 2, green))
	write(t, filepath.Join(dir, "train.txt"), []byte("\xef\xbb\xbfpictures/a b.png\t3\r\n\r\n"+filepath.Join(dir, "c.png")+"\t0\r\n"))
	write(t, filepath.Join(dir, "test.txt"), []byte("c.png\t1"))
	cfg := configs.Reader{Type: "images", Path: filepath.Join(dir, "train.txt"), TestPath: filepath.Join(dir, "test.txt")}
	train, test := open(t, cfg, Train), open(t, cfg, Test)
	if len(train.Classes()) != 4 || len(test.Classes()) != 4 {
		t.Errorf("%d and %d classes, want 4", len(train.Classes()), len(test.Classes()))
	}
	b := get(t, train, Sample{Index: 0}, Sample{Index: 1})
	if !slices.Equal(b.Labels, []int32{3, 0}) || b.Images[0] != 200 || b.Images[12] != 0 || b.Images[16] != 200 {
		t.Errorf("labels %v, pictures %v", b.Labels, b.Images)
	}
	cfg.TestPath = ""
	_, err := Open(cfg, Test)
	fails(t, err, dir, "reader.testPath is missing: set it to a map file or a folder with one folder a class")
}

func TestMapFileThatDoesNotFit(t *testing.T) {
	tests := []struct {
		name, content string
		classes       int
		want          string
	}{
		{"a line without label", "a.png\t0\na.png\n", 0,
			"DIR/map.txt:2: no label in \"a.png\": write the path, a tab and the number of the class"},
		{"a blank for a tab", "a.png 0\n", 0,
			"DIR/map.txt:1: no label in \"a.png 0\": write the path, a tab and the number of the class"},
		{"a label that is no number", "a.png\tcat\n", 10,
			"DIR/map.txt:1: label 'cat' is not an integer from 0 to 9"},
		{"labels out of range, with CRLF", "\r\na.png\t10\r\na.png\t-1\r\n", 10,
			"DIR/map.txt:2: label '10' is not an integer from 0 to 9\nDIR/map.txt:3: label '-1' is not an integer from 0 to 9"},
		{"a label below zero", "a.png\t-1\n", 0,
			"DIR/map.txt:1: label '-1' is not an integer from 0"},
		{"no path", "\t1\n", 0,
			"DIR/map.txt:1: no path in \"\\t1\": write the path, a tab and the number of the class"},
		{"a missing file with spaces in its name", "a.png\t0\nb c.png\t1\n", 0,
			"DIR/map.txt:2: DIR/b c.png: no such file or directory: correct the path, which is relative to the map, or remove the line"},
		{"a folder for a file", "sub\t0\n", 0,
			"DIR/map.txt:1: DIR/sub: a folder, not a picture: mend or remove it, or set reader.onError: skip"},
		{"nothing", "\n\n", 0,
			"DIR/map.txt: no pictures in it: write a path, a tab and the number of a class on each line"},
		{"another encoding", "\xff\xfea\x00", 0,
			"DIR/map.txt: not UTF-8: save the map as UTF-8 text"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.png"), pngOf(t, 2, 2, red))
			write(t, filepath.Join(dir, "sub/x"), nil)
			path := filepath.Join(dir, "map.txt")
			write(t, path, []byte(test.content))
			_, err := Open(configs.Reader{Type: "images", Path: path, NumClasses: test.classes}, Train)
			fails(t, err, dir, test.want)
		})
	}
}

func TestManyProblemsAreShortened(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "map.txt")
	write(t, path, []byte(strings.Repeat("x\n", 33)))
	_, err := Open(configs.Reader{Type: "images", Path: path}, Train)
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 21 || lines[20] != "and 13 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestLabelsOfTheTestMapAreClassesOfTheTrainingMap(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.png"), pngOf(t, 2, 2, red))
	write(t, filepath.Join(dir, "train.txt"), []byte("a.png\t2\n"))
	write(t, filepath.Join(dir, "test.txt"), []byte("a.png\t2\na.png\t3\n"))
	_, err := Open(configs.Reader{Type: "images", Path: filepath.Join(dir, "train.txt"), TestPath: filepath.Join(dir, "test.txt")}, Test)
	fails(t, err, dir, "DIR/test.txt:2: label 3 is not an integer from 0 to 2, the greatest of DIR/train.txt")
}

func TestExpectedShape(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a/1.png"), pngOf(t, 4, 3, red))
	scale := configs.Transform{Kind: "scale", Width: 8, Height: 6}
	cfg := configs.Reader{Type: "images", Path: dir, Channels: 1, Width: 8, Height: 6, Transforms: []configs.Transform{scale}}
	if c, h, w := open(t, cfg, Train).Shape(); c != 1 || h != 6 || w != 8 {
		t.Errorf("shape %d, %d, %d", c, h, w)
	}
	cfg.Width = 7
	_, err := Open(cfg, Train)
	fails(t, err, dir, "reader.width: 7, but after the transforms samples have 8: change it or the transforms")
	cfg.Transforms = nil
	_, err = Open(cfg, Train)
	fails(t, err, dir, "DIR/a/1.png: a picture of 4x3 pixels where 7x6 are expected: "+
		"add {scale: {width: W, height: H}} to reader.transforms")
}

func TestTruncatedJPEG(t *testing.T) {
	dir := t.TempDir()
	whole := jpegOf(t, 32, 32, red)
	write(t, filepath.Join(dir, "a/1.jpg"), whole)
	write(t, filepath.Join(dir, "a/2.jpg"), whole[:len(whole)-20])
	write(t, filepath.Join(dir, "a/3.jpg"), whole)
	write(t, filepath.Join(dir, "b/1.jpg"), whole[:len(whole)-20])
	plan := []Sample{{Index: 0}, {Index: 1}, {Index: 2}, {Index: 3}}

	ds := open(t, configs.Reader{Type: "images", Path: dir, OnError: "fail"}, Train)
	b := newBatch(ds, 4)
	fails(t, ds.Fill(plan, &b), dir,
		"DIR/a/2.jpg: decode a picture of 32x32 pixels: the file ends too early: mend or remove it, or set reader.onError: skip")

	var log []string
	onSkip := OnSkip(func(err error) { log = append(log, strings.ReplaceAll(err.Error(), dir, "DIR")) })
	ds = open(t, configs.Reader{Type: "images", Path: dir, OnError: "skip", MaxSkipped: 2}, Train, onSkip)
	for range 2 { // the second time nothing is counted or logged again
		b = get(t, ds, plan...)
		if !slices.Equal(b.Weights, []float32{1, 0, 1, 0}) || !slices.Equal(b.Labels, []int32{0, 0, 0, 1}) {
			t.Errorf("weights %v, labels %v", b.Weights, b.Labels)
		}
		if b.Images[0] == 0 || b.Images[3*1024] != 0 || b.Images[2*3*1024] == 0 {
			t.Error("pictures are not in their places")
		}
	}
	if want := []string{"DIR/a/2.jpg: decode a picture of 32x32 pixels: the file ends too early",
		"DIR/b/1.jpg: decode a picture of 32x32 pixels: the file ends too early"}; !slices.Equal(log, want) {
		t.Errorf("log %q, want %q", log, want)
	}

	ds = open(t, configs.Reader{Type: "images", Path: dir, OnError: "skip", MaxSkipped: 1}, Train)
	fails(t, ds.Fill(plan, &b), dir, "DIR/b/1.jpg: decode a picture of 32x32 pixels: the file ends too early: "+
		"2 records are skipped, reader.maxSkipped allows 1")
}

func TestFileThatIsNoPictureCanBeSkipped(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a/1.jpg"), []byte("not a picture"))
	write(t, filepath.Join(dir, "a/2.png"), pngOf(t, 2, 2, red))
	cfg := configs.Reader{Type: "images", Path: dir, OnError: "skip", MaxSkipped: 1}
	b := get(t, open(t, cfg, Train), Sample{Index: 0}, Sample{Index: 1})
	if !slices.Equal(b.Weights, []float32{0, 1}) || b.Images[0] != 0 || b.Images[12] != 200 {
		t.Errorf("weights %v, pictures %v", b.Weights, b.Images)
	}
	write(t, filepath.Join(dir, "a/2.png"), []byte("neither"))
	_, err := Open(cfg, Train)
	fails(t, err, dir, "DIR: none of 2 pictures can be read")
}

func TestFingerprintOfPicturesIsThatOfTheirNamesAndSizes(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		write(t, filepath.Join(dir, "a/1.png"), pngOf(t, 2, 2, red))
	}
	a := open(t, configs.Reader{Type: "images", Path: first}, Train).Fingerprint()
	if a != open(t, configs.Reader{Type: "images", Path: second}, Train).Fingerprint() {
		t.Error("another place, another fingerprint")
	}
	write(t, filepath.Join(second, "a/1.png"), append(pngOf(t, 2, 2, red), 0))
	if a == open(t, configs.Reader{Type: "images", Path: second}, Train).Fingerprint() {
		t.Error("another size, the same fingerprint")
	}
}

func TestNoTruncationOfAPictureIsSilent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1")
	for _, whole := range [][]byte{jpegOf(t, 16, 16, red), pngOf(t, 16, 16, red)} {
		for n := range whole {
			write(t, path, whole[:n])
			if _, err := decode(path, 3, &buffers{}); err == nil {
				t.Fatalf("the first %d of %d bytes are read as a picture", n, len(whole))
			}
		}
	}
}

func TestSkippedRecordKeepsItsPlaceInTheMinibatch(t *testing.T) {
	dir := t.TempDir()
	whole := jpegOf(t, 8, 8, red)
	for _, name := range []string{"1", "2", "3", "4"} {
		write(t, filepath.Join(dir, "a", name+".jpg"), whole)
	}
	truncate(t, filepath.Join(dir, "a/3.jpg"), int64(len(whole)-20))
	ds := open(t, configs.Reader{Type: "images", Path: dir, OnError: "skip", MaxSkipped: 1}, Train)
	l, err := NewLoader(ds, LoaderConfig{MinibatchSize: 4, Prefetch: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.N != 4 || m.Divisor != 4 || !slices.Equal(m.Weights, []float32{1, 1, 0, 1}) {
		t.Errorf("%d samples, divisor %v, weights %v: the divisor stays the planned count", m.N, m.Divisor, m.Weights)
	}
}

// The binary files were made from these pictures, so that both readers must give the same set of samples.
func TestPicturesAndBinaryFilesOfCIFAR10Agree(t *testing.T) {
	dir := os.Getenv("GOTRAIN_CIFAR10")
	if dir == "" {
		t.Skip("GOTRAIN_CIFAR10 does not name a folder with CIFAR-10's binary files")
	}
	folder := filepath.Join(filepath.Dir(dir), "jpeg")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("no folder jpeg beside GOTRAIN_CIFAR10, with the pictures that the binary files were made from")
	}
	pictures := open(t, configs.Reader{Type: "images", Path: folder}, Test)
	records := open(t, configs.Reader{Type: "cifar10", Path: dir}, Test).(*dataset)
	if !slices.Equal(pictures.Classes(), records.Classes()) || pictures.Len() != records.Len() {
		t.Fatalf("%d pictures of %q, %d records of %q", pictures.Len(), pictures.Classes(), records.Len(), records.Classes())
	}
	left := map[string]int{}
	for i, label := range records.labels {
		left[string(append(slices.Clone(records.pixels[i*cifarPixels:(i+1)*cifarPixels]), byte(label)))]++
	}
	for i := range pictures.Len() {
		b := get(t, pictures, Sample{Index: int32(i)})
		key := make([]byte, 0, cifarPixels+1)
		for _, v := range b.Images {
			key = append(key, byte(v))
		}
		key = append(key, byte(b.Labels[0]))
		if left[string(key)] == 0 {
			t.Fatalf("%s is no record of the binary file", pictures.(*dataset).files[i].path)
		}
		left[string(key)]--
	}
}

func BenchmarkJPEG(b *testing.B) {
	dir := b.TempDir()
	m := image.NewRGBA(image.Rect(0, 0, 500, 375))
	for i := range m.Pix {
		m.Pix[i] = byte(i * i >> 7)
	}
	var content bytes.Buffer
	if err := jpeg.Encode(&content, m, nil); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(dir, "1.jpg")
	if err := os.WriteFile(path, content.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
	s := &set{c: 3, labels: []int32{0}, classes: []string{"a"}, files: []file{{path: path}}}
	t, err := compile([]configs.Transform{
		{Kind: "crop", CropType: "randomSide", SideRatio: [2]float64{0.5, 1}},
		{Kind: "scale", Width: 224, Height: 224}, {Kind: "flip"}, {Kind: "normalize", Mean: []float64{120}, Std: []float64{60}},
	}, Train, s)
	if err != nil {
		b.Fatal(err)
	}
	ds := &dataset{set: s, t: t}
	batch := newBatch(ds, 16)
	n := 0
	for b.Loop() {
		plan := make([]Sample, 16)
		for i := range plan {
			plan[i] = ds.Plan(1, int64(n+i), 0)
		}
		if err := ds.Fill(plan, &batch); err != nil {
			b.Fatal(err)
		}
		n += 16
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "samples/s")
}
