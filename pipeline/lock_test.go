package pipeline

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOnlyOneTrainsInAFolder(t *testing.T) {
	run := filepath.Join(t.TempDir(), "runs", "r")
	lock, err := lockRun(run)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	want := fmt.Sprintf("%s: process %d on %s trains there: wait for it, stop it, or choose another outputDir", run, os.Getpid(), host)
	if _, err := lockRun(run); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock, err = lockRun(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// TestALockEndsWithItsProcess starts itself as the other process, which holds the lock until its input ends.
func TestALockEndsWithItsProcess(t *testing.T) {
	const variable = "GOTRAIN_TEST_LOCK"
	if run := os.Getenv(variable); run != "" {
		_, err := lockRun(run)
		fmt.Println("locked:", err)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	run := t.TempDir()
	other := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), variable+"="+run)
	if _, err := other.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked: <nil>\n" {
		t.Fatalf("the other process said %q, %v", line, err)
	}
	_, err = lockRun(run)
	if want := fmt.Sprintf("%s: process %d on ", run, other.Process.Pid); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s...", err, want)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	other.Wait()
	lock, err := lockRun(run)
	if err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
}

func TestALockThatCannotBeMadeIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := lockRun("/proc/none/r"); err == nil || err.Error() != "writing /proc/none/r: no such file or directory: its folder is not there: choose another outputDir, or make the folder" {
		t.Errorf("below /proc: %v", err)
	}
	want := "writing " + file + "/r: not a directory: a file stands where a folder is needed: move it away, or choose another outputDir"
	if _, err := lockRun(file + "/r"); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestAHeldFolderIsNotTrainedInAndNotTheOtherWayRound(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	if held, err := Held(run); held || err != nil {
		t.Errorf("no folder: %v, %v", held, err)
	}
	lock, err := lockRun(run)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := Held(run); !held || err != nil {
		t.Errorf("locked: %v, %v", held, err)
	}
	host, _ := os.Hostname()
	_, err = Hold(run)
	demand(t, "holding", err, fmt.Sprintf("%s: process %d on %s trains there", run, os.Getpid(), host))
	lock.Unlock()
	if held, err := Held(run); held || err != nil {
		t.Errorf("unlocked: %v, %v", held, err)
	}
	release, err := Hold(run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockRun(run); err == nil {
		t.Error("a folder that is held was locked")
	}
	time.AfterFunc(20*time.Millisecond, release) // a look takes less than a start waits
	if lock, err = lockRun(run); err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
}
