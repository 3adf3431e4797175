package distributed

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gotrain/distributed/group"
	"gotrain/distributed/group/grouptest"
	"gotrain/distributed/quantizer"
	"gotrain/graph"
	"gotrain/internal/safetensors"
)

// golden is a file of reference aggregations; see the script that lies beside such files.
type golden struct {
	workers, steps, columns, rows int
	zero                          bool
	gradient                      []float32 // [steps][workers][columns][rows]
	aggregate                     []float32 // [steps][columns][rows]
	residual                      []float32 // [workers][columns][rows]
	stripe                        []float32 // [columns][rows]
	bits                          []int64   // [steps][workers][columns][rows]
}

func readGolden(t testing.TB, path string) golden {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	floats := func(name string) []float32 {
		d, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		return d.Data().([]float32)
	}
	bits, err := f.Tensor("bits")
	if err != nil {
		t.Fatal(err)
	}
	shape, _, _ := f.Shape("gradient")
	zero, err := strconv.ParseBool(f.Metadata()["zeroThreshold"])
	if err != nil {
		t.Fatal(err)
	}
	return golden{workers: shape[1], steps: shape[0], columns: shape[2], rows: shape[3], zero: zero, gradient: floats("gradient"),
		aggregate: floats("aggregate"), residual: floats("residual"), stripe: floats("stripeResidual"), bits: bits.Data().([]int64)}
}

// settings are buckets of several sizes.
func (g golden) settings() []Settings {
	return []Settings{
		{ZeroThreshold: g.zero},
		{ZeroThreshold: g.zero, BucketBytes: 1, Overlap: true},
		{ZeroThreshold: g.zero, BucketBytes: 4 * 5 * g.rows, Overlap: true},
	}
}

// TestGolden aggregates what the files of testdata/golden and of the folder GOTRAIN_GOLDEN have: in one process, and with MPI
// in each number of processes that their workers can be shared by.
func TestGolden(t *testing.T) {
	for _, dir := range []string{filepath.Join("testdata", "golden"), os.Getenv("GOTRAIN_GOLDEN")} {
		files, err := filepath.Glob(filepath.Join(dir, "onebit_*.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		if dir != "" && len(files) == 0 {
			t.Errorf("%s has no onebit files", dir)
		}
		for _, path := range files {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".safetensors"), func(t *testing.T) {
				g := readGolden(t, path)
				for _, s := range g.settings() {
					t.Run(fmt.Sprintf("buckets of %d", s.BucketBytes), func(t *testing.T) {
						g.check(t, group.Local(g.workers, 10*time.Second), s)
					})
				}
				for n := 1; n <= g.workers; n++ {
					if g.workers%n == 0 {
						t.Run(fmt.Sprintf("mpi, %d processes", n), func(t *testing.T) {
							grouptest.Run{Scenario: "golden", Processes: n, Workers: g.workers, Env: []string{"GOLDEN_FILE=" + path}}.Succeed(t)
						})
					}
				}
			})
		}
	}
}

func TestMain(m *testing.M) {
	grouptest.Main(m, map[string]grouptest.Scenario{"golden": checkInJob})
}

// checkInJob checks a file on the workers of one process of a job.
func checkInJob(j *group.Job) error {
	var found faults
	done := make(chan struct{})
	go func() {
		defer close(done)
		g := readGolden(&found, os.Getenv("GOLDEN_FILE"))
		for _, s := range g.settings() {
			g.check(&found, j.Members(), s)
		}
	}()
	<-done
	return found.err()
}

// faults collects what a check reports outside of a test.
type faults struct {
	testing.TB
	mu  sync.Mutex
	all []error
}

func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.all...)
}

func (f *faults) Helper()      {}
func (f *faults) Failed() bool { return f.err() != nil }
func (f *faults) FailNow()     { runtime.Goexit() }

func (f *faults) Error(args ...any)            { f.Errorf("%s", fmt.Sprint(args...)) }
func (f *faults) Fatal(args ...any)            { f.Error(args...); f.FailNow() }
func (f *faults) Fatalf(s string, args ...any) { f.Errorf(s, args...); f.FailNow() }
func (f *faults) Errorf(s string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Errorf(s, args...))
}

