package readers

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotrain/configs"
)

func idxFileOf(magic uint32, values []byte, dims ...uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, magic)
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, values...)
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// idxFolder writes two training and one test picture of 2x3 pixels.
func idxFolder(t *testing.T) string {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "train-images-idx3-ubyte.gz"),
		gzipped(t, idxFileOf(0x803, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 2, 2, 3)))
	write(t, filepath.Join(dir, "train-labels-idx1-ubyte.gz"), gzipped(t, idxFileOf(0x801, []byte{4, 2}, 2)))
	write(t, filepath.Join(dir, "t10k-images.idx3-ubyte"), idxFileOf(0x803, []byte{1, 2, 3, 4, 5, 7}, 1, 2, 3))
	write(t, filepath.Join(dir, "t10k-labels.idx1-ubyte"), idxFileOf(0x801, []byte{1}, 1))
	return dir
}

func TestIDX(t *testing.T) {
	dir := idxFolder(t)
	train := open(t, configs.Reader{Type: "idx", Path: dir}, Train)
	test := open(t, configs.Reader{Type: "idx", Path: dir}, Test)
	b := get(t, train, Sample{Index: 1})
	if !slices.Equal(b.Images, []float32{7, 8, 9, 10, 11, 12}) || b.Labels[0] != 2 {
		t.Errorf("%v, label %d", b.Images, b.Labels[0])
	}
	if c, h, w := train.Shape(); c != 1 || h != 2 || w != 3 {
		t.Errorf("shape %d, %d, %d", c, h, w)
	}
	if got := get(t, test, Sample{Index: 0}).Images[5]; got != 7 {
		t.Errorf("test pixel %v, want 7", got)
	}
	// The test set's only label is 1: the training set says how many classes there are.
	if len(train.Classes()) != 5 || len(test.Classes()) != 5 {
		t.Errorf("%d and %d classes, want 5", len(train.Classes()), len(test.Classes()))
	}
}

func TestIDXOfColorPicturesKeepsChannelsTogether(t *testing.T) {
	dir := t.TempDir()
	images, labels := filepath.Join(dir, "pictures"), filepath.Join(dir, "labels")
	write(t, images, idxFileOf(0x804, []byte{1, 10, 100, 2, 20, 200}, 1, 1, 2, 3))
	write(t, labels, idxFileOf(0x801, []byte{0}, 1))
	ds := open(t, configs.Reader{Type: "idx", TrainImages: images, TrainLabels: labels}, Train)
	if got := get(t, ds, Sample{}).Images; !slices.Equal(got, []float32{1, 2, 10, 20, 100, 200}) {
		t.Errorf("%v", got)
	}
}

func TestIDXThatDoesNotFit(t *testing.T) {
	good := idxFileOf(0x803, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 2, 2, 3)
	packed := gzipped(t, good)
	damaged := slices.Clone(packed)
	damaged[len(damaged)-5] ^= 1
	tests := []struct {
		name           string
		images, labels []byte
		want           string
	}{
		{"wrong magic", idxFileOf(0x801, nil, 2), nil,
			"DIR/train-images-idx3-ubyte.gz: magic number 0x00000801, 0x00000803 or 0x00000804 expected: " +
				"not an IDX file of the kind that is wanted here"},
		{"numbers of another type", idxFileOf(0xd03, nil, 2), nil,
			"DIR/train-images-idx3-ubyte.gz: magic number 0x00000d03, 0x00000803 or 0x00000804 expected: " +
				"not an IDX file of the kind that is wanted here"},
		{"pictures for labels", good, good,
			"DIR/train-labels-idx1-ubyte.gz: magic number 0x00000803, 0x00000801 expected: " +
				"not an IDX file of the kind that is wanted here"},
		{"truncated gzip", packed[:len(packed)-9], nil,
			"DIR/train-images-idx3-ubyte.gz: the gzip file is truncated, after 28 bytes of content: fetch it again"},
		{"gzip that ends in its header", packed[:5], nil,
			"DIR/train-images-idx3-ubyte.gz: the gzip file is truncated, after 5 bytes of content: fetch it again"},
		{"gzip with a wrong checksum", damaged, nil,
			"DIR/train-images-idx3-ubyte.gz: gzip: invalid checksum: the file is damaged, fetch it again"},
		{"a byte short", good[:len(good)-1], nil,
			"DIR/train-images-idx3-ubyte.gz: record 2 of 2 ends early: 11 bytes of values, 12 expected: fetch the file again"},
		{"a byte long", append(slices.Clone(good), 0), nil,
			"DIR/train-images-idx3-ubyte.gz: 13 bytes of values, 12 expected for 2 records: fetch the file again"},
		{"nothing", []byte{}, nil,
			"DIR/train-images-idx3-ubyte.gz: 0 bytes are too few for an IDX file: fetch it again"},
		{"no pictures", idxFileOf(0x803, nil, 0, 2, 3), nil,
			"DIR/train-images-idx3-ubyte.gz: dimension 1 is 0: the header is damaged, fetch the file again"},
		{"a header that promises too much", idxFileOf(0x803, nil, 1<<31, 1<<31, 1<<31), nil,
			"DIR/train-images-idx3-ubyte.gz: dimension 2 is 2147483648: the header is damaged, fetch the file again"},
		{"a header that ends", idxFileOf(0x803, nil, 2, 2), nil,
			"DIR/train-images-idx3-ubyte.gz: the header is cut short: fetch the file again"},
		{"more labels than pictures", good, idxFileOf(0x801, []byte{1, 2, 3}, 3),
			"DIR/train-labels-idx1-ubyte.gz: 3 labels, but DIR/train-images-idx3-ubyte.gz has 2 pictures: " +
				"the files belong to different sets"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := idxFolder(t)
			write(t, filepath.Join(dir, "train-images-idx3-ubyte.gz"), test.images)
			if test.labels != nil {
				write(t, filepath.Join(dir, "train-labels-idx1-ubyte.gz"), test.labels)
			}
			_, err := Open(configs.Reader{Type: "idx", Path: dir}, Train)
			fails(t, err, dir, test.want)
		})
	}
}

