package pipeline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/configs"
	"gotrain/internal/cores"
	"gotrain/readers"
)

func TestANetworkIsTestedOnItsKindOfData(t *testing.T) {
	set := func(c, h, w int, classes ...string) readers.Dataset {
		return kind{shape: [3]int{c, h, w}, classes: classes}
	}
	for _, c := range []struct {
		train, test readers.Dataset
		want        string
	}{
		{set(3, 32, 32, "a", "b"), set(1, 28, 28, "a", "b"), "reader: samples of the training set have the shape 3x32x32, and those of the test set 1x28x28: give two sets of one kind, or scale both"},
		{set(3, 32, 32, "a", "b"), set(3, 32, 32, "a", "b", "c"), "reader: the training set has 2 classes, and the test set 3: give two sets of one kind"},
		{set(3, 32, 32, "a", "b"), set(3, 32, 32, "a", "c"), `reader: class 1 is "b" in the training set, and "c" in the test set: give two sets of one kind`},
	} {
		demand(t, "comparing", sameKind(c.train, c.test), c.want)
	}
	if err := sameKind(set(3, 32, 32, "a"), set(3, 32, 32, "a")); err != nil {
		t.Error(err)
	}
}

// kind is a data set of which only the kind is known.
type kind struct {
	readers.Dataset
	shape   [3]int
	classes []string
}

func (k kind) Shape() (c, h, w int) { return k.shape[0], k.shape[1], k.shape[2] }
func (k kind) Classes() []string    { return k.classes }

// ctf writes training and test data in CNTK's text format, and gives the arguments that read them.
func ctf(t *testing.T, dir, train, test string) []string {
	t.Helper()
	for name, text := range map[string]string{"train.txt": train, "test.txt": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"reader.type=ctf", "reader.path=train.txt", "reader.testPath=test.txt", "reader.featureShape=[1, 1, 2]", "reader.transforms=[]"}
}

func TestATestSetOfOtherClassesIsFoundByRunAndCheck(t *testing.T) {
	dir := t.TempDir()
	args := ctf(t, dir, "|features 1 2 |labels 1 0\n|features 3 4 |labels 0 1\n", "|features 1 2 |labels 1 0 0\n")
	const want = "reader: the training set has 2 classes, and the test set 3: give two sets of one kind"
	cfg := small(t, dir, append(args, "command=[train, test]")...)
	_, err := try(cfg, nil)
	demand(t, "run", err, want)
	if runs := runsIn(t, dir); runs != nil {
		t.Errorf("it left %q", runs)
	}
	var report bytes.Buffer
	demand(t, "check", Check(context.Background(), cfg, &report), want)
	report.Reset()
	if err := Check(context.Background(), small(t, dir, args...), &report); err != nil || strings.Contains(report.String(), "test.txt") {
		t.Errorf("without a test to make: %v\n%s", err, report.String())
	}
}

func TestDataThatIsMissingIsNamedOnce(t *testing.T) {
	dir := t.TempDir()
	nowhere := filepath.Join(dir, "nowhere")
	one := "reader.path: " + nowhere + ": not there: reader.path takes the folder cifar-10-batches-bin"
	cfg := small(t, dir, "reader.type=cifar10", "reader.path=nowhere", "reader.transforms=[]", "command=[train, test]")
	_, err := try(cfg, nil)
	demand(t, "run", err, one)
	demand(t, "check", Check(context.Background(), cfg, &bytes.Buffer{}), one)
}

func TestAMinibatchIsNoLargerThanAnEpoch(t *testing.T) {
	var report bytes.Buffer
	if err := Check(context.Background(), small(t, t.TempDir(), "learner.minibatchSize=100000000"), &report); err != nil {
		t.Fatal(err)
	}
	if want := "training: 1 epochs of 128 samples, 1 minibatches of 128 each\n"; !strings.HasSuffix(report.String(), want) {
		t.Errorf("reports\n%swant at its end\n%s", report.String(), want)
	}
	plan, err := Plan(small(t, t.TempDir(), "learner.minibatchSize=100000000"), false)
	if err != nil || plan.Batch != 128 {
		t.Errorf("a plan of %d samples, %v", plan.Batch, err)
	}
}

func TestWhatThisBuildCannotDoIsRefused(t *testing.T) {
	for arg, want := range map[string]string{
		"log.metricsAddress=:9090": "argument log.metricsAddress=:9090: log.metricsAddress: :9090: not in this build: remove it",
	} {
		demand(t, arg, checkSupported(small(t, t.TempDir(), arg)), want)
	}
	for _, arg := range []string{"network.convolution=own", "network.convolution=cudnn", "distributed.warmStart=1000", "distributed.scaleMinibatch=true", "network.batchNorm.sync=true"} {
		if err := checkSupported(small(t, t.TempDir(), arg)); err != nil {
			t.Errorf("%s is for the device to refuse, or changes nothing: %v", arg, err)
		}
	}
}

func TestThreadsAreThoseOfTheCores(t *testing.T) {
	if got := threadsFor(small(t, t.TempDir(), "threads=auto"), 1); got != cores.Usable() {
		t.Errorf("%d threads on %d cores", got, cores.Usable())
	}
}

func TestFaultsOfBothSetsAreSaidOnce(t *testing.T) {
	a, b := errors.New("x\ny"), errors.New("y\nz")
	demand(t, "both", joinOnce(a, b), "x\ny\nz")
	demand(t, "the same", joinOnce(a, a), "x\ny")
	demand(t, "the first", joinOnce(a, nil), "x\ny")
	demand(t, "the second", joinOnce(nil, b), "y\nz")
	if err := joinOnce(nil, nil); err != nil {
		t.Error(err)
	}
}

func TestWhereDataOfAShippedConfigurationIsSetIsSaid(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for variable, dir := range map[string]string{"GOTRAIN_DATA": none, "HOME": filepath.Dir(none)} {
		t.Setenv("GOTRAIN_DATA", "")
		t.Setenv(variable, dir)
		missingData(t)
	}
}

func missingData(t *testing.T) {
	t.Helper()
	cfg, err := configs.Load("resnet20_10epochs", nil, configs.WithDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = try(cfg, nil)
	demand(t, "run", err, "reader.path: "+cfg.Reader.Path+
		": not there: reader.path takes the folder cifar-10-batches-bin: set reader.path, or GOTRAIN_DATA to the folder that it lies in")
}
