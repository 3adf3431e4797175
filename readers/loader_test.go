package readers

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gotrain/configs"
	"gotrain/graph"
)

// digest hashes all that the loader makes until io.EOF.
func digest(t *testing.T, ds Dataset, cfg LoaderConfig) [32]byte {
	t.Helper()
	l, err := NewLoader(ds, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := sha256.New()
	for {
		m, err := l.Next(context.Background())
		if err == io.EOF {
			return [32]byte(h.Sum(nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := binary.Write(h, binary.LittleEndian, m.Plan); err != nil {
			t.Fatal(err)
		}
		for _, part := range []any{m.Images, m.Labels, m.Weights, m.Divisor, m.Position, int64(m.Index), m.Last} {
			if err := binary.Write(h, binary.LittleEndian, part); err != nil {
				t.Fatal(err)
			}
		}
		m.Release()
	}
}

func TestMinibatchesDoNotDependOnPrefetchDecodersAndThreads(t *testing.T) {
	ds := open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 41), Transforms: cifarTransforms}, Train)
	base := LoaderConfig{Seed: 1, MinibatchSize: 64, End: 500, Shuffle: true, Decoders: 1}
	want := digest(t, ds, base)
	for _, prefetch := range []int{0, 1, 4} {
		for _, decoders := range []int{1, 3} {
			for _, procs := range []int{1, 4} {
				old := runtime.GOMAXPROCS(procs)
				cfg := base
				cfg.Prefetch, cfg.Decoders = prefetch, decoders
				got := digest(t, ds, cfg)
				runtime.GOMAXPROCS(old)
				if got != want {
					t.Errorf("prefetch %d, decoders %d, GOMAXPROCS %d: other minibatches", prefetch, decoders, procs)
				}
			}
		}
	}
	base.Seed = 2
	if digest(t, ds, base) == want {
		t.Error("another seed makes the same minibatches")
	}
}

// walk returns the plans of all minibatches.
func walk(t *testing.T, ds Dataset, cfg LoaderConfig) (all [][]Sample, shape string) {
	t.Helper()
	cfg.PlanOnly = true
	l, err := NewLoader(ds, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for {
		m, err := l.Next(context.Background())
		if err == io.EOF {
			return all, shape
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Images) > 0 {
			t.Error("PlanOnly fills pictures")
		}
		shape += fmt.Sprintf("%d.%d:%d/%d@%d", m.Epoch, m.Index, m.N, m.Count, m.Position)
		if m.Last {
			shape += "|"
		}
		shape += " "
		all = append(all, slices.Clone(m.Plan))
		m.Release()
	}
}

func TestEpochsAndSweepsCutThePositionIndependently(t *testing.T) {
	ds := open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 4)}, Train) // 20 samples
	tests := []struct {
		name string
		cfg  LoaderConfig
		want string
	}{
		{"the last minibatch is smaller and counts", LoaderConfig{MinibatchSize: 8, End: 40},
			"0.0:8/8@8 0.1:8/8@16 0.2:4/4@20| 1.0:8/8@28 1.1:8/8@36 1.2:4/4@40| "},
		{"a worker takes [size*r/n, size*(r+1)/n)", LoaderConfig{MinibatchSize: 8, End: 20, Worker: 1, Workers: 3},
			"0.0:3/8@8 0.1:3/8@16 0.2:1/4@20| "},
		{"a worker may get none", LoaderConfig{MinibatchSize: 3, End: 6, Worker: 0, Workers: 4},
			"0.0:0/3@3 0.1:0/3@6 "},
		{"an epoch may be longer than a sweep", LoaderConfig{MinibatchSize: 16, EpochSize: 30, End: 60},
			"0.0:16/16@16 0.1:14/14@30| 1.0:16/16@46 1.1:14/14@60| "},
		{"an epoch may be shorter", LoaderConfig{MinibatchSize: 8, EpochSize: 12, End: 24},
			"0.0:8/8@8 0.1:4/4@12| 1.0:8/8@20 1.1:4/4@24| "},
		{"training starts anywhere", LoaderConfig{MinibatchSize: 8, Start: 16, End: 28},
			"0.2:4/4@20| 1.0:8/8@28 "},
		{"training ends anywhere", LoaderConfig{MinibatchSize: 8, End: 10}, "0.0:8/8@8 0.1:2/2@10 "},
		{"a minibatch larger than the set is the set", LoaderConfig{MinibatchSize: 100, End: 20}, "0.0:20/20@20| "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, got := walk(t, ds, test.cfg); got != test.want {
				t.Errorf("epoch.index:share/count@position\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestSharesOfWorkersMakeUpTheMinibatch(t *testing.T) {
	ds := open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 7), Transforms: cifarTransforms}, Train)
	cfg := LoaderConfig{Seed: 3, MinibatchSize: 10, EpochSize: 24, End: 100, Shuffle: true}
	want, _ := walk(t, ds, cfg)
	for _, workers := range []int{2, 3, 4, 13} {
		got := make([][]Sample, len(want))
		for r := range workers {
			cfg.Worker, cfg.Workers = r, workers
			shares, _ := walk(t, ds, cfg)
			for i, s := range shares {
				got[i] = append(got[i], s...)
			}
		}
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("%d workers: minibatch %d is not one worker's", workers, i)
			}
		}
	}
}

