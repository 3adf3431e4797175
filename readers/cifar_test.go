package readers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/configs"
)

func TestCIFAR10(t *testing.T) {
	dir := cifarFolder(t, 3)
	train := open(t, configs.Reader{Type: "cifar10", Path: dir}, Train)
	test := open(t, configs.Reader{Type: "cifar10", Path: dir}, Test)
	if train.Len() != 15 || test.Len() != 3 {
		t.Fatalf("%d and %d samples, want 15 and 3", train.Len(), test.Len())
	}
	if c, h, w := train.Shape(); c != 3 || h != 32 || w != 32 {
		t.Errorf("shape %d, %d, %d", c, h, w)
	}
	b := get(t, train, Sample{Index: 14}, Sample{Index: 2})
	if b.Labels[0] != 4 || b.Labels[1] != 2 || b.Weights[0] != 1 {
		t.Errorf("labels %v, weights %v", b.Labels, b.Weights)
	}
	for i := range cifarPixels {
		if b.Images[i] != float32(byte(7*14+i)) || b.Images[cifarPixels+i] != float32(byte(7*2+i)) {
			t.Fatalf("value %d: %v and %v", i, b.Images[i], b.Images[cifarPixels+i])
		}
	}
	if b := get(t, test, Sample{Index: 1}); b.Labels[0] != 6 || b.Images[0] != float32(byte(7*16)) {
		t.Errorf("test: label %d, first value %v", b.Labels[0], b.Images[0])
	}
	if train.Classes()[9] != "truck" {
		t.Errorf("classes %v", train.Classes())
	}
	if train.Fingerprint() == test.Fingerprint() {
		t.Error("two sets have one fingerprint")
	}
}

func TestCIFAR10ClassNamesComeFromTheFolder(t *testing.T) {
	dir := cifarFolder(t, 1)
	write(t, filepath.Join(dir, "batches.meta.txt"), []byte("a\nb\nc\nd\ne\nf\ng\nh\ni\nj k\r\n\n"))
	if got := open(t, configs.Reader{Type: "cifar10", Path: dir}, Test).Classes(); got[9] != "j k" || got[0] != "a" {
		t.Errorf("classes %q", got)
	}
	write(t, filepath.Join(dir, "batches.meta.txt"), []byte("a\nb\n"))
	_, err := Open(configs.Reader{Type: "cifar10", Path: dir}, Test)
	fails(t, err, dir, "DIR/batches.meta.txt: 2 names of classes, 10 expected: fetch the file again or remove it")
}

