package cuda_test

import (
	"slices"
	"testing"

	"gotrain/cuda"
	"gotrain/cuda/emulator"
	"gotrain/distributed"
	"gotrain/graph"
)

// TestEveryForgottenWaitIsSeen leaves out the waits for events one after the other, and demands that the emulator objects to each.
//
// It cannot object to those by which a stream only joins a capture: there is nothing in the graph yet that it could come before. A GPU's
// driver would refuse the capture.
func TestEveryForgottenWaitIsSeen(t *testing.T) {
	small := randomBatch(1, 2, 3, 6, 5, 5)
	u := graph.Update{Rule: graph.SGD, Rate: 0.1, Gain: 1}
	for _, c := range []struct {
		name    string
		workers int
		staged  bool
		run     func(t *testing.T, f *cuda.Fleet) error
		joins   []int // waits by which streams only join
	}{
		{"a step of two workers", 2, false, func(t *testing.T, f *cuda.Fleet) error {
			c := onDevices(t, f, distributed.Settings{ZeroThreshold: true, Overlap: true, BucketBytes: 4096})
			_, errs := c.step(1, 1, randomBatch(1, 4, 3, 6, 5, 5))
			return errs[0]
		}, []int{0, 1, 3, 4, 5}},
		{"a step of two workers that do not reach each other", 2, true, func(t *testing.T, f *cuda.Fleet) error {
			c := onDevices(t, f, distributed.Settings{ZeroThreshold: true, Overlap: true})
			_, errs := c.step(1, 1, randomBatch(1, 4, 3, 6, 5, 5))
			return errs[0]
		}, []int{0, 1, 3, 4, 5}},
		{"a step through the host", 1, false, func(t *testing.T, f *cuda.Fleet) error {
			c := onHost(t, executors(f), f.Executor(0).Plan(), distributed.Settings{Overlap: true})
			_, errs := c.step(1, 32, small)
			return errs[0]
		}, []int{0}},
		{"a step alone", 1, false, func(t *testing.T, f *cuda.Fleet) error {
			_, err := f.Executor(0).Step(small, u, nil)
			return err
		}, []int{0}},
		{"an evaluation", 1, false, func(t *testing.T, f *cuda.Fleet) error {
			_, err := f.Executor(0).Evaluate(small, nil)
			return err
		}, []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			waits, drop := 0, -1
			d := emulator.New(emulator.Options{Devices: c.workers, NoPeers: c.staged, DropWait: func(int) bool { waits++; return waits-1 == drop }})
			run := func(n int) (int, error) {
				waits, drop = 0, n
				f, err := cuda.NewFleet(d, unnormed, cuda.Options{Workers: c.workers, Batch: 2})
				if err != nil {
					return waits, err
				}
				defer f.Close()
				for _, e := range executors(f) {
					start(t, e, 1)
				}
				return waits, c.run(t, f)
			}
			waits, err := run(-1)
			if err != nil {
				t.Fatal(err)
			}
			var unseen []int
			for n := range waits {
				if _, err := run(n); err == nil {
					unseen = append(unseen, n)
				}
			}
			if !slices.Equal(unseen, c.joins) {
				t.Errorf("of %d waits, the emulator does not see that %v are left out, want %v", waits, unseen, c.joins)
			}
			t.Logf("%d waits", waits)
		})
	}
}
