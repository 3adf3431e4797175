package pipeline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gorgonia.org/tensor"

	"gotrain/internal/safetensors"
)

// partsOf gives parts that name their step, so that a mixture of two checkpoints shows.
func partsOf(content string) []Part {
	part := func(name string) Part {
		return Part{name, func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat(content+" "+name+"\n", 3))
			return err
		}}
	}
	return []Part{part("model.safetensors"), part("optimizer.safetensors"), part("state.json")}
}

// content reads a checkpoint that partsOf made, and demands that it is one and whole.
func content(t *testing.T, c *Checkpoint) string {
	t.Helper()
	if c == nil {
		return ""
	}
	first := ""
	for _, part := range c.Parts {
		r, err := c.Open(part)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		name, rest, _ := strings.Cut(string(text), " "+part+"\n")
		if first == "" {
			first = name
		}
		if name != first || rest != strings.Repeat(name+" "+part+"\n", 2) {
			t.Fatalf("%s of %s has %q", part, c.Dir, text)
		}
	}
	return first
}

func save(t *testing.T, c *checkpoints, step int64, content string) {
	t.Helper()
	if err := c.Save(step, partsOf(content)); err != nil {
		t.Fatal(err)
	}
}

// load gives the content of the newest whole checkpoint, with the warnings as text.
func load(t *testing.T, c *checkpoints) (string, []string) {
	t.Helper()
	checkpoint, warnings, err := c.Load()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, w := range warnings {
		texts = append(texts, strings.TrimPrefix(w.String(), c.run+"/"))
	}
	return content(t, checkpoint), texts
}

func folders(t *testing.T, c *checkpoints) []string {
	t.Helper()
	names, err := c.files.List(c.root())
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestTheNewestCheckpointsAreKept(t *testing.T) {
	c := newCheckpoints(filepath.Join(t.TempDir(), "runs", "r"), 2)
	if got, warnings := load(t, c); got != "" || warnings != nil {
		t.Errorf("before the first save: %q, %q", got, warnings)
	}
	for step, content := range []string{"a", "b", "c", "d"} {
		save(t, c, int64(step)*5, content)
	}
	if got, warnings := load(t, c); got != "d" || warnings != nil {
		t.Errorf("loaded %q, %q", got, warnings)
	}
	if got := folders(t, c); !slices.Equal(got, []string{"000000000010", "000000000015"}) {
		t.Errorf("kept %q", got)
	}
	checkpoint, _, err := c.Load()
	if err != nil || checkpoint.Step != 15 || !slices.Equal(checkpoint.Parts, []string{"model.safetensors", "optimizer.safetensors", "state.json"}) {
		t.Errorf("loaded %+v, %v", checkpoint, err)
	}
	files, err := c.files.List(checkpoint.Dir)
	if want := []string{"manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("its files are %q, %v", files, err)
	}
}

func TestAStepSavedAgainReplacesItself(t *testing.T) {
	c := newCheckpoints(t.TempDir(), 3)
	save(t, c, 5, "a")
	save(t, c, 5, "b")
	if got, warnings := load(t, c); got != "b" || warnings != nil {
		t.Errorf("loaded %q, %q", got, warnings)
	}
	if got := folders(t, c); len(got) != 1 {
		t.Errorf("there are %q", got)
	}
}

func TestCheckpointsOfLaterStepsGo(t *testing.T) {
	c := newCheckpoints(t.TempDir(), 3)
	save(t, c, 10, "a")
	save(t, c, 20, "b")
	save(t, c, 15, "c")
	if got := folders(t, c); !slices.Equal(got, []string{"000000000010", "000000000015"}) {
		t.Errorf("there are %q", got)
	}
}

// edit changes a file of a checkpoint.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestABrokenCheckpointFallsBackToTheOneBefore(t *testing.T) {
	replace := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte { return []byte(strings.Replace(string(b), old, new, 1)) }
	}
	for _, c := range []struct {
		name, file string
		change     func([]byte) []byte // nil removes
		want       string
	}{
		{"a flipped byte", "model.safetensors", func(b []byte) []byte { b[7] ^= 1; return b },
			"checkpoints/000000000020/model.safetensors: has the SHA-256 18a5578f..., where the manifest says 4862055c...: " +
				"it has changed since it was written"},
		{"a byte short", "optimizer.safetensors", func(b []byte) []byte { return b[1:] },
			"checkpoints/000000000020/optimizer.safetensors: has 71 bytes, where the manifest says 72"},
		{"a missing part", "state.json", nil, "checkpoints/000000000020/state.json: is missing"},
		{"a missing manifest", "manifest.json", nil, "checkpoints/000000000020: has no manifest.json: it was not finished"},
		{"an empty manifest", "manifest.json", func([]byte) []byte { return nil }, "checkpoints/000000000020/manifest.json: is no manifest: EOF"},
		{"more after the manifest", "manifest.json", func(b []byte) []byte { return append(b, '}') },
			"checkpoints/000000000020/manifest.json: is no manifest: there is more after its end"},
		{"another key", "manifest.json", replace("step", "stop"),
			`checkpoints/000000000020/manifest.json: is no manifest: json: unknown field "stop"`},
		{"another step", "manifest.json", replace("20", "21"),
			"checkpoints/000000000020/manifest.json: is of step 21, where its folder is of step 20"},
		{"another version", "manifest.json", replace(`"version": 1`, `"version": 2`),
			"checkpoints/000000000020/manifest.json: has version 2, where this program reads 1"},
		{"another part", "manifest.json", replace("model.s", "mod.el.s"), "checkpoints/000000000020/mod.el.safetensors: is missing"},
		{"a part elsewhere", "manifest.json", replace("model.s", "../model.s"),
			`checkpoints/000000000020/manifest.json: has a bad record of the part "../model.safetensors"`},
		{"a bad checksum", "manifest.json", replace(`"sha256": "48`, `"sha256": "4`),
			`checkpoints/000000000020/manifest.json: has a bad record of the part "model.safetensors"`},
		{"a part twice", "manifest.json", replace("optimizer", "model"),
			`checkpoints/000000000020/manifest.json: has its parts out of order at "model.safetensors"`},
		{"no parts", "manifest.json", func([]byte) []byte { return []byte(`{"version":1,"step":20}`) },
			"checkpoints/000000000020/manifest.json: names no parts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := newCheckpoints(t.TempDir(), 3)
			save(t, store, 10, "a")
			save(t, store, 20, "b")
			path := filepath.Join(store.folder(20), c.file)
			if c.change == nil {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				edit(t, path, c.change)
			}
			got, warnings := load(t, store)
			if got != "a" || len(warnings) != 1 || warnings[0] != c.want {
				t.Errorf("loaded %q\n got %q\nwant %q", got, warnings, c.want)
			}
			save(t, store, 20, "c") // training comes by again
			if got, warnings := load(t, store); got != "c" || warnings != nil {
				t.Errorf("after another save: %q, %q", got, warnings)
			}
		})
	}
}