// check aggregates on the members of this process, which are all workers or some of them.
func (g golden) check(t testing.TB, members []group.Member, s Settings) {
	n := g.columns * g.rows
	layout, buckets := table(g.columns, g.rows)
	aggregators, arenas := make([]*Aggregator, len(members)), make([][]float32, len(members))
	for i, m := range members {
		arenas[i] = make([]float32, layout.Size)
		aggregators[i] = New(m, layout, buckets, arenas[i], s)
	}
	seen := make([]float64, g.columns) // the largest |v| of each column, which values are compared with
	for step := range g.steps {
		var wg sync.WaitGroup
		for i, m := range members {
			own := g.gradient[(step*g.workers+m.Rank())*n:][:n]
			g.checkBits(t, step, m.Rank(), aggregators[i], own)
			copy(arenas[i], own)
			wg.Go(func() {
				x := aggregators[i].Step(int64(step), 1, false)
				for _, b := range buckets {
					x.Ready(b, graph.Metrics{Loss: float64(m.Rank()), Count: 1})
				}
				metrics, err := x.Wait()
				if err != nil {
					t.Error(err)
				}
				if want := float64(g.workers * (g.workers - 1) / 2); metrics.Loss != want || metrics.Count != float64(g.workers) {
					t.Errorf("metrics %+v", metrics)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
		for w := range g.workers {
			for c := range g.columns {
				for r := range g.rows {
					seen[c] = max(seen[c], math.Abs(float64(g.gradient[(step*g.workers+w)*n+c*g.rows+r])))
				}
			}
		}
		for i := range members {
			g.compare(t, fmt.Sprintf("step %d, aggregate", step), arenas[i][:n], g.aggregate[step*n:][:n], seen)
		}
	}
	for i, m := range members {
		worker, owner, _, _ := aggregators[i].Residuals()
		g.compare(t, fmt.Sprintf("residual of worker %d", m.Rank()), worker[:n], g.residual[m.Rank()*n:][:n], seen)
		for _, b := range aggregators[i].buckets {
			for _, c := range b.Pieces[m.Rank()].Columns {
				g.compareColumn(t, "residual of the sum", int(c.Offset)/g.rows, owner[c.Offset:c.Offset+c.Rows], g.stripe[c.Offset:], seen)
			}
		}
	}
}

// checkBits quantizes a worker's gradient as its aggregator is about to, and compares the bits.
func (g golden) checkBits(t testing.TB, step, rank int, a *Aggregator, gradient []float32) {
	residual := make([]float32, len(gradient))
	if worker, _, owed, _ := a.Residuals(); owed {
		copy(residual, worker)
	}
	f := quantizer.Format{Bits: 1, ZeroThreshold: g.zero}
	for c := range g.columns {
		column := []quantizer.Column{{Offset: int32(c * g.rows), Rows: int32(g.rows)}}
		wire := make([]byte, f.Bytes(column))
		f.Encode(column, gradient, residual, make([]float32, len(gradient)), wire)
		for r := range g.rows {
			bit := int64(wire[8+r/8] >> (r % 8) & 1)
			if want := g.bits[((step*g.workers+rank)*g.columns+c)*g.rows+r]; bit != want {
				t.Fatalf("step %d, worker %d, column %d, row %d: bit %d, want %d", step, rank, c, r, bit, want)
			}
		}
	}
}

func (g golden) compare(t testing.TB, what string, got, want []float32, seen []float64) {
	t.Helper()
	for c := range g.columns {
		g.compareColumn(t, what, c, got[c*g.rows:][:g.rows], want[c*g.rows:], seen)
	}
}

func (g golden) compareColumn(t testing.TB, what string, c int, got, want []float32, seen []float64) {
	t.Helper()
	for r := range got {
		if d := math.Abs(float64(got[r]) - float64(want[r])); !(d <= 1e-5*seen[c]) {
			t.Fatalf("%s, column %d, row %d: %v, want %v (largest value seen %v)", what, c, r, got[r], want[r], seen[c])
		}
	}
}

// table is the layout of one weight of so many output channels, with a bucket for each of its columns.
func table(columns, rows int) (*graph.Layout, []graph.Bucket) {
	l := &graph.Layout{Slots: []graph.Slot{{Name: "weight", Shape: graph.Shape{columns, rows}}}, Size: columns * rows}
	var buckets []graph.Bucket
	for c := range columns {
		buckets = append(buckets, graph.Bucket{Begin: c * rows, End: (c + 1) * rows})
	}
	return l, buckets
}
