package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotrain/distributed/group"
	"gotrain/distributed/group/grouptest"
	"gotrain/internal/synthetic"
)

// ends checks that a job ends at once with a status, and that its processes together say one thing.
func (e ended) ends(t *testing.T, status int, says string) {
	t.Helper()
	if e.status != status || e.took > 15*time.Second || len(e.left) > 0 {
		t.Errorf("exit status %d after %v, want %d; processes left: %v", e.status, e.took, status, e.left)
	}
	e.says(t, says)
}

func TestJobsThatCannotBeAreRefused(t *testing.T) {
	for _, c := range []struct {
		name      string
		processes int
		more      []string
		status    int
		says      string
	}{
		{"processes that do not divide the workers", 3, nil, 2,
			"4 workers cannot be shared evenly by the 3 processes that mpiexec has started: start 1, 2 or 4 of them, or set distributed.workers to a multiple of 3"},
		{"local workers in several processes", 2, []string{"distributed.transport=local"}, 2,
			"argument distributed.transport=local: distributed.transport: local: mpiexec has started 2 processes, and local workers are in one: write auto, or start it without mpiexec"},
		{"NCCL without GPUs", 4, []string{"distributed.transport=nccl"}, 2,
			"argument distributed.transport=nccl: distributed.transport: nccl: NCCL runs between GPUs, and there is none that can be used: device: cuda says why; or write auto or mpi"},
		{"a run folder that cannot be made", 4, []string{"outputDir=file/runs"}, 1,
			"outputDir: open DIR/file/runs: not a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "file"), "")
			e := mpiexec(t, dir, c.processes, shared(c.more...)...).run(t, 0, nil)
			e.ends(t, c.status, strings.ReplaceAll(regexp.QuoteMeta(c.says), "DIR", regexp.QuoteMeta(dir)))
		})
	}
}

func TestMPIWithoutMpiexecIsRefused(t *testing.T) {
	for _, transport := range []string{"mpi", "nccl"} {
		r := gotrain(t, t.TempDir(), shared("distributed.transport="+transport)...).want(t, 2)
		want := fmt.Sprintf("gotrain: argument distributed.transport=%[1]s: distributed.transport: %[1]s: mpiexec has not started this process: start it as mpiexec -n 4 gotrain ..., or write auto\n", transport)
		if r.log != want {
			t.Errorf("says\n%swant\n%s", r.log, want)
		}
	}
}

