package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// listed is what `gotrain runs -json` says.
type listed []struct {
	Folder, Name, Hash, Status, Error string
	Attempts, Epochs                  int
	Steps                             int64
}

func list(t *testing.T, dir string, args ...string) (l listed) {
	t.Helper()
	r := gotrain(t, dir, append([]string{"runs", "-json"}, args...)...).want(t, 0)
	if err := json.Unmarshal([]byte(r.out), &l); err != nil {
		t.Fatalf("%v:\n%s", err, r.out)
	}
	return l
}

func TestKilledRunsAreFoundAndContinue(t *testing.T) {
	kills := 20
	if testing.Short() {
		kills = 3
	}
	want, _ := straight(t)
	dir := t.TempDir()
	attempts := 0
	for n := 1; ; n++ {
		if n <= kills {
			stopAfter(t, dir, 1+rand.IntN(4), time.Duration(rand.IntN(30))*time.Millisecond, syscall.SIGKILL)
			attempts++
			l := list(t, dir)
			if len(l) != 1 {
				t.Fatalf("after %d kills there are %d runs", n, len(l))
			}
			if l[0].Status == "finished" {
				break
			}
			if l[0].Status != "crashed" || l[0].Attempts != attempts || l[0].Steps < 1 {
				t.Fatalf("after %d kills: %+v", n, l[0])
			}
			gotrain(t, dir, "runs", "reindex").want(t, 0)
			if again := list(t, dir); again[0] != l[0] {
				t.Fatalf("the index said\n%+v, and made anew it says\n%+v", l[0], again[0])
			}
			continue
		}
		gotrain(t, dir, short...).want(t, 0)
		attempts++
		break
	}
	l := list(t, dir)
	if l[0].Status != "finished" || l[0].Attempts != attempts || l[0].Epochs != 3 || l[0].Steps != 60 {
		t.Errorf("in the end: %+v", l[0])
	}
	if got := model(t, dir); !bytes.Equal(got, want) {
		t.Error("the model is another than that of a run that was not killed")
	}
	gotrain(t, dir, "runs", "verify", "latest").want(t, 0)
}

func TestRunsAreShownComparedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-config", "quickstart", "learner.maxEpochs=1", "learner.epochSize=64", "learner.minibatchSize=32"}
	gotrain(t, dir, append(args, "name=one")...).want(t, 0)
	gotrain(t, dir, append(args, "name=two", "distributed.workers=2", "distributed.bits=1")...).want(t, 0)
	l := list(t, dir)
	if len(l) != 2 || l[0].Name != "two" || l[1].Name != "one" || l[0].Status != "finished" || len(l[0].Hash) != 64 {
		t.Fatalf("%+v", l)
	}
	if l := list(t, dir, "distributed.bits=1"); len(l) != 1 || l[0].Name != "two" {
		t.Errorf("with 1 bit: %+v", l)
	}
	if l := list(t, dir, "name=nobody"); l == nil || len(l) != 0 {
		t.Errorf("no runs are %+v", l)
	}
	contains(t, "the list", gotrain(t, dir, "runs").want(t, 0).out, "STATUS ", "finished  two   cpu     2        1     1/1 ", l[1].Folder)
	contains(t, "the record", gotrain(t, dir, "runs", "show", l[1].Hash[:8]).want(t, 0).out, "run            "+l[1].Folder+"\n", "oneDNN", "argument learner.maxEpochs=1", "\nEPOCH ")
	contains(t, "the comparison", gotrain(t, dir, "runs", "compare", "one", "two").want(t, 0).out, "distributed.bits     32 ", "epoch 1  ")
	contains(t, "the verification", gotrain(t, dir, "runs", "verify", "one", "two", "-data").want(t, 0).out, l[0].Folder+": ", " 0 are not\n")

	path := filepath.Join(dir, "runs", l[1].Folder, "model.safetensors")
	flip(t, path)
	r := gotrain(t, dir, "runs", "verify", "one").want(t, 1)
	contains(t, "the verification", r.out, filepath.Join("runs", l[1].Folder, "model.safetensors")+": has the SHA-256 ", " 1 are not\n")
	if r.log != "gotrain: 1 files differ from their record\n" {
		t.Errorf("says %q", r.log)
	}

	gotrain(t, dir, append(args, "name=one", "-restart")...).want(t, 0)
	r = gotrain(t, dir, "runs", "prune", "-dry-run", "name=one").want(t, 0)
	if r.out != "would remove "+l[1].Folder+"\n" || len(list(t, dir)) != 3 {
		t.Errorf("says %q", r.out)
	}
	gotrain(t, dir, "runs", "prune", "name=one").want(t, 0)
	gotrain(t, dir, "runs", "rm", "two").want(t, 0)
	if l := list(t, dir); len(l) != 1 || l[0].Name != "one" {
		t.Errorf("left is %+v", l)
	}
}

// flip changes a byte in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(path, b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestARunGoesElsewhereInOneFile(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	gotrain(t, dir, "-config", "quickstart", "learner.maxEpochs=1", "learner.epochSize=64", "learner.minibatchSize=32").want(t, 0)
	l := list(t, dir)
	file := filepath.Join(other, "run.tar.zst")
	contains(t, "the export", gotrain(t, dir, "runs", "export", "latest", "-o", file).want(t, 0).out, file+": ", " bytes\n")
	if r := gotrain(t, other, "runs", "import", "run.tar.zst").want(t, 0); r.out != "imported "+filepath.Join("runs", l[0].Folder)+"\n" {
		t.Errorf("says %q", r.out)
	}
	if there := list(t, other); len(there) != 1 || there[0] != l[0] {
		t.Errorf("there it is %+v, and here %+v", there, l)
	}
	contains(t, "the verification", gotrain(t, other, "runs", "verify", "run.tar.zst", "latest").want(t, 0).out, "run.tar.zst: ", l[0].Folder+": ", " 0 are not\n")
	gotrain(t, other, "eval", "-run", filepath.Join("runs", l[0].Folder)).want(t, 0)

	gotrain(t, dir, "runs", "export", "latest").want(t, 0)
	a, b := read(t, file), read(t, filepath.Join(dir, l[0].Folder+".tar.zst"))
	if a != b {
		t.Error("a second export has other bytes")
	}
	flip(t, file)
	r := gotrain(t, other, "runs", "import", "run.tar.zst", "-runs", "again").want(t, 1)
	contains(t, "standard error", r.log, "gotrain: run.tar.zst: ")
}