func TestOnlyBrokenCheckpointsAreAnError(t *testing.T) {
	c := newCheckpoints(t.TempDir(), 3)
	for step := range int64(2) {
		save(t, c, step, "a")
		edit(t, filepath.Join(c.folder(step), "state.json"), func(b []byte) []byte { return nil })
	}
	_, warnings, err := c.Load()
	want := c.root() + ": none of its checkpoints is whole (2 broken): restore one, or start over with -restart"
	if err == nil || err.Error() != want || len(warnings) != 2 {
		t.Errorf("got  %v, %v\nwant %s", err, warnings, want)
	}
}

func TestPartsComeBackAsTheyWere(t *testing.T) {
	c := newCheckpoints(t.TempDir(), 3)
	weights := []float32{1, 2, 3}
	type state struct{ Epoch, Samples int64 }
	err := c.Save(1, []Part{
		tensorsPart("model.safetensors", map[string]*tensor.Dense{"w": tensor.New(tensor.WithShape(3), tensor.WithBacking(weights))}),
		jsonPart("state.json", state{3, 1 << 60}),
	})
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, _, err := c.Load()
	if err != nil {
		t.Fatal(err)
	}
	var s state
	if err := checkpoint.JSON("state.json", &s); err != nil || s != (state{3, 1 << 60}) {
		t.Errorf("state is %+v, %v", s, err)
	}
	err = checkpoint.Tensors("model.safetensors", func(f *safetensors.File) error {
		w, err := f.Tensor("w")
		if err == nil && !reflect.DeepEqual(w.Data(), weights) {
			t.Errorf("w is %v", w.Data())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	_, err = checkpoint.Open("residual.0.safetensors")
	if want := checkpoint.Dir + ": the checkpoint has no part residual.0.safetensors"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	err = checkpoint.JSON("state.json", &struct{ Epoch int64 }{})
	if want := filepath.Join(checkpoint.Dir, "state.json") + `: json: unknown field "Samples"`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestAPartsNameIsAPlainFileName(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "../a", "manifest.json", "a.tmp"} {
		c := newCheckpoints(t.TempDir(), 3)
		err := c.Save(1, []Part{jsonPart(name, 1)})
		want := fmt.Sprintf("saving the checkpoint of step 1 (there is none before it): %q cannot be the name of a checkpoint's part", name)
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestTheFinalModelReplacesTheOneBefore(t *testing.T) {
	c := newCheckpoints(filepath.Join(t.TempDir(), "r"), 3)
	for _, text := range []string{"first", "second"} {
		if err := c.WriteRunFile(jsonPart("model.safetensors", text)); err != nil {
			t.Fatal(err)
		}
	}
	broken := Part{"model.safetensors", func(w io.Writer) error {
		io.WriteString(w, "half")
		return &os.PathError{Op: "write", Path: "x.tmp", Err: syscall.ENOSPC}
	}}
	path := filepath.Join(c.run, "model.safetensors")
	want := "writing " + path + ": no space left on device: free some space there, or choose another outputDir"
	if err := c.WriteRunFile(broken); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "\"second\"\n" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if names, _ := c.files.List(c.run); len(names) != 1 {
		t.Errorf("there are %q", names)
	}
}

func TestAnUnwritableOutputFolderIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c := newCheckpoints(filepath.Join(file, "r"), 3)
	want := "writing " + c.run + ": not a directory: a file stands where a folder is needed: move it away, or choose another outputDir"
	if err := c.WriteRunFile(jsonPart("a", 1)); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for _, cause := range []error{syscall.EACCES, syscall.EROFS} {
		err := unwritable("runs/r", 0, &os.PathError{Op: "mkdir", Path: "runs/r", Err: cause})
		want := "writing runs/r: " + cause.Error() + ": make the folder writable, or choose another outputDir"
		if err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
