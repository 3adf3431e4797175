//go:build linux

package pipeline

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// tiny mounts a file system of 64 KiB, which only root may.
func tiny(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=65536"); err != nil {
		t.Skipf("mounting a tmpfs needs root's rights: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	return dir
}

func TestAFullFileSystemLeavesThePreviousCheckpoint(t *testing.T) {
	c := newCheckpoints(filepath.Join(tiny(t), "r"), 3)
	save(t, c, 10, "a")
	parts := append(partsOf("b"), Part{"residual.safetensors", func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<20))
		return err
	}})
	err := c.Save(20, parts)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	want := "saving the checkpoint of step 20 (that of step 10 still counts): writing " +
		filepath.Join(c.folder(20), "residual.safetensors") + ": no space left on device after "
	if got := err.Error(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " bytes: free some space there, or choose another outputDir") {
		t.Errorf("got  %s\nwant %s...", got, want)
	}
	if got, warnings := load(t, c); got != "a" || warnings != nil {
		t.Errorf("loaded %q, %q", got, warnings)
	}
	if got := folders(t, c); len(got) != 1 {
		t.Errorf("there are %q", got)
	}
	save(t, c, 20, "c")
}

func TestAReadOnlyFileSystemIsNamed(t *testing.T) {
	dir := tiny(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"a checkpoint": newCheckpoints(filepath.Join(dir, "r"), 3).WriteRunFile(jsonPart("model.safetensors", 1)),
		"a lock":       func() error { _, err := lockRun(filepath.Join(dir, "r")); return err }(),
	} {
		want := "writing " + filepath.Join(dir, "r") + ": read-only file system: make the folder writable, or choose another outputDir"
		if err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "r")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
}