func TestCIFAR10ThatDoesNotFit(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string
	}{
		{"a file one byte short", func(t *testing.T, dir string) {
			truncate(t, filepath.Join(dir, "data_batch_3.bin"), 3*3073-1)
		}, "DIR/data_batch_3.bin: record 3 ends after 3072 of 3073 bytes: the file has 9218 bytes, 3 records take 9219: " +
			"fetch the file again"},
		{"an empty and a missing file", func(t *testing.T, dir string) {
			truncate(t, filepath.Join(dir, "data_batch_1.bin"), 0)
			if err := os.Remove(filepath.Join(dir, "data_batch_5.bin")); err != nil {
				t.Fatal(err)
			}
		}, "DIR/data_batch_1.bin: empty: fetch the file again\n" +
			"DIR/data_batch_5.bin: not there: cifar-10-batches-bin has data_batch_1.bin, data_batch_2.bin, " +
			"data_batch_3.bin, data_batch_4.bin, data_batch_5.bin"},
		{"a label out of range", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "data_batch_2.bin")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[2*3073] = 10
			write(t, path, b)
		}, "DIR/data_batch_2.bin: record 3: label 10 is not from 0 to 9: is this the file of another set?"},
		{"no folder", func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, "reader.path: DIR: not there: reader.path takes the folder cifar-10-batches-bin"},
		{"a file for a folder", func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			write(t, dir, []byte("x"))
		}, "reader.path: DIR: a file: set it to the folder cifar-10-batches-bin"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := cifarFolder(t, 3)
			test.damage(t, dir)
			_, err := Open(configs.Reader{Type: "cifar10", Path: dir}, Train)
			fails(t, err, dir, test.want)
		})
	}
	_, err := Open(configs.Reader{Type: "cifar10"}, Train)
	fails(t, err, "", "reader.path is missing: set it to the folder cifar-10-batches-bin")
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func TestCIFAR100(t *testing.T) {
	dir := t.TempDir()
	var b []byte
	for k := range 4 {
		b = append(b, byte(k), byte(90+k))
		for p := range cifarPixels {
			b = append(b, byte(k+p))
		}
	}
	write(t, filepath.Join(dir, "train.bin"), b)
	write(t, filepath.Join(dir, "test.bin"), b[:3074])
	write(t, filepath.Join(dir, "coarse_label_names.txt"), []byte(strings.Repeat("things\n", 20)))
	fine := open(t, configs.Reader{Type: "cifar100", Path: dir, LabelKind: "fine"}, Train)
	coarse := open(t, configs.Reader{Type: "cifar100", Path: dir, LabelKind: "coarse"}, Train)
	if fine.Len() != 4 || fine.Label(3) != 93 || coarse.Label(3) != 3 {
		t.Errorf("%d samples, fine %d, coarse %d", fine.Len(), fine.Label(3), coarse.Label(3))
	}
	if len(fine.Classes()) != 100 || fine.Classes()[7] != "7" || len(coarse.Classes()) != 20 || coarse.Classes()[7] != "things" {
		t.Errorf("classes %q and %q", fine.Classes(), coarse.Classes())
	}
	if got := get(t, fine, Sample{Index: 3}).Images[5]; got != 8 {
		t.Errorf("pixel %v, want 8", got)
	}
	if n := open(t, configs.Reader{Type: "cifar100", Path: dir}, Test).Len(); n != 1 {
		t.Errorf("%d test samples", n)
	}

	truncate(t, filepath.Join(dir, "train.bin"), 3*3074+1)
	_, err := Open(configs.Reader{Type: "cifar100", Path: dir}, Train)
	fails(t, err, dir, "DIR/train.bin: record 4 ends after 1 of 3074 bytes: the file has 9223 bytes, 4 records take 12296: "+
		"fetch the file again")
	_, err = Open(configs.Reader{Type: "cifar100", Path: dir, LabelKind: "middle"}, Train)
	fails(t, err, dir, `reader.labelKind: "middle": use fine (100 classes) or coarse (20)`)
}

func TestDescriptionSaysWhatTheSetHolds(t *testing.T) {
	dir := cifarFolder(t, 3)
	got := open(t, configs.Reader{Type: "cifar10", Path: dir}, Test).Describe().String()
	want := "test: 3 samples of shape 3x32x32 in 10 classes, from DIR\n" +
		"  airplane 0, automobile 0, bird 0, cat 0, deer 0, dog 1, frog 1, horse 1, ship 0, truck 0\n" +
		"  note: DIR/test_batch.bin: 3 records, usually 10000\n" +
		"  note: no sample of 7 of 10 classes: airplane, automobile, bird, cat, deer, ship, truck\n"
	if got := strings.ReplaceAll(got, dir, "DIR"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRealCIFAR10(t *testing.T) {
	dir := os.Getenv("GOTRAIN_CIFAR10")
	if dir == "" {
		t.Skip("GOTRAIN_CIFAR10 does not name a folder with CIFAR-10's binary files")
	}
	d := open(t, configs.Reader{Type: "cifar10", Path: dir, Transforms: cifarTransforms}, Train).Describe()
	for i, n := range d.PerClass {
		if n != 5000 {
			t.Errorf("%d of %s, want 5000", n, d.Classes[i])
		}
	}
	if len(d.Notes) > 0 {
		t.Errorf("notes %q", d.Notes)
	}
}
