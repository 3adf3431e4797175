package readers

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotrain/configs"
	"gotrain/internal/synthetic"
)

func TestASetNamesTheFilesThatItWasMadeOf(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cifar := filepath.Join(dir, "cifar-10-batches-bin")
	for _, err := range []error{
		synthetic.CIFAR10(cifar, 10),
		synthetic.Images(filepath.Join(dir, "flowers", "train"), []string{"daisy", "rose"}, 2, 32),
		synthetic.Images(filepath.Join(dir, "flowers", "test"), []string{"daisy", "rose"}, 1, 32),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	pictures, err := filepath.Glob(filepath.Join(dir, "flowers", "train", "*", "*"))
	if err != nil || len(pictures) != 4 {
		t.Fatal(pictures, err)
	}
	batches, err := filepath.Glob(filepath.Join(cifar, "data_batch_*.bin"))
	if err != nil || len(batches) != 5 {
		t.Fatal(batches, err)
	}
	lines := write("lines.ctf", "|labels 1 0 |features 1\n|labels 0 1 |features 2\n")
	trainMap := write("train.map", pictures[0]+"\t0\n"+pictures[2]+"\t1\n")
	testMap := write("test.map", pictures[1]+"\t0\n")
	for _, c := range []struct {
		name  string
		cfg   configs.Reader
		split Split
		want  []string
	}{
		{"cifar10", configs.Reader{Type: "cifar10", Path: cifar}, Train, batches},
		{"cifar10, test", configs.Reader{Type: "cifar10", Path: cifar}, Test, []string{filepath.Join(cifar, "test_batch.bin")}},
		{"a folder of pictures", configs.Reader{Type: "images", Path: filepath.Join(dir, "flowers", "train")}, Train, pictures},
		{"a map", configs.Reader{Type: "images", Path: trainMap}, Train, []string{pictures[0], pictures[2], trainMap}},
		{"a map for testing", configs.Reader{Type: "images", Path: trainMap, TestPath: testMap}, Test, []string{pictures[1], testMap, trainMap}},
		{"ctf", configs.Reader{Type: "ctf", Path: lines, FeatureShape: []int{1, 1, 1}}, Train, []string{lines}},
		{"embedded", configs.Reader{Type: "embedded"}, Train, nil},
	} {
		ds, err := Open(c.cfg, c.split)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := slices.Sorted(slices.Values(c.want))
		if list := filepath.Join(cifar, "batches.meta.txt"); c.cfg.Type == "cifar10" {
			if _, err := os.Stat(list); err == nil {
				want = slices.Sorted(slices.Values(append(want, list)))
			}
		}
		if got := ds.Files(); !slices.Equal(got, want) {
			t.Errorf("%s: made of\n%q, want\n%q", c.name, got, want)
		}
		ds.Close()
	}
}
