package readers

import (
	"errors"
	"image"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotrain/configs"
)

func TestNumberOfClassesMustBeThatOfTheData(t *testing.T) {
	pictures := t.TempDir()
	write(t, filepath.Join(pictures, "a/1.png"), pngOf(t, 2, 2, red))
	hundred := t.TempDir()
	write(t, filepath.Join(hundred, "train.bin"), make([]byte, 2+cifarPixels))
	tests := []struct {
		cfg  configs.Reader
		want string
	}{
		{configs.Reader{Type: "embedded"}, "reader.numClasses: 7, but embedded has 10 classes: set it to 10 or auto"},
		{configs.Reader{Type: "cifar10", Path: cifarFolder(t, 1)}, "reader.numClasses: 7, but DIR has 10 classes: set it to 10 or auto"},
		{configs.Reader{Type: "cifar100", Path: hundred}, "reader.numClasses: 7, but DIR has 100 classes: set it to 100 or auto"},
		{configs.Reader{Type: "images", Path: pictures}, "reader.numClasses: 7, but DIR has 1 classes: set it to 1 or auto"},
	}
	for _, test := range tests {
		test.cfg.NumClasses = 7
		_, err := Open(test.cfg, Train)
		fails(t, err, test.cfg.Path, test.want)
		if !errors.As(err, new(configs.Errors)) {
			t.Errorf("%s: not an error of the configuration", test.cfg.Type)
		}
	}
	if n := len(open(t, configs.Reader{Type: "embedded", NumClasses: 10}, Train).Classes()); n != 10 {
		t.Errorf("%d classes, want 10", n)
	}
}

func TestCIFAR10FileCutBetweenRecords(t *testing.T) {
	dir := cifarFolder(t, 3)
	truncate(t, filepath.Join(dir, "data_batch_4.bin"), 10000*3073) // one of the usual size
	truncate(t, filepath.Join(dir, "test_batch.bin"), 9999*3073)
	_, err := Open(configs.Reader{Type: "cifar10", Path: dir}, Test)
	fails(t, err, dir, "DIR/test_batch.bin: 9999 records, 10000 expected: fetch the file again")
	_, err = Open(configs.Reader{Type: "cifar10", Path: dir}, Train)
	fails(t, err, dir, "DIR/data_batch_1.bin: 3 records, 10000 expected: fetch the file again\n"+
		"DIR/data_batch_2.bin: 3 records, 10000 expected: fetch the file again\n"+
		"DIR/data_batch_3.bin: 3 records, 10000 expected: fetch the file again\n"+
		"DIR/data_batch_5.bin: 3 records, 10000 expected: fetch the file again")
}

func pipe(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestPipesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "images/a/1.png"), pngOf(t, 2, 2, red))
	pipe(t, filepath.Join(dir, "images/a/2.png"))
	pipe(t, filepath.Join(dir, "p"))
	cifar := cifarFolder(t, 1)
	pipe(t, filepath.Join(cifar, "data_batch_1.bin"))
	if err := os.Remove(filepath.Join(cifar, "data_batch_2.bin")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(cifar, "data_batch_2.bin/x"), nil)
	p := filepath.Join(dir, "p")
	tests := []struct {
		cfg       configs.Reader
		dir, want string
	}{
		{configs.Reader{Type: "images", Path: filepath.Join(dir, "images")}, dir,
			"DIR/images/a/2.png: not a regular file: mend or remove it, or set reader.onError: skip"},
		{configs.Reader{Type: "images", Path: p}, dir,
			"reader.path: DIR/p: not a regular file: make it a file that can be read, or set reader.path to a map file"},
		{configs.Reader{Type: "ctf", Path: p, FeatureShape: []int{1, 1, 1}}, dir,
			"reader.path: DIR/p: not a regular file: make it a file that can be read, or set reader.path to a file in CNTK's text format"},
		{configs.Reader{Type: "idx", TrainImages: p, TrainLabels: p}, dir,
			"reader.trainImages: DIR/p: not a regular file: make it a file that can be read, or set reader.trainImages to an IDX file"},
		{configs.Reader{Type: "cifar10", Path: cifar}, cifar,
			"reader.path: DIR/data_batch_1.bin: not a regular file: make it a file that can be read, or set reader.path to the folder cifar-10-batches-bin\n" +
				"reader.path: DIR/data_batch_2.bin: a folder, not a file: make it a file that can be read, or set reader.path to the folder cifar-10-batches-bin"},
		{configs.Reader{Type: "embedded", Transforms: []configs.Transform{{Kind: "mean", File: p}}}, dir,
			"reader.transforms: mean: file: DIR/p: not a regular file: make it a file that can be read, or set file to CNTK's mean file"},
	}
	for _, test := range tests {
		_, err := Open(test.cfg, Train)
		fails(t, err, test.dir, test.want)
	}

	cfg := configs.Reader{Type: "images", Path: filepath.Join(dir, "images"), OnError: "skip", MaxSkipped: 1}
	if b := get(t, open(t, cfg, Train), Sample{Index: 0}, Sample{Index: 1}); b.Weights[0] != 1 || b.Weights[1] != 0 {
		t.Errorf("weights %v, want 1 and 0", b.Weights)
	}
}

func TestLinkToNothingInAClassFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a/1.png"), pngOf(t, 2, 2, red))
	if err := os.Symlink("gone.png", filepath.Join(dir, "a/2.png")); err != nil {
		t.Fatal(err)
	}
	_, err := Open(configs.Reader{Type: "images", Path: dir}, Train)
	fails(t, err, dir, "DIR/a/2.png: no such file or directory: a link to nothing: correct or remove it")
}

func TestFileThatMustNotBeRead(t *testing.T) {
	err := readable("reader.path", "/d", "a map file", &os.PathError{Op: "open", Path: "/d", Err: fs.ErrPermission})
	fails(t, err, "", "reader.path: /d: permission denied: make it a file that can be read, or set reader.path to a map file")
}

func TestGreatestLabelOfAMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.txt")
	write(t, path, []byte("a.png\t1048576\n"))
	_, err := Open(configs.Reader{Type: "images", Path: path}, Train)
	fails(t, err, filepath.Dir(path), "DIR/m.txt:1: label 1048576 is above 1048575, the greatest that can be used: number the classes from 0")
}

func TestFaultsOfTheConfigurationAreToldFromThoseOfTheData(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a/1.png"), encoded(t, image.NewGray(image.Rect(0, 0, 2, 2))))
	three := []configs.Transform{{Kind: "normalize", Mean: []float64{1, 2, 3}, Std: []float64{1}}}
	for _, test := range []struct {
		cfg   configs.Reader
		split Split
		want  string
	}{
		{configs.Reader{Type: "embedded", Transforms: three}, Train,
			"reader.transforms[0].normalize: 3 values of mean for 1 channels: give one, or one a channel"},
		{configs.Reader{Type: "images", Path: dir, Channels: 2}, Train, "reader.channels: 2: use 1 (gray) or 3 (color)"},
		{configs.Reader{Type: "images", Path: dir, Width: 4, Height: 4, Transforms: []configs.Transform{{Kind: "scale", Width: 2, Height: 4}}}, Train,
			"reader.width: 4, but after the transforms samples have 2: change it or the transforms"},
		{configs.Reader{Type: "images", Path: dir}, Test,
			"reader.testPath is missing: set it to a map file or a folder with one folder a class"},
	} {
		_, err := Open(test.cfg, test.split)
		fails(t, err, dir, test.want)
		if !errors.As(err, new(configs.Errors)) {
			t.Errorf("%s: not an error of the configuration", test.want)
		}
	}
}
