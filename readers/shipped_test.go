package readers

import (
	"path/filepath"
	"testing"

	"gotrain/configs"
)

// The readers of the configurations that ship, on small sets in place of the real ones.
func TestReadersOfShippedConfigurations(t *testing.T) {
	cifar := cifarFolder(t, 1)
	idx := idxFolder(t)
	photos := t.TempDir()
	write(t, filepath.Join(photos, "train/a/1.jpg"), jpegOf(t, 300, 260, red))
	write(t, filepath.Join(photos, "val/a/1.jpg"), jpegOf(t, 260, 300, green))
	tests := []struct {
		name    string
		args    []string
		c, h, w int
	}{
		{"quickstart", nil, 1, 28, 28},
		{"resnet20_dense", []string{"reader.path=" + cifar}, 3, 32, 32},
		{"resnet20_1bit", []string{"reader.path=" + cifar}, 3, 32, 32},
		{"resnet110_dense", []string{"reader.path=" + cifar}, 3, 32, 32},
		{"resnet110_1bit", []string{"reader.path=" + cifar}, 3, 32, 32},
		{"resnet20_10epochs", []string{"reader.path=" + cifar}, 3, 32, 32},
		{"resnet20_fashion", []string{"reader.path=" + idx}, 1, 2, 3},
		{"resnet18_imagenet", []string{"vars.imagenetDir=" + photos}, 3, 224, 224},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg, err := configs.Load(test.name, test.args)
			if err != nil {
				t.Fatal(err)
			}
			for _, split := range []Split{Train, Test} {
				ds := open(t, cfg.Reader, split)
				if c, h, w := ds.Shape(); c != test.c || h != test.h || w != test.w {
					t.Errorf("%s: shape %d, %d, %d; want %d, %d, %d", split, c, h, w, test.c, test.h, test.w)
				}
				if b := get(t, ds, ds.Plan(cfg.Seed, 0, 0)); b.Weights[0] != 1 {
					t.Errorf("%s: weight %v", split, b.Weights[0])
				}
			}
		})
	}
}