func TestEverySampleComesOnceASweep(t *testing.T) {
	ds := open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 7), Transforms: cifarTransforms}, Train)
	plans, _ := walk(t, ds, LoaderConfig{Seed: 3, MinibatchSize: 8, EpochSize: 11, End: 70, Shuffle: true})
	all := slices.Concat(plans...)
	var flips, moves int
	for sweep := range 2 {
		var seen []int32
		for _, s := range all[sweep*35 : (sweep+1)*35] {
			seen = append(seen, s.Index)
			if s.Flip {
				flips++
			}
			if s.X != 0 || s.Y != 0 {
				moves++
			}
		}
		slices.Sort(seen)
		if !slices.Equal(seen, sequence(35, nil)) {
			t.Errorf("sweep %d: %v", sweep, seen)
		}
	}
	if flips < 20 || flips > 50 || moves < 60 {
		t.Errorf("of 70 samples %d are flipped and %d moved", flips, moves)
	}
}

func TestResumedLoaderGoesOnWhereTheOtherStopped(t *testing.T) {
	ds := open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 7), Transforms: cifarTransforms}, Train)
	cfg := LoaderConfig{Seed: 3, MinibatchSize: 8, End: 105, Shuffle: true}
	want, _ := walk(t, ds, cfg)
	for i, start := 0, int64(0); i < len(want); i++ {
		cfg.Start = start
		got, _ := walk(t, ds, cfg)
		if !slices.EqualFunc(got, want[i:], slices.Equal[[]Sample]) {
			t.Fatalf("from sample %d: other minibatches", start)
		}
		start += int64(len(want[i]))
	}
}

func TestLoaderRefusesWhatCannotBe(t *testing.T) {
	ds := open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 1)}, Train)
	tests := []struct {
		cfg  LoaderConfig
		want string
	}{
		{LoaderConfig{}, "minibatch of 0 samples: give at least 1"},
		{LoaderConfig{MinibatchSize: 1, EpochSize: -1}, "epoch of -1 samples: give at least 1, or 0 for one sweep"},
		{LoaderConfig{MinibatchSize: 1, Worker: 2, Workers: 2}, "worker 2 of 2: workers count from 0"},
		{LoaderConfig{MinibatchSize: 1, Start: 3, End: 2}, "samples 3 to 2: the first must not be negative nor above the second"},
		{LoaderConfig{MinibatchSize: 1, Prefetch: -1}, "prefetch -1, decoders 0: neither may be negative"},
	}
	for _, test := range tests {
		_, err := NewLoader(ds, test.cfg)
		fails(t, err, "", test.want)
	}
}

// stuck is a data set that fails or waits at one sample.
type stuck struct {
	Dataset
	at      int32
	release chan struct{} // waits for it, if not nil
}

func (s stuck) Fill(plan []Sample, b *graph.Batch) error {
	for _, p := range plan {
		if p.Index == s.at {
			if s.release == nil {
				return errors.New("broken sample")
			}
			<-s.release
		}
	}
	return s.Dataset.Fill(plan, b)
}

// noneLeft checks that no goroutine of a loader runs on. One that has said that it is done may need a moment to go.
func noneLeft(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		stacks := string(buf[:runtime.Stack(buf, true)])
		if !strings.Contains(stacks, "readers.(*Loader)") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a loader still runs:\n%s", stacks)
		}
	}
}

func TestErrorComesInOrderAndStopsTheLoader(t *testing.T) {
	ds := stuck{Dataset: open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 20)}, Train), at: 70}
	for _, prefetch := range []int{0, 3} {
		l, err := NewLoader(ds, LoaderConfig{MinibatchSize: 32, Prefetch: prefetch, Decoders: 2})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			m, err := l.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			m.Release()
		}
		for range 2 {
			_, err = l.Next(context.Background())
			fails(t, err, "", "broken sample")
		}
		l.Close()
		noneLeft(t)
	}
}

func TestClosedLoaderGivesNothing(t *testing.T) {
	l, err := NewLoader(open(t, configs.Reader{Type: "embedded"}, Test), LoaderConfig{MinibatchSize: 8})
	if err != nil {
		t.Fatal(err)
	}
	m, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // with the buffer still out, so that nothing else can be returned
	_, err = l.Next(t.Context())
	fails(t, err, "", "read a minibatch: the loader is closed")
	m.Release()
}

func TestCancellationAndCloseLeaveNoGoroutine(t *testing.T) {
	ds := stuck{Dataset: open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 20)}, Train), at: 40,
		release: make(chan struct{})}
	l, err := NewLoader(ds, LoaderConfig{MinibatchSize: 32, Prefetch: 2, Decoders: 2})
	if err != nil {
		t.Fatal(err)
	}
	m, err := l.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	m.Release()
	m.Release() // does nothing
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want the deadline", err)
	}
	if l.Wait() < 5*time.Millisecond {
		t.Errorf("waited %v, want about 10ms", l.Wait())
	}
	close(ds.release)
	if _, err := l.Next(context.Background()); err != nil { // a deadline of one call does not end the loader
		t.Fatal(err)
	}
	l.Close()
	for err = nil; err == nil; { // what was made before is still given
		_, err = l.Next(context.Background())
	}
	fails(t, err, "", "read a minibatch: the loader is closed")
	noneLeft(t)
}

func BenchmarkCIFAR10(b *testing.B) {
	s := &set{c: 3, h: 32, w: 32, labels: make([]int32, 50000), pixels: make([]byte, 50000*cifarPixels), classes: cifar10Names}
	for i := range s.pixels {
		s.pixels[i] = byte(i * 7)
	}
	t, err := compile(cifarTransforms, Train, s)
	if err != nil {
		b.Fatal(err)
	}
	ds := &dataset{set: s, t: t}
	l, err := NewLoader(ds, LoaderConfig{MinibatchSize: 128, Shuffle: true})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	n := 0
	for b.Loop() {
		m, err := l.Next(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		n += m.N
		m.Release()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "samples/s")
}
