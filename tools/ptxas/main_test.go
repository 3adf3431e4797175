package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gotrain/cuda/kernels"
)

const said = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'add_f32' for 'sm_80'
ptxas info    : Function properties for add_f32
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, used 0 barriers, 384 bytes cmem[0]
ptxas info    : Compiling entry function 'encode_1' for 'sm_80'
ptxas info    : Function properties for encode_1
    8 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 4096 bytes smem, 408 bytes cmem[0]
`

func TestReadsWhatTheAssemblerSays(t *testing.T) {
	uses := map[string]*usage{}
	read(said, uses)
	read(said, uses)
	want := "| kernel | registers, sm_80 / sm_90 | shared bytes | spilled bytes |\n|---|---|---:|---:|\n" +
		"| `add_f32` | 18 / 18 | 0 | 0 |\n| `encode_1` | 64 / 64 | 4096 | 32 |\n"
	all := []usage{*uses["add_f32"], *uses["encode_1"]}
	if got := table([]string{"sm_80", "sm_90"}, all); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	wantError := "registers spill in encode_1: see the table; bound the block (__launch_bounds__), or unroll less"
	if err := spilled(all); err == nil || err.Error() != wantError {
		t.Errorf("got %v, want %s", err, wantError)
	}
	if err := spilled(all[:1]); err != nil {
		t.Error(err)
	}
}

func TestEveryKernelHasALimit(t *testing.T) {
	var all []usage
	for _, s := range kernels.Sources() {
		for _, k := range s.Kernels {
			all = append(all, usage{kernel: k})
		}
	}
	if _, err := limits(all); err != nil {
		t.Error(err)
	}
	want := "tools/ptxas/limits.go says nothing of what bounds kernel strange"
	if _, err := limits([]usage{{kernel: "strange"}}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRewritesBetweenTheMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cuda.md")
	if err := os.WriteFile(path, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "before\n"+begin+"\nnew\n\n"+end+"after\n" {
		t.Errorf("got %s", got)
	}
	if err := os.WriteFile(path, []byte(begin), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(path, "new\n"); err == nil {
		t.Error("no error where a mark is missing")
	}
}

// Every family's kernels are those of the shipped table.
func TestTheTableNamesEveryKernel(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cuda.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range kernels.Sources() {
		for _, k := range s.Kernels {
			if !bytes.Contains(doc, []byte("| `"+k+"` |")) {
				t.Errorf("docs/cuda.md has no row for %s: make ptxas", k)
			}
		}
	}
}