// TestABinaryWithoutMPIRefusesToBeOneOfAJob sets what mpiexec would.
func TestABinaryWithoutMPIRefusesToBeOneOfAJob(t *testing.T) {
	program := binary
	if group.Built {
		program = filepath.Join(t.TempDir(), "gotrain")
		if out, err := exec.Command("go", "build", "-tags=", "-buildvcs=false", "-o", program, ".").CombinedOutput(); err != nil {
			t.Fatalf("building without MPI: %v\n%s", err, out)
		}
	}
	c := prepare(t.TempDir(), []string{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"}, shared()...)
	c.Path = program
	r := finish(t, c).want(t, 2)
	const want = "gotrain: this binary is built without MPI, and mpiexec has started it: install MPI with its headers (apt-get install openmpi-bin libopenmpi-dev), and build again (make build)\n"
	if r.log != want {
		t.Errorf("says\n%swant\n%s", r.log, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// texts are samples of 8x8 pixels in CNTK's text format; those from the first to the last of huge are so large that a
// network overflows.
func texts(n int, huge ...int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "|labels %d %d |features", i%2, 1-i%2)
		for j := range 64 {
			v := fmt.Sprint((i*j)%7 - 3)
			if slices.Contains(huge, i) {
				v = "3e38"
			}
			b.WriteString(" " + v)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// placed is a configuration whose data lies in the working directory of each process.
const placed = `
command: [train]
reader: {type: ctf, path: /proc/self/cwd/data/train.txt, featureShape: [1, 8, 8], randomize: false}
network: {depth: 8}
learner: {minibatchSize: 64, maxEpochs: 1, learningRatesPerMB: 0.1, momentumPerMB: 0.9}
distributed: {workers: 4}
threads: 1
outputDir: runs
`

// elsewhere starts a job of which the third process works in a folder of its own.
func elsewhere(t *testing.T, dir, other string) ended {
	t.Helper()
	args := []string{"-config", filepath.Join(dir, "placed.yaml")}
	write(t, args[1], placed)
	if err := os.MkdirAll(other, 0o777); err != nil {
		t.Fatal(err)
	}
	more := func(n, wdir string) []string { return append([]string{":", "-n", n, "-wdir", wdir, binary}, args...) }
	return mpiexec(t, dir, 2, slices.Concat(args, more("1", other), more("1", dir))...).run(t, 0, nil)
}

func TestDataThatOneProcessLacksEndsAll(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "data", "train.txt"), texts(64))
	elsewhere(t, dir, other).ends(t, 1, regexp.QuoteMeta("worker 2: reader.path: /proc/self/cwd/data/train.txt: not there: reader.path takes a file in CNTK's text format"))
}

func TestDataThatDiffersEndsAll(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "data", "train.txt"), texts(64))
	write(t, filepath.Join(other, "data", "train.txt"), texts(64, 5))
	elsewhere(t, dir, other).ends(t, 2, "worker 2 has other data than worker 0: give all processes the same")
}

func TestConfigurationsThatDifferEndAll(t *testing.T) {
	for other, workers := range map[string]string{"1": "2", "2": "4"} { // one in a process, and two
		args := shared("distributed.workers=" + workers)
		j := mpiexec(t, t.TempDir(), 1, slices.Concat(args, []string{":", "-n", "1", binary}, args, []string{"learner.learningRatesPerMB=0.2"})...)
		j.run(t, 0, nil).ends(t, 2, "worker "+other+" has other configuration than worker 0: give all processes the same "+
			regexp.QuoteMeta("(gotrain check -print FILE, with the same arguments, shows each host's configuration)"))
	}
}

func TestProcessesThatHaveOtherNumbersOfWorkersAreRefused(t *testing.T) {
	args := shared()
	j := mpiexec(t, t.TempDir(), 1, slices.Concat(args, []string{":", "-n", "1", binary}, args, []string{"distributed.workers=8"})...)
	j.run(t, 0, nil).ends(t, 2, "joining the MPI job: some processes have 4 workers and others 8: give all the same distributed.workers")
}

func TestAConfigurationThatOneProcessLacksEndsAll(t *testing.T) {
	dir := t.TempDir()
	args := shared()
	j := mpiexec(t, dir, 1, slices.Concat(args, []string{":", "-n", "1", binary, "-config", "/proc/self/cwd/nothing.yaml"})...)
	e := j.run(t, 0, nil)
	if e.status != 2 || e.took > 15*time.Second || len(e.left) > 0 {
		t.Errorf("exit status %d after %v, processes left: %v", e.status, e.took, e.left)
	}
	contains(t, "standard error", e.log, "/proc/self/cwd/nothing.yaml: there is no such file")
}

func TestAPictureThatOneProcessCannotReadEndsAll(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, other} {
		if err := synthetic.Images(filepath.Join(d, "data"), []string{"daisy", "rose"}, 32, 16); err != nil {
			t.Fatal(err)
		}
	}
	pictures, err := filepath.Glob(filepath.Join(other, "data", "rose", "*"))
	if err != nil || len(pictures) != 32 {
		t.Fatal(pictures, err)
	}
	for _, path := range pictures { // each as long as before, so that all processes begin
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		b := []byte(read(t, path))
		clear(b[len(b)/2:])
		write(t, path, string(b))
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-config", filepath.Join(dir, "pictures.yaml")}
	write(t, args[1], strings.Replace(placed, "ctf, path: /proc/self/cwd/data/train.txt, featureShape: [1, 8, 8]", "images, path: /proc/self/cwd/data", 1))
	e := mpiexec(t, dir, 3, slices.Concat(args, []string{":", "-n", "1", "-wdir", other, binary}, args)...).run(t, 0, nil)
	host, _ := os.Hostname()
	e.ends(t, 1, `worker 3 on `+host+`: epoch 1, minibatch 1: /proc/self/cwd/data/rose/\S+: .*: mend or remove it, or set reader.onError: skip`)
}

func TestACheckpointThatCannotBeWrittenEndsAll(t *testing.T) {
	dir := t.TempDir()
	j := mpiexec(t, dir, 4, shared("checkpoint.everyMinibatches=10", "learner.maxEpochs=50")...)
	e := j.run(t, 25, func() {
		checkpoints := filepath.Join(runDir(t, dir), "checkpoints")
		if err := os.Rename(checkpoints, checkpoints+"-moved"); err != nil {
			t.Error(err)
		}
		write(t, checkpoints, "")
	})
	e.ends(t, 1, `saving the checkpoint of step [0-9]+: unlinkat \S+/checkpoints/[0-9]+: not a directory`)
}

// TestAFirstProcessThatIsSlowDoesNotEndTheJob keeps it from opening the run's log for several times the time limit.
func TestAFirstProcessThatIsSlowDoesNotEndTheJob(t *testing.T) {
	dir, args := t.TempDir(), shared("distributed.timeout=1s", "learner.maxEpochs=1")
	j := mpiexec(t, dir, 4, args...)
	j.run(t, 3, func() { syscall.Kill(j.process(t, 0), syscall.SIGUSR1) })
	path := filepath.Join(runDir(t, dir), "log")
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		time.Sleep(6 * time.Second) // until then, opening it waits
		f, err := os.Open(path)
		if err == nil {
			_, err = io.Copy(io.Discard, f)
		}
		read <- err
	}()
	e := mpiexec(t, dir, 4, args...).run(t, 0, nil)
	e.want(t, 0)
	if e.took < 5*time.Second || !continues.MatchString(e.log) {
		t.Errorf("took %v, and says\n%s", e.took, e.log)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// TestAJobThatCannotBeLeftHasFailed has MPI's own function fail.
func TestAJobThatCannotBeLeftHasFailed(t *testing.T) {
	grouptest.Skip(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "leave.c"), "int MPI_Finalize(void) { return 16; }")
	library := filepath.Join(dir, "leave.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", library, filepath.Join(dir, "leave.c")).CombinedOutput(); err != nil {
		t.Skipf("needs gcc: %v\n%s", err, out)
	}
	j := mpiexec(t, dir, 2, shared("learner.maxEpochs=1", "distributed.workers=2")...)
	j.Env = append(j.Env, "LD_PRELOAD="+library)
	e := j.run(t, 0, nil)
	if e.status != 1 || !strings.Contains(e.log, "gotrain: leaving the MPI job: MPI_Finalize: ") {
		t.Errorf("exit status %d, and says\n%s", e.status, e.log)
	}
}

func TestAWorkerThatDivergesEndsAll(t *testing.T) {
	for _, c := range []struct {
		processes int
		more      string
		minibatch string
	}{
		{4, "distributed.bits=1", "1"},
		{4, "distributed.overlap=false", "1"},
		{2, "distributed.bits=1", "1"},
		{4, "distributed.doubleBuffering=true", "2"}, // seen one minibatch later
		{2, "distributed.doubleBuffering=true", "2"},
		{2, "distributed.blockMomentum.blockSize=32", "1"},
	} {
		t.Run(fmt.Sprintf("%d processes, %s", c.processes, c.more), func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "data", "train.txt"), texts(64, 20))
			write(t, filepath.Join(dir, "placed.yaml"), placed)
			mpiexec(t, dir, c.processes, "-config", "placed.yaml", "learner.minibatchSize=32", c.more).run(t, 0, nil).ends(t, 1, "diverged in epoch 1, minibatch "+c.minibatch+
				": loss [0-9.e+NaInf]+, learning rate 0.1, gradient norm NaN, first value that is not finite in the gradient of fc.weight on worker 2; "+
				"lower the rate or set learner.gradientClippingNorm; the last good checkpoint is kept: none yet")
			if !strings.Contains(c.more, "block") { // where workers train by themselves, the first does not know
				contains(t, "the record", read(t, filepath.Join(runDir(t, dir), "run.json")), `"diverged"`)
			}
		})
	}
}
