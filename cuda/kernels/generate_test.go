package kernels_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/cuda/kernels"
)

// Half a minute on two cores: not with -short.
func TestCommittedPTXIsWhatClangMakesOfTheSources(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles all kernels")
	}
	clang := os.Getenv("CLANG")
	if clang == "" {
		clang = "clang-19"
	}
	if _, err := exec.LookPath(clang); err != nil {
		t.Skipf("%s is not installed: apt-get install clang-19, or let CLANG name a clang of version 19", clang)
	}
	sources, _ := filepath.Glob("*.cu")
	all := map[string][]byte{}
	for _, s := range kernels.Sources() {
		all[s.Name] = s.PTX
	}
	if len(sources) != len(all) {
		t.Errorf("%d sources and %d files of PTX", len(sources), len(all))
	}
	for _, s := range sources {
		t.Run(s, func(t *testing.T) {
			folder := t.TempDir()
			c := exec.Command("./generate.sh", s)
			c.Env = append(os.Environ(), "OUT="+folder)
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			name := strings.TrimSuffix(s, ".cu") + ".ptx"
			got, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, all[name]) {
				t.Errorf("%s is another file: go generate ./cuda/kernels", name)
			}
		})
	}
}