func TestIDXSettingsThatDoNotFit(t *testing.T) {
	dir := idxFolder(t)
	_, err := Open(configs.Reader{Type: "idx", Path: dir, NumClasses: 3}, Train)
	fails(t, err, dir, "DIR/train-labels-idx1-ubyte.gz: record 1: label 4 is not from 0 to 2")
	_, err = Open(configs.Reader{Type: "idx"}, Train)
	fails(t, err, "", "reader.path is missing: set it to a folder with MNIST's file names, or set reader.trainImages")
	_, err = Open(configs.Reader{Type: "idx", Path: filepath.Join(dir, "no")}, Train)
	fails(t, err, dir, "reader.path: DIR/no: not there: reader.path takes a folder with MNIST's file names")
	if err := os.Remove(filepath.Join(dir, "t10k-labels.idx1-ubyte")); err != nil {
		t.Fatal(err)
	}
	_, err = Open(configs.Reader{Type: "idx", Path: dir}, Test)
	fails(t, err, dir, "reader.path: DIR: no t10k-labels-idx1-ubyte, with or without .gz: put it there or set reader.testLabels")
	_, err = Open(configs.Reader{Type: "idx", TrainImages: filepath.Join(dir, "x")}, Train)
	fails(t, err, dir, "reader.trainImages: DIR/x: not there: reader.trainImages takes an IDX file")
}

func TestEmbeddedSet(t *testing.T) {
	for split, perClass := range map[Split]int{Train: 600, Test: 100} {
		d := open(t, configs.Reader{Type: "embedded"}, split).Describe()
		if d.C != 1 || d.H != 28 || d.W != 28 || len(d.Classes) != 10 || len(d.Notes) > 0 {
			t.Errorf("%v", d)
		}
		for i, n := range d.PerClass {
			if n != perClass {
				t.Errorf("%s: %d of %s, want %d", split, n, d.Classes[i], perClass)
			}
		}
	}
}

func TestEmbeddedSetIsPartOfFashionMNIST(t *testing.T) {
	dir := os.Getenv("GOTRAIN_FASHION")
	if dir == "" {
		t.Skip("GOTRAIN_FASHION does not name a folder with Fashion-MNIST's IDX files")
	}
	for _, split := range []Split{Train, Test} {
		whole := open(t, configs.Reader{Type: "idx", Path: dir}, split).(*dataset)
		part := open(t, configs.Reader{Type: "embedded"}, split).(*dataset)
		const size = 28 * 28
		next := 0
		for i := range part.labels {
			picture := part.pixels[i*size : (i+1)*size]
			for !bytes.Equal(picture, whole.pixels[next*size:(next+1)*size]) || part.labels[i] != whole.labels[next] {
				if next++; next == whole.Len() {
					t.Fatalf("%s: picture %d is not in the whole set, in its order", split, i)
				}
			}
		}
	}
}

func FuzzIDX(f *testing.F) {
	f.Add(idxFileOf(0x803, []byte{1, 2, 3, 4}, 1, 2, 2))
	f.Add(idxFileOf(0x801, []byte{1, 2}, 2))
	f.Fuzz(func(t *testing.T, content []byte) {
		parsed, err := parseIDX(content, idxLabels, idxGray, idxColor)
		if err != nil {
			return
		}
		n := 1
		for _, d := range parsed.dims {
			n *= d
		}
		if n != len(parsed.values) {
			t.Errorf("dimensions %v, %d values", parsed.dims, len(parsed.values))
		}
	})
}
