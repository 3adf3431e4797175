package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"gotrain/pipeline"
)

// entry is an entry of a bundle that a test makes by hand.
type entry struct {
	name, text, link string
	kind             byte
}

// pack makes a bundle of a manifest and entries, whatever they are.
func pack(t testing.TB, manifest any, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	if manifest != nil {
		text, _ := json.Marshal(manifest)
		entries = append([]entry{{name: manifestName, text: string(text)}}, entries...)
	}
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.text)), Mode: 0o644}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

func listing(folder string, entries ...entry) Manifest {
	m := Manifest{Version: 1, Folder: folder}
	for _, e := range entries {
		m.Files = append(m.Files, BundleFile{e.name, int64(len(e.text)), fmt.Sprintf("%x", sha256.Sum256([]byte(e.text)))})
	}
	return m
}

// tree lists everything below a folder with its content.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		name, _ := filepath.Rel(dir, p)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestABundleCarriesARun(t *testing.T) {
	ctx, dir, other := context.Background(), t.TempDir(), filepath.Join(t.TempDir(), "new")
	folder := fake(t, dir, "one", pipeline.Finished, 25)
	for name, text := range map[string]string{pipeline.LockFile: "process 1 on here\n", "model.safetensors.tmp": "half", "checkpoints/000000000020/state.json": "{}"} {
		path := filepath.Join(dir, folder, name)
		os.MkdirAll(filepath.Dir(path), 0o777)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := openIndex(t, dir).list(t)[0]
	files := [2]string{filepath.Join(t.TempDir(), "a.tar.zst"), filepath.Join(t.TempDir(), "b.tar.zst")}
	if _, err := Export(ctx, dir, run, files[0], false); err != nil {
		t.Fatal(err)
	}
	got, err := Import(ctx, other, files[0], MaxBytes)
	if err != nil || got != folder {
		t.Fatal(got, err)
	}
	want := tree(t, filepath.Join(dir, folder))
	delete(want, pipeline.LockFile)
	delete(want, "model.safetensors.tmp")
	have := tree(t, filepath.Join(other, folder))
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("imported\n%v\nwant\n%v", have, want)
	}
	again := openIndex(t, other).list(t)[0]
	if _, err := Export(ctx, other, again, files[1], false); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(files[0])
	b, _ := os.ReadFile(files[1])
	if !bytes.Equal(a, b) {
		t.Error("the bundle of the imported run has other bytes")
	}
	_, err = Import(ctx, other, files[0], MaxBytes)
	demand(t, "twice", err, files[0]+": "+filepath.Join(other, folder)+" is there already: remove it with gotrain runs rm, or import into another folder with -runs DIR")
	if m, err := VerifyBundle(ctx, files[0]); err != nil || m.Folder != folder || len(m.Files) != len(want) {
		t.Error(m, err)
	}

	short := filepath.Join(t.TempDir(), "half.tar.zst")
	if err := os.WriteFile(short, a[:len(a)-20], 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = VerifyBundle(ctx, short)
	demand(t, "without its last bytes", err, short+": ends in the middle, at bundle.json: copy or fetch it again") // it is small: one block
	for _, n := range []int{0, 1, 10, len(a) / 2, len(a) - 5, len(a) - 1} {
		file := filepath.Join(t.TempDir(), "short.tar.zst")
		if err := os.WriteFile(file, a[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Import(ctx, filepath.Join(t.TempDir(), "runs"), file, MaxBytes); err == nil {
			t.Errorf("%d of %d bytes were imported", n, len(a))
		}
	}
	for i := 0; i < len(a); i += 1 + len(a)/97 {
		damaged := bytes.Clone(a)
		damaged[i] ^= 0x10
		file := filepath.Join(t.TempDir(), "damaged.tar.zst")
		if err := os.WriteFile(file, damaged, 0o666); err != nil {
			t.Fatal(err)
		}
		into := filepath.Join(t.TempDir(), "runs")
		if _, err := Import(ctx, into, file, MaxBytes); err == nil {
			if fmt.Sprint(tree(t, filepath.Join(into, folder))) != fmt.Sprint(want) {
				t.Errorf("with byte %d of %d changed, something else was imported", i, len(a))
			}
		} else if left := tree(t, into); len(left) != 0 {
			t.Errorf("byte %d: it was refused, and left %v", i, left)
		}
	}
}

func TestBundlesThatAreNotWhatTheySayAreRefused(t *testing.T) {
	run := entry{name: "run.json", text: `{"name":"x"}`}
	const folder = "x-20260131-120000-00000000"
	for _, c := range []struct {
		name   string
		bundle []byte
		want   string
	}{
		{"a way out", pack(t, listing(folder, entry{name: "../../evil", text: "x"}), entry{name: "../../evil", text: "x"}), `bundle.json names the file "../../evil", which cannot be in a run's folder`},
		{"an absolute path", pack(t, listing(folder, entry{name: "/etc/evil", text: "x"}), entry{name: "/etc/evil", text: "x"}), `bundle.json names the file "/etc/evil", which cannot be in a run's folder`},
		{"a backslash", pack(t, listing(folder, entry{name: `a\..\b`, text: "x"})), `bundle.json names the file "a\\..\\b", which cannot be in a run's folder`},
		{"the lock", pack(t, listing(folder, entry{name: "lock", text: "x"})), `bundle.json names the file "lock", which cannot be in a run's folder`},
		{"a folder elsewhere", pack(t, listing("../x", run), run), `bundle.json names the folder "../x", which cannot be that of a run`},
		{"a hidden folder", pack(t, listing(".ssh", run), run), `bundle.json names the folder ".ssh", which cannot be that of a run`},
		{"no folder", pack(t, listing("", run), run), `bundle.json names the folder "", which cannot be that of a run`},
		{"a link", pack(t, listing(folder, run), entry{name: "run.json", link: "/etc/passwd", kind: tar.TypeSymlink}), `has "run.json", which is no plain file: a bundle has no links, folders or devices`},
		{"a hard link", pack(t, listing(folder, run), entry{name: "run.json", link: "../../x", kind: tar.TypeLink}), `has "run.json", which is no plain file: a bundle has no links, folders or devices`},
		{"a folder", pack(t, listing(folder, run), entry{name: "run.json/", kind: tar.TypeDir}), `has "run.json/", which is no plain file: a bundle has no links, folders or devices`},
		{"a device", pack(t, listing(folder, run), entry{name: "run.json", kind: tar.TypeChar}), `has "run.json", which is no plain file: a bundle has no links, folders or devices`},
		{"another file", pack(t, listing(folder, run), entry{name: "run.jsom", text: run.text}), `has "run.jsom", where bundle.json says "run.json"`},
		{"a longer file", pack(t, listing(folder, run), entry{name: "run.json", text: run.text + " "}), "run.json has 13 bytes, where bundle.json says 12"},
		{"a changed file", pack(t, listing(folder, run), entry{name: "run.json", text: `{"name":"y"}`}),
			fmt.Sprintf("run.json has the SHA-256 %.8s..., where bundle.json says %.8s...: the bundle was changed or damaged", fmt.Sprintf("%x", sha256.Sum256([]byte(`{"name":"y"}`))), fmt.Sprintf("%x", sha256.Sum256([]byte(run.text))))},
		{"a file too many", pack(t, listing(folder, run), run, entry{name: "zzz", text: "x"}), `has "zzz", of which bundle.json says nothing`},
		{"a file too few", pack(t, listing(folder, run)), "run.json is missing"},
		{"a file twice", pack(t, listing(folder, run, run), run, run), `bundle.json has its files out of order at "run.json"`},
		{"a file below a file", pack(t, listing(folder, entry{name: "a", text: "x"}, entry{name: "a/b", text: "x"}), entry{name: "a", text: "x"}, entry{name: "a/b", text: "x"}), "mkdirat a: file exists"},
		{"no manifest", pack(t, nil, run), `is no bundle of gotrain: it begins with "run.json", and not with bundle.json`},
		{"no entries", pack(t, nil), "is empty"},
		{"a newer version", pack(t, Manifest{Version: 2, Folder: folder}), "bundle.json has version 2, where this gotrain reads 1"},
		{"no run", pack(t, listing(folder, entry{name: "a", text: "x"}), entry{name: "a", text: "x"}), "there is no run in it: run.json: no such file or directory"},
		{"no archive", []byte("PK\x03\x04 a zip, perhaps"), "is not compressed with Zstandard: is it a bundle of gotrain?"},
		{"a bomb", pack(t, Manifest{1, folder, []BundleFile{{"run.json", 1 << 40, strings.Repeat("0", 64)}}}, run), "its files take more than 1048576 bytes: allow more with -max-bytes, if you know where it comes from"},
		{"many bombs", pack(t, Manifest{1, folder, []BundleFile{{"a", 1 << 62, strings.Repeat("0", 64)}, {"b", 1 << 62, strings.Repeat("0", 64)}, {"c", 1 << 62, strings.Repeat("0", 64)}}}, run), "its files take more than 1048576 bytes: allow more with -max-bytes, if you know where it comes from"},
		{"a negative size", pack(t, Manifest{1, folder, []BundleFile{{"run.json", -1, strings.Repeat("0", 64)}}}, run), `bundle.json has a bad record of the file "run.json"`},
		{"more behind it", append(pack(t, listing(folder, run), run), pack(t, nil, run)...), "has more behind its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(t.TempDir(), "x.tar.zst")
			if err := os.WriteFile(file, c.bundle, 0o666); err != nil {
				t.Fatal(err)
			}
			_, err := Import(context.Background(), filepath.Join(dir, "runs"), file, 1<<20)
			demand(t, c.name, err, file+": "+c.want)
			if left := tree(t, dir); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

func TestARunThatGoesOnIsNeitherExportedNorRemoved(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	folder := fake(t, dir, "one", pipeline.Running, 1)
	run := filepath.Join(dir, folder)
	release := hold(t, run)
	x := openIndex(t, dir)
	r := x.list(t)[0]
	_, err := Export(ctx, dir, r, filepath.Join(dir, "x"), false)
	demand(t, "exporting", err, run+": process 7 on elsewhere trains there: export it when it has ended")
	demand(t, "removing", x.Remove(ctx, r), run+": process 7 on elsewhere trains there: stop it first")
	if old := Prunable([]Run{r}, 0, began.Add(1e6*time.Hour)); len(old) > 0 {
		t.Errorf("it would be pruned: %+v", old)
	}
	release()

	if err := os.Symlink("/etc/passwd", filepath.Join(run, "link")); err != nil {
		t.Fatal(err)
	}
	_, err = Export(ctx, dir, r, filepath.Join(dir, "x"), false)
	demand(t, "a link", err, filepath.Join(run, "link")+": neither a file nor a folder: move it out of the run")
	if left, _ := filepath.Glob(filepath.Join(dir, "*x*")); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	if err := x.Remove(ctx, r); err != nil {
		t.Fatal(err)
	}
	if left := x.list(t); len(left) > 0 || x.count(t, "minibatches") > 0 {
		t.Errorf("left are %+v", left)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 3 { // the index and its log
		t.Errorf("left are %v", entries)
	}
}

func TestPruningKeepsTheNewestOfEachName(t *testing.T) {
	run := func(name string, started, ended int, status string) Run {
		return Run{Name: name, Folder: fmt.Sprint(name, started), Started: began.Add(time.Duration(started) * time.Hour), Ended: began.Add(time.Duration(ended) * time.Hour), Status: status}
	}
	runs := []Run{run("a", 1, 2, "finished"), run("a", 3, 9, "failed"), run("a", 2, 3, "crashed"), run("b", 1, 2, "finished"), run("a", 0, 1, "running")}
	for _, c := range []struct {
		keep, before int
		want         string
	}{{1, 100, "a2 a1"}, {0, 100, "a3 a2 a1 b1"}, {2, 100, "a1"}, {0, 3, "a1 b1"}, {0, 2, ""}} {
		var got []string
		for _, r := range Prunable(runs, c.keep, began.Add(time.Duration(c.before)*time.Hour)) {
			got = append(got, r.Folder)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("keeping %d, before %d: %q, want %s", c.keep, c.before, got, c.want)
		}
	}
}

func FuzzReadBundle(f *testing.F) {
	run := entry{name: "run.json", text: `{"name":"x"}`}
	f.Add(pack(f, listing("x", run), run))
	f.Add(pack(f, listing("x", run, entry{name: "a/b", text: strings.Repeat("long ", 1000)}), run, entry{name: "a/b", text: strings.Repeat("long ", 1000)}))
	f.Add(pack(f, nil, run))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	z, err := zstd.NewReader(bytes.NewReader(pack(f, listing("x", run), run)))
	if err != nil {
		f.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Fuzz(func(t *testing.T, bundle []byte) {
		check(t, bytes.NewReader(bundle))
		var z bytes.Buffer // what is random is seldom compressed: as the tar archive within too
		if w, err := zstd.NewWriter(&z); err == nil {
			w.Write(bundle)
			w.Close()
			check(t, &z)
		}
	})
}

// check reads a bundle, and demands that what is taken for one keeps to its manifest.
func check(t *testing.T, r io.Reader) {
	const limit = 1 << 20
	total := int64(0)
	readBundle(r, limit, func(m Manifest) error { return nil }, func(name string, content io.Reader) error {
		if !filepath.IsLocal(name) || strings.Contains(name, "..") && strings.Contains(name, "../") {
			t.Fatalf("the name %q leads out", name)
		}
		n, err := io.Copy(io.Discard, content)
		if total += n; total > limit {
			t.Fatalf("%d bytes, where %d are allowed", total, limit)
		}
		return err
	})
}
