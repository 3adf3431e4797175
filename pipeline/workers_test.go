package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotrain/configs"
)

// model reads the final model of the only run of a folder.
func model(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(only(t, dir), modelPart))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// modes are ways of training with several workers.
var modes = map[string][]string{
	"dense":             {"distributed.workers=4"},
	"1 bit":             {"distributed.workers=4", "distributed.bits=1"},
	"4 bits, 3 workers": {"distributed.workers=3", "distributed.bits=4"},
	"1 bit, alone":      {"distributed.bits=1"},
	"bits by epoch":     {"distributed.workers=2", "distributed.bits=1*1:32*1:2"},
	"warm start":        {"distributed.workers=2", "distributed.bits=1", "distributed.warmStart=200"},
	"warm start, alone": {"distributed.workers=2", "distributed.bits=1", "distributed.warmStart.samples=150", "distributed.warmStart.mode=single"},
	"double buffering":  {"distributed.workers=2", "distributed.bits=1", "distributed.doubleBuffering=true"},
	"dense and late":    {"distributed.workers=2", "distributed.doubleBuffering=true"},
	"block momentum":    {"distributed.workers=2", "distributed.blockMomentum.blockSize=64"},
	"own momentum":      {"distributed.workers=2", "distributed.blockMomentum.blockSize=32", "distributed.blockMomentum.resetMomentum=false"},
	"model averaging":   {"distributed.workers=3", "distributed.blockMomentum.blockSize=32", "distributed.blockMomentum.momentum=0"},
	"tiny minibatches":  {"distributed.workers=4", "distributed.bits=1", "learner.minibatchSize=3", "learner.epochSize=8"},
	"small buckets":     {"distributed.workers=3", "distributed.bits=1", "distributed.bucketSize=4", "distributed.overlap=false", "distributed.columns=3"},
	"adam, clipped":     {"distributed.workers=2", "distributed.bits=1", "learner.type=adam", "learner.momentumPerMB=null", "learner.gradientClippingNorm=0.5"},
}

// TestWorkersResumeToTheBit trains three epochs at once, a second time, and stopped behind every minibatch and continued:
// all end with the same bits.
func TestWorkersResumeToTheBit(t *testing.T) {
	for name, args := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"learner.maxEpochs=3", "learner.epochSize=96"}, args...)
			straight, again, stopped := t.TempDir(), t.TempDir(), t.TempDir()
			do(t, small(t, straight, args...), nil)
			do(t, small(t, again, args...), nil)
			want := model(t, straight)
			if !bytes.Equal(want, model(t, again)) {
				t.Error("two runs differ")
			}
			for n := 0; ; n++ {
				cfg := small(t, stopped, args...)
				if n == 4 { // the rest at once
					do(t, cfg, nil)
					break
				}
				stop(t, cfg, nil)
			}
			if !bytes.Equal(want, model(t, stopped)) {
				t.Error("a run that was stopped and continued ends with other bits")
			}
		})
	}
}

// TestBucketsAndOverlapChangeNothing compares how gradients travel, which must not matter.
func TestBucketsAndOverlapChangeNothing(t *testing.T) {
	for _, bits := range []string{"32", "1"} {
		var want []byte
		for i, args := range [][]string{nil, {"distributed.bucketSize=4"}, {"distributed.bucketSize=1000000"}, {"distributed.overlap=false", "distributed.bucketSize=20000"}} {
			dir := t.TempDir()
			do(t, small(t, dir, append([]string{"distributed.workers=3", "distributed.bits=" + bits}, args...)...), nil)
			if got := model(t, dir); i == 0 {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s bits, %v: another model", bits, args)
			}
		}
	}
}

// TestOneWorkerAt32BitsIsNoQuantization compares 1 worker with the ordinary training, and a bits that changes nothing.
func TestOneWorkerAt32BitsIsNoQuantization(t *testing.T) {
	plain, scheduled := t.TempDir(), t.TempDir()
	do(t, small(t, plain), nil)
	do(t, small(t, scheduled, "distributed.bits=32*1:1"), nil) // has an aggregator, whose one epoch is dense
	if !bytes.Equal(model(t, plain), model(t, scheduled)) {
		t.Error("the aggregator changes bits at 32 bits")
	}
}

