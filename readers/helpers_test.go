package readers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/configs"
	"gotrain/graph"
)

// cifarFolder writes a CIFAR-10 folder of 5*n training and n test records, whose pixels and labels follow from their
// number.
func cifarFolder(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	k := 0
	for _, name := range []string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"} {
		var b []byte
		for range n {
			b = append(b, byte(k%10))
			for p := range cifarPixels {
				b = append(b, byte(7*k+p))
			}
			k++
		}
		write(t, filepath.Join(dir, name+".bin"), b)
	}
	return dir
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, cfg configs.Reader, split Split, options ...Option) Dataset {
	t.Helper()
	ds, err := Open(cfg, split, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ds.Close() })
	return ds
}

// get fills a batch with a plan.
func get(t *testing.T, ds Dataset, plan ...Sample) graph.Batch {
	t.Helper()
	b := newBatch(ds, len(plan))
	if err := ds.Fill(plan, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func newBatch(ds Dataset, n int) graph.Batch {
	c, h, w := ds.Shape()
	return graph.Batch{N: n, Images: make([]float32, n*c*h*w), Labels: make([]int32, n), Weights: make([]float32, n)}
}

// fails checks that an error has exactly this text, in which DIR stands for a folder.
func fails(t *testing.T, err error, dir, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error\nwant %s", want)
	}
	got := err.Error()
	if dir != "" {
		got = strings.ReplaceAll(got, dir, "DIR")
	}
	if got != want {
		t.Errorf("error\n%s\nwant\n%s", got, want)
	}
}

var cifarTransforms = []configs.Transform{
	{Kind: "crop", CropType: "padded", Padding: 4},
	{Kind: "flip", Flip: "horizontal"},
	{Kind: "normalize", Mean: []float64{125.3, 123.0, 113.9}, Std: []float64{63.0, 62.1, 66.7}},
}
