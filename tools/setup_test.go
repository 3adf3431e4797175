// Package tools holds programs and scripts for developers.
package tools

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The programs that setup.sh calls, as shell scripts. They note what is done in $DIR/done; oneDNN is there once
// $DIR/onednn is.
const (
	goThere        = "exit 0"
	gcc            = `cat >/dev/null; test -e "$DIR/onednn"`
	root           = "echo 0"
	somebody       = "echo 1000"
	sudo           = `echo sudo >>"$DIR/done"; exec "$@"`
	aptInstalls    = `echo "apt-get $1" >>"$DIR/done"; case $1 in install) touch "$DIR/onednn";; esac`
	aptNeedsUpdate = `echo "apt-get $1" >>"$DIR/done"
case $1 in
update) touch "$DIR/lists"; exit 100;; # one of the sources is away
install) test -e "$DIR/lists" && touch "$DIR/onednn";;
esac`
	aptKnowsNothing = `echo "E: Unable to locate package libdnnl-dev"; exit 100`
	aptInVain       = `exit 0`
)

func TestSetUpInstallsWhatIsMissingAndSaysWhatItCannot(t *testing.T) {
	for _, c := range []struct {
		name     string
		extras   []string
		programs map[string]string
		there    bool   // oneDNN is there from the beginning
		done     string // calls, separated by commas
		says     string // on standard error; a part of it
		status   int
	}{
		{name: "everything is there", programs: map[string]string{"go": goThere, "gcc": gcc}, there: true},
		{name: "root", programs: map[string]string{"go": goThere, "gcc": gcc, "id": root, "apt-get": aptInstalls},
			done: "apt-get install", says: "setup: installing libdnnl-dev\n"},
		{name: "no lists of packages", programs: map[string]string{"go": goThere, "gcc": gcc, "id": root, "apt-get": aptNeedsUpdate},
			done: "apt-get install,apt-get update,apt-get install", says: "setup: installing libdnnl-dev\n"},
		{name: "sudo", programs: map[string]string{"go": goThere, "gcc": gcc, "id": somebody, "sudo": sudo, "apt-get": aptInstalls},
			done: "sudo,apt-get install", says: "setup: installing libdnnl-dev\n"},
		{name: "neither root nor sudo", programs: map[string]string{"go": goThere, "gcc": gcc, "id": somebody, "apt-get": aptInstalls},
			says: "setup: run this as root, once: apt-get update && apt-get install -y libdnnl-dev\n", status: 1},
		{name: "no compiler", programs: map[string]string{"go": goThere, "id": somebody, "apt-get": aptInstalls},
			says: "apt-get install -y gcc libc6-dev libdnnl-dev\n", status: 1},
		{name: "another system", programs: map[string]string{"go": goThere, "gcc": gcc},
			says: "setup: missing: libdnnl-dev (the names are Debian's), and there is no apt-get to install them.\n", status: 1},
		{name: "no Go", programs: map[string]string{"gcc": gcc}, there: true,
			says: "setup: Go is not installed: get 1.25 or newer from https://go.dev/dl/", status: 1},
		{name: "an unknown package", programs: map[string]string{"go": goThere, "gcc": gcc, "id": root, "apt-get": aptKnowsNothing},
			says: "E: Unable to locate package libdnnl-dev\nsetup: apt-get did not install libdnnl-dev: see above\n", status: 1},
		{name: "MPI", extras: []string{"mpi"}, programs: map[string]string{"go": goThere, "gcc": gcc, "id": root, "apt-get": aptInstalls}, there: true,
			done: "apt-get install", says: "setup: installing openmpi-bin libopenmpi-dev\n"},
		{name: "MPI without its headers, and everything else", extras: []string{"mpi", "ip"},
			programs: map[string]string{"go": goThere, "gcc": gcc, "mpiexec": goThere, "id": root, "apt-get": aptInstalls},
			done:     "apt-get install", says: "setup: installing libdnnl-dev openmpi-bin libopenmpi-dev iproute2\n"},
		{name: "MPI is there", extras: []string{"mpi", "ip"},
			programs: map[string]string{"go": goThere, "gcc": gcc, "mpicc": goThere, "mpiexec": goThere, "ip": goThere}, there: true},
		{name: "an extra that is none", extras: []string{"mpich"}, programs: map[string]string{"go": goThere, "gcc": gcc}, there: true,
			says: "setup: knows mpi, ip and clang, not mpich\n", status: 2},
		{name: "in vain", programs: map[string]string{"go": goThere, "gcc": gcc, "id": root, "apt-get": aptInVain},
			says: "setup: oneDNN is installed, and a C program that uses it still does not build", status: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			bin := filepath.Join(dir, "bin")
			if err := os.Mkdir(bin, 0o777); err != nil {
				t.Fatal(err)
			}
			for name, text := range c.programs {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"sh", "env", "cat", "rm", "touch", "mktemp"} {
				path, err := exec.LookPath(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
			}
			if c.there {
				if err := os.WriteFile(filepath.Join(dir, "onednn"), nil, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			setup := exec.Command("/bin/sh", append([]string{"setup.sh"}, c.extras...)...)
			setup.Env = []string{"PATH=" + bin, "DIR=" + dir}
			out, err := setup.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			done, _ := os.ReadFile(filepath.Join(dir, "done"))
			if got := strings.ReplaceAll(strings.TrimSpace(string(done)), "\n", ","); got != c.done {
				t.Errorf("did %q, want %q", got, c.done)
			}
			if c.says == "" && len(out) > 0 || !strings.Contains(string(out), c.says) {
				t.Errorf("says\n%swant\n%s", out, c.says)
			}
			if got := setup.ProcessState.ExitCode(); got != c.status {
				t.Errorf("status %d, want %d:\n%s", got, c.status, out)
			}
		})
	}
}