// owedBy sums what a run's workers owe, as a run that goes on from its last checkpoint holds it: by value over the workers,
// of their gradients and of the sums.
func owedBy(t *testing.T, cfg *configs.Config, change func(*Settings)) (gradients, sums []float64) {
	t.Helper()
	s := Settings{Config: cfg, Out: io.Discard, Log: io.Discard, Version: "v1"}
	if change != nil {
		change(&s)
	}
	r, err := openRun(s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close(nil)
	for _, w := range r.workers {
		own, owned, owed, err := w.aggregator.Residuals()
		if err != nil {
			t.Fatal(err)
		}
		if !owed {
			t.Fatal("nothing is owed")
		}
		if gradients == nil {
			gradients, sums = make([]float64, len(own)), make([]float64, len(own))
		}
		for i := range own {
			gradients[i] += float64(own[i])
			sums[i] += float64(owned[i])
		}
	}
	return gradients, sums
}

// TestAnotherNumberOfWorkers continues a run whose residuals are those of four workers with others: together they owe as much.
func TestAnotherNumberOfWorkers(t *testing.T) {
	args := []string{"distributed.bits=1", "learner.maxEpochs=2"}
	for _, c := range []struct{ workers, bits string }{{"2", "1"}, {"8", "1"}, {"1", "1"}, {"1", "32"}} {
		dir := t.TempDir()
		four := small(t, dir, append(args, "distributed.workers=4")...)
		stop(t, four, nil)
		gradients, sums := owedBy(t, four, nil)
		other := small(t, dir, "learner.maxEpochs=2", "distributed.workers="+c.workers, "distributed.bits="+c.bits)
		if _, err := try(other, nil); err == nil || !strings.Contains(err.Error(), "distributed.workers: 4 -> "+c.workers) {
			t.Errorf("says %v", err)
		}
		g, s := owedBy(t, other, accepting)
		if off(gradients, g) > 1e-6 || off(sums, s) > 0 {
			t.Errorf("%s workers at %s bits owe other sums: by %v of gradients, by %v of sums", c.workers, c.bits, off(gradients, g), off(sums, s))
		}
		if screen := do(t, other, accepting).screen; !strings.Contains(screen, "from epoch 1, minibatch 2") {
			t.Errorf("says\n%s", screen)
		}
	}
}

// off is the largest difference of two vectors, as a share of the largest value.
func off(a, b []float64) float64 {
	difference, largest := 0.0, 0.0
	for i := range a {
		difference, largest = max(difference, math.Abs(a[i]-b[i])), max(largest, math.Abs(a[i]))
	}
	return difference / largest
}

// TestAPendingAggregateIsLeftOutWithoutDoubleBuffering switches it off in the middle of an epoch.
func TestAPendingAggregateIsLeftOutWithoutDoubleBuffering(t *testing.T) {
	for _, args := range [][]string{{"distributed.workers=2", "distributed.bits=1"}, {"distributed.workers=1", "distributed.bits=32"}} {
		dir := t.TempDir()
		stop(t, small(t, dir, "distributed.workers=2", "distributed.bits=1", "distributed.doubleBuffering=true"), nil)
		s := do(t, small(t, dir, args...), accepting)
		want := "warning: the gradient of one minibatch is left out: it waited for its update, and without distributed.doubleBuffering nothing waits\n"
		if !strings.Contains(s.screen, want) {
			t.Errorf("%v: says\n%s", args, s.screen)
		}
		c, _, err := newCheckpoints(only(t, dir), 0).Load()
		if err != nil {
			t.Fatal(err)
		}
		var st State
		if err := c.JSON(statePart, &st); err != nil || st.Pending != nil {
			t.Errorf("%v: the last checkpoint has a pending aggregate: %v, %v", args, st.Pending, err)
		}
	}
}

// TestADivergenceFoundByACheckpointIsOne has an aggregate that is not finite, which a checkpoint is the first to wait for.
func TestADivergenceFoundByACheckpointIsOne(t *testing.T) {
	_, err := try(small(t, t.TempDir(), "distributed.workers=2", "distributed.doubleBuffering=true", "distributed.bits=1", "checkpoint.everyMinibatches=1",
		"learner.learningRatesPerMB=1e30", "learner.epochSize=320"), nil)
	if d := (*DivergedError)(nil); !errors.As(err, &d) || !strings.HasPrefix(err.Error(), "diverged in epoch 1, minibatch ") {
		t.Errorf("says %v", err)
	}
}

func TestResidualsAreDealtOutEqually(t *testing.T) {
	got := dealt([][]float32{{1, 2}, {3, -4}, {5, 8}}, 2)
	if fmt.Sprint(got) != "[[4.5 3] [4.5 3]]" {
		t.Error(got)
	}
}

func TestStatisticsAreWeightedBySamples(t *testing.T) {
	got := weighted([][]float32{{1, 0.1}, {4, 0.1}, {100, 0.1}}, []int64{2, 1, 0})
	if fmt.Sprint(got) != "[2 0.1]" {
		t.Error(got)
	}
}

// TestSynchronizedWorkersTrainAsOne compares workers with synchronized batch norm, whose shares are uneven, with one worker.
func TestSynchronizedWorkersTrainAsOne(t *testing.T) {
	losses := func(args ...string) string {
		s := do(t, small(t, t.TempDir(), append([]string{"learner.minibatchSize=30", "learner.epochSize=120", "network.batchNorm.sync=true"}, args...)...), nil)
		return s.out
	}
	var one, four struct{ loss, errors float64 }
	read := func(line string, to *struct{ loss, errors float64 }) {
		if _, err := fmt.Sscanf(line, "Finished Epoch [1]: [Training] loss = %g * 120, metric = %g%%", &to.loss, &to.errors); err != nil {
			t.Fatal(err, line)
		}
	}
	read(losses(), &one)
	read(losses("distributed.workers=4"), &four)
	apart := func(loss float64) float64 { return math.Abs(loss-one.loss) / one.loss }
	if apart(four.loss) > 1e-5 {
		t.Errorf("one worker %v, four %v", one, four)
	}
	if read(losses("distributed.workers=4", "network.batchNorm.sync=false"), &four); apart(four.loss) < 1e-4 {
		t.Errorf("four workers with statistics of their own lose %v as one does, %v: the comparison shows nothing", four, one)
	}
}

// TestMoreWorkersThatAreSlowerAreWarnedOf has a split whose exchange takes most of the time.
func TestMoreWorkersThatAreSlowerAreWarnedOf(t *testing.T) {
	s := split{steps: 10, total: 10 * time.Second}
	s.Exposed = 8 * time.Second
	four := &team{workers: 4}
	want := "4 workers trained 100 samples a second, and one worker of its own with the threads of all would train about 500: gotrain profile says what the exchange takes; train with fewer workers, larger minibatches, fewer bits or a faster network"
	if got := s.slower(four, 1000); got != want {
		t.Errorf("says %q\nwant %q", got, want)
	}
	s.Exposed = 0
	if got := s.slower(four, 1000); got != "" {
		t.Errorf("says %q", got)
	}
}

// TestAutoChoosesOnceAndSaysWhy continues a run that has chosen its bits.
func TestAutoChoosesOnceAndSaysWhy(t *testing.T) {
	dir := t.TempDir()
	auto := func() *configs.Config { return small(t, dir, "distributed.workers=2", "distributed.bits=auto") }
	first := stop(t, auto(), nil)
	r, err := ReadRecord(only(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if r.Chosen == nil || !slices.Contains(allBits, r.Chosen.Bits) || r.Chosen.BucketBytes == 0 || !strings.Contains(first.screen, r.Chosen.Why) {
		t.Fatalf("record %+v, says\n%s", r.Chosen, first.screen)
	}
	second := do(t, auto(), nil)
	if !strings.Contains(second.screen, r.Chosen.Why) {
		t.Errorf("goes on with another choice than %q:\n%s", r.Chosen.Why, second.screen)
	}
}

func TestProfileSaysWhatBitsTake(t *testing.T) {
	if err := Profile(context.Background(), Settings{Config: small(t, t.TempDir(), "distributed.workers=4", "learner.minibatchSize=3"), Out: io.Discard, Log: io.Discard}); err != nil {
		t.Error(err) // one worker has no sample
	}
	var out bytes.Buffer
	if err := Profile(context.Background(), Settings{Config: small(t, t.TempDir(), "distributed.workers=2"), Out: &out, Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 workers in this process, 1 threads each", "bits         sent    compute   quantize   exchange     hidden    exposed   predicted   measured",
		"\n   32 ", "\n    1 ", "<- chosen", "Would 1 bit pay here?", "One worker alone, with the threads of all workers of its host, takes|warning: 2 workers take"} {
		if !slices.ContainsFunc(strings.Split(want, "|"), func(s string) bool { return strings.Contains(out.String(), s) }) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestScaledMinibatchesScaleRates compares 3 workers with minibatches of 32 each with one that has them of 96, and three times
// the rate.
func TestScaledMinibatchesScaleRates(t *testing.T) {
	cfg := small(t, t.TempDir(), "distributed.workers=3", "distributed.scaleMinibatch=true", "learner.learningRatesPerMB=0.01*2:0.001")
	l := learnerOf(cfg)
	if l.MinibatchSize != 96 || fmt.Sprint(l.LearningRatesPerMB) != "0.03*2:0.003" {
		t.Errorf("minibatches of %d, rates %v", l.MinibatchSize, l.LearningRatesPerMB)
	}
	if cfg.Learner.MinibatchSize != 32 || cfg.Learner.LearningRatesPerMB[0].Value != 0.01 {
		t.Errorf("the configuration itself has changed: %+v", cfg.Learner)
	}
	cfg.Learner.LearningRatesPerSample = configs.PerEpoch{{Value: 0.01, Epochs: 1}}
	if l := learnerOf(cfg); l.LearningRatesPerSample[0].Value != 0.01 {
		t.Errorf("a rate for a sample has become %v", l.LearningRatesPerSample)
	}
}

// TestLinesWithinAnEpochShowWholeBlocks has blocks of two minibatches, whose metrics are known behind the second.
func TestLinesWithinAnEpochShowWholeBlocks(t *testing.T) {
	s := do(t, small(t, t.TempDir(), "distributed.workers=2", "distributed.blockMomentum.blockSize=64", "learner.numMBsToShowResult=1"), nil)
	for _, want := range []string{"-Minibatch[   1-   2, 50.00%]: ", "-Minibatch[   3-   4, 100.00%]: "} {
		if strings.Count(s.screen, want) != 1 {
			t.Errorf("no %q in\n%s", want, s.screen)
		}
	}
	if n := strings.Count(s.screen, "-Minibatch["); n != 2 {
		t.Errorf("%d lines in\n%s", n, s.screen)
	}
}
