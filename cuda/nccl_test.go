package cuda_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gotrain/cuda"
	"gotrain/cuda/driver"
	"gotrain/cuda/nccl"
	"gotrain/distributed"
	"gotrain/graph"
)

var _ cuda.Link = (*nccl.Member)(nil)

// ncclCrew are workers on devices of a libcuda that computes nothing, joined by a libnccl whose ranks are threads of this process. Both
// are compiled for one test.
func ncclCrew(t *testing.T, n int, limit time.Duration, s distributed.Settings) *crew {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no gcc, which compiles the libraries for this test")
	}
	dir := t.TempDir()
	for variable, source := range map[string]string{"GOTRAIN_LIBCUDA": "driver/testdata/fake.c", "GOTRAIN_LIBNCCL": "nccl/testdata/fake.c"} {
		library := filepath.Join(dir, variable+".so")
		if out, err := exec.Command("gcc", "-shared", "-fPIC", "-pthread", "-o", library, source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Setenv(variable, library)
	}
	library, err := nccl.Open()
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.Open()
	if err != nil {
		t.Fatal(err)
	}
	id, err := library.NewID()
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{executors: make([]graph.Executor, n), aggregators: make([]aggregator, n)}
	for rank := range n {
		f, err := cuda.NewFleet(d, unnormed, cuda.Options{Devices: []int{rank}, Batch: 2, Eager: true}) // its graphs are short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		c.executors[rank] = f.Executor(0)
	}
	_, errs := together(n, func(rank int) (r graph.Result, err error) {
		e := c.executors[rank].(*cuda.Executor)
		m, err := library.Join(e.Device(), rank, n, id, limit)
		if err != nil {
			return r, err
		}
		t.Cleanup(func() { m.Close() })
		c.aggregators[rank], err = e.NewLinkedAggregator(s, m)
		return r, err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return c
}

// Workers make the same calls of NCCL, with messages of the same lengths, and what one wishes comes to the others by them.
func TestNCCLLinksWorkers(t *testing.T) {
	c := ncclCrew(t, 2, 10*time.Second, distributed.Settings{ZeroThreshold: true, Overlap: true, BucketBytes: 1 << 12})
	for i, bits := range []int{32, 1, 1, 32, 32} {
		step := int64(i)
		_, errs := together(2, func(w int) (graph.Result, error) {
			return c.executors[w].Step(cut(randomBatch(1, 4, 3, 6, 5, 5), w, 2), graph.Update{Rule: graph.SGD}, c.aggregators[w].Step(step, bits, w == 1 && i == 3))
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		for w, a := range c.aggregators {
			if want := i >= 3; a.Stop() != want {
				t.Errorf("step %d: worker %d stops: %v, want %v", i, w, a.Stop(), want)
			}
		}
	}
}

func TestAStepWaitsForALostWorkerForSoLong(t *testing.T) {
	c := ncclCrew(t, 2, 200*time.Millisecond, distributed.Settings{Overlap: true})
	_, err := c.executors[1].Step(cut(randomBatch(1, 4, 3, 6, 5, 5), 1, 2), graph.Update{Rule: graph.SGD}, c.aggregators[1].Step(3, 32, false))
	const want = "step 3: results, exchange stream of worker 1 on device 1: worker 1 waited 200ms for exchanging with all workers: another is dead, stopped, cut off or too slow; " +
		"the same command continues the run from its last checkpoint; raise distributed.timeout where an exchange may take longer; NCCL_DEBUG=INFO in the environment tells more"
	if !errors.As(err, new(*nccl.TimeoutError)) || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}
