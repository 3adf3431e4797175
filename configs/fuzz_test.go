package configs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzLoad checks that no file and no argument makes Load panic or run for
// long, and that what loads can be printed and loaded again.
func FuzzLoad(f *testing.F) {
	for _, name := range Shipped() {
		text, _ := ShippedFile(name)
		f.Add(string(text), "learner.minibatchSize=3")
	}
	f.Add(good, "reader.transforms=[{crop: {padding: 4}}, {mean: {file: x}}]")
	f.Add("x: &a [*a, *a]\nreader: *a\nextends: [c.yaml, quickstart]\n", "vars={a: $b$, b: $a$}")
	f.Add(head+"learner: {maxEpochs: 1, learningRateSchedule: [{oneCycle: {peak: 1, epochs: 2}}]}\nname: \"a\\u2028\"\n", "outputDir=${X:-${Y:-$a$}}")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, arg string) {
		if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		c, err := Load("c.yaml", []string{arg}, WithDir(dir), WithHome("/home/u"), environment(map[string]string{"X": "$x$"}))
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
		if err == nil {
			again(t, c)
		}
	})
}
