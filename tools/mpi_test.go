package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// An mpicc that is asked for its flags, in three ways; and compilers that take the right ones, or none.
const (
	openMPI = `case $1 in --showme:compile) echo -I/mpi;; --showme:link) echo "-L/mpi -lmpi";; *) exit 1;; esac`
	mpich   = `case $1 in -compile-info) echo "gcc -Wl,-O1 -I/mpi -L/mpi -lmpi";; -link-info) echo "gcc -Wl,-O1 -I/mpi -L/mpi -lmpi";; *) exit 1;; esac`
	takes   = `cat >/dev/null; case "$*" in *-I/mpi*-L/mpi*-lmpi*) exit 0;; *) exit 1;; esac`
	refuses = `cat >/dev/null; exit 1`
)

func TestAGoCommandIsTold(t *testing.T) {
	const without = "compile  link  go \n"
	for _, c := range []struct {
		name     string
		programs map[string]string
		env      []string
		want     string
	}{
		{"Open MPI", map[string]string{"mpicc": openMPI, "gcc": takes}, nil, "compile -g -O2 -I/mpi link -g -O2 -Wl,--as-needed -L/mpi -lmpi go  -tags=mpi\n"},
		{"MPICH", map[string]string{"mpicc": mpich, "gcc": takes}, nil, "compile -g -O2 -I/mpi  link -g -O2 -Wl,--as-needed -Wl,-O1 -L/mpi -lmpi  go  -tags=mpi\n"},
		{"another mpicc and the user's flags", map[string]string{"my": openMPI, "cc": takes},
			[]string{"MPICC=my", "CC=cc", "CGO_CFLAGS=-O3", "CGO_LDFLAGS=-L/x", "GOFLAGS=-v"},
			"compile -O3 -I/mpi link -L/x -Wl,--as-needed -L/mpi -lmpi go -v -tags=mpi\n"},
		{"none", map[string]string{"gcc": takes}, nil, without},
		{"switched off", map[string]string{"mpicc": openMPI, "gcc": takes}, []string{"MPI=off"}, without},
		{"an mpicc that does not work", map[string]string{"mpicc": openMPI, "gcc": refuses}, nil,
			"mpi: mpicc is there, but a program with its flags does not build: going on without MPI\n" + without},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin := t.TempDir()
			for name, text := range c.programs {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"sh", "cat", "tr", "grep"} {
				path, err := exec.LookPath(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.Command("/bin/sh", "mpi.sh", "sh", "-c", `echo "compile ${CGO_CFLAGS:-} link ${CGO_LDFLAGS:-} go ${GOFLAGS:-}"`)
			command.Env = append([]string{"PATH=" + bin}, c.env...)
			out, err := command.CombinedOutput()
			if err != nil || string(out) != c.want {
				t.Errorf("%v, says\n%swant\n%s", err, out, c.want)
			}
		})
	}
}
