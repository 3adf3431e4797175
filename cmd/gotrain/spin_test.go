package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shown matches what libgomp writes of its settings, each time that it is loaded.
var shown = regexp.MustCompile(`(?m)^.*GOMP_SPINCOUNT = '(.*)'$`)

func TestWaitingThreadsSpinForAShortTimeUnlessSaidOtherwise(t *testing.T) {
	for _, c := range []struct {
		env   []string
		loads int
		want  string // at the last; "": whatever libgomp makes of it
	}{
		{nil, 2, "30000"},
		{[]string{"GOMP_SPINCOUNT=7"}, 1, "7"},
		{[]string{"GOMP_SPINCOUNT="}, 1, ""},
		{[]string{"OMP_WAIT_POLICY=active"}, 1, ""},
		{[]string{"OMP_WAIT_POLICY=passive"}, 1, "0"},
	} {
		p := exec.Command(binary, "version")
		p.Env = append(c.env, "OMP_DISPLAY_ENV=verbose")
		r := finish(t, p).want(t, 0)
		loads := shown.FindAllStringSubmatch(r.log, -1)
		if len(loads) != c.loads || c.want != "" && loads[len(loads)-1][1] != c.want {
			t.Errorf("%q: libgomp was loaded with %q, want %d times, at last with %s", c.env, loads, c.loads, c.want)
		}
		if !strings.HasPrefix(r.out, "gotrain v0-test\n") {
			t.Errorf("%q: the arguments were lost: %s", c.env, r.out)
		}
	}
}

func TestTheProcessStaysTheSame(t *testing.T) {
	dir := t.TempDir()
	p := exec.Command("sh", "-c", `echo $$; exec "$@"`, "sh", binary, "-config", "quickstart", "outputDir="+dir, "learner.epochSize=32", "learner.maxEpochs=1",
		"command=[train]", "threads=1")
	p.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "OMP_") || strings.HasPrefix(v, "GOMP_") })
	r := finish(t, p).want(t, 0)
	pid, _, _ := strings.Cut(r.out, "\n")
	locks, _ := filepath.Glob(filepath.Join(dir, "*", "lock"))
	if len(locks) != 1 {
		t.Fatalf("the locks are %q", locks)
	}
	lock, err := os.ReadFile(locks[0])
	if err != nil {
		t.Fatal(err)
	}
	if host, _ := os.Hostname(); string(lock) != fmt.Sprintf("process %s on %s\n", pid, host) {
		t.Errorf("process %s became: %s", pid, lock)
	}
}

func TestTheDoctorDoesNotTakeOurSettingForTheUsers(t *testing.T) {
	for env, want := range map[string]string{"A=b": "OpenMP       default settings\n", "GOMP_SPINCOUNT=7": "OpenMP       GOMP_SPINCOUNT=7\n"} {
		p := exec.Command(binary, "doctor")
		p.Env = []string{env, "PATH=" + os.Getenv("PATH")}
		contains(t, env+": doctor", finish(t, p).want(t, 0).out, want)
	}
}
