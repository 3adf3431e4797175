package synthetic_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gotrain/configs"
	"gotrain/internal/synthetic"
	"gotrain/readers"
)

func TestTheReadersTakeWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	if err := synthetic.CIFAR10(filepath.Join(dir, "cifar"), 20); err != nil {
		t.Fatal(err)
	}
	if err := synthetic.Images(filepath.Join(dir, "images"), []string{"cat", "dog"}, 3, 40); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reader           configs.Reader
		samples, classes int
	}{
		{configs.Reader{Type: "cifar10", Path: filepath.Join(dir, "cifar")}, 100, 10},
		{configs.Reader{Type: "images", Path: filepath.Join(dir, "images"), OnError: "fail"}, 6, 2},
	} {
		ds, err := readers.Open(c.reader, readers.Train)
		if err != nil {
			t.Errorf("%s: %v", c.reader.Type, err)
			continue
		}
		if ds.Len() != c.samples || len(ds.Classes()) != c.classes {
			t.Errorf("%s: %d samples in %d classes, want %d in %d", c.reader.Type, ds.Len(), len(ds.Classes()), c.samples, c.classes)
		}
		ds.Close()
	}
}

func TestEqualArgumentsGiveEqualBytes(t *testing.T) {
	dir := t.TempDir()
	var first []byte
	for _, name := range []string{"a", "b"} {
		if err := synthetic.CIFAR10(filepath.Join(dir, name), 5); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, name, "data_batch_3.bin"))
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, b) {
			t.Error("two sets differ")
		}
		first = b
	}
}
