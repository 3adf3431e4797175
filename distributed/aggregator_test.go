package distributed

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gotrain/distributed/group"
	"gotrain/graph"
)

// crew is workers whose gradients are aggregated.
type crew struct {
	layout      *graph.Layout
	plan        []graph.Bucket
	aggregators []*Aggregator
	arenas      [][]float32
}

// newCrew gives workers a weight of 5 columns of 12 values, a vector, and a weight of 7 columns of 4, with padding between.
func newCrew(workers int, s Settings) *crew {
	c := &crew{layout: &graph.Layout{Slots: []graph.Slot{
		{Name: "conv", Shape: graph.Shape{5, 3, 2, 2}, Offset: 0},
		{Name: "norm", Shape: graph.Shape{5}, Offset: 64},
		{Name: "fc", Shape: graph.Shape{7, 4}, Offset: 80},
	}, Size: 112}, plan: []graph.Bucket{{Begin: 0, End: 64}, {Begin: 64, End: 80}, {Begin: 80, End: 112}}}
	for _, m := range group.Local(workers, 10*time.Second) {
		arena := make([]float32, c.layout.Size)
		c.arenas = append(c.arenas, arena)
		c.aggregators = append(c.aggregators, New(m, c.layout, c.plan, arena, s))
	}
	return c
}

// each does something on all workers at the same time.
func (c *crew) each(do func(w int, a *Aggregator) (graph.Metrics, error)) (metrics []graph.Metrics, errs []error) {
	metrics, errs = make([]graph.Metrics, len(c.aggregators)), make([]error, len(c.aggregators))
	done := make(chan int)
	for w, a := range c.aggregators {
		go func() {
			metrics[w], errs[w] = do(w, a)
			done <- w
		}()
	}
	for range c.aggregators {
		<-done
	}
	return metrics, errs
}

// step aggregates gradients; worker w has w samples.
func (c *crew) step(n int64, bits int, gradients [][]float32) ([]graph.Metrics, []error) {
	return c.each(func(w int, a *Aggregator) (graph.Metrics, error) {
		copy(c.arenas[w], gradients[w])
		x := a.Step(n, bits, false)
		for _, b := range c.plan {
			x.Ready(b, graph.Metrics{Loss: float64(w) / 2, Errors: 1, Count: float64(w)})
		}
		return x.Wait()
	})
}

// must is step where nothing goes wrong, and all come to the same.
func (c *crew) must(t *testing.T, n int64, bits int, gradients [][]float32) []float32 {
	t.Helper()
	metrics, errs := c.step(n, bits, gradients)
	return c.agree(t, metrics, errs)
}

func (c *crew) agree(t *testing.T, metrics []graph.Metrics, errs []error) []float32 {
	t.Helper()
	n := float64(len(errs))
	for w := range errs {
		if want := (graph.Metrics{Loss: n * (n - 1) / 4, Errors: n, Count: n * (n - 1) / 2}); errs[w] != nil || metrics[w] != want {
			t.Fatalf("worker %d: %+v, want %+v; %v", w, metrics[w], want, errs[w])
		}
		c.equal(t, fmt.Sprintf("worker %d", w), c.arenas[w], c.arenas[0])
	}
	return slices.Clone(c.arenas[0])
}

// equal compares the values of all tensors to the bit.
func (c *crew) equal(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for _, s := range c.layout.Slots {
		for i := s.Offset; i < s.End(); i++ {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("%s: %s, value %d: %v, want %v", what, s.Name, i-s.Offset, got[i], want[i])
			}
		}
	}
}

// random are gradients whose sum depends on the order of the workers.
func (c *crew) random(seed uint64) [][]float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	all := make([][]float32, len(c.aggregators))
	for w := range all {
		all[w] = make([]float32, c.layout.Size)
		for i := range all[w] {
			all[w][i] = float32(r.NormFloat64() * math.Pow(10, float64(r.IntN(5))-2))
		}
	}
	return all
}

// sum adds in the order of the workers.
func sum(all [][]float32) []float32 {
	total := slices.Clone(all[0])
	for _, values := range all[1:] {
		for i, v := range values {
			total[i] += v
		}
	}
	return total
}

func TestDenseAggregatesAreSumsInTheOrderOfTheWorkers(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 5, 40} {
		for _, s := range []Settings{{}, {Overlap: true, BucketBytes: 1}, {BucketBytes: 300, Columns: 3}} {
			c := newCrew(workers, s)
			for n := range int64(3) {
				g := c.random(uint64(n))
				c.equal(t, fmt.Sprintf("%d workers, %+v, step %d", workers, s, n), c.must(t, n, 32, g), sum(g))
			}
		}
	}
}

func TestTheFirstDenseStepAddsWhatIsOwedOnce(t *testing.T) {
	c := newCrew(3, Settings{ZeroThreshold: true, BucketBytes: 1, Overlap: true})
	for n := range int64(4) {
		c.must(t, n, 1, c.random(uint64(n)))
	}
	g := c.random(9)
	corrected := make([][]float32, len(g))
	owed := make([]float32, c.layout.Size) // each column's from its owner
	for w, a := range c.aggregators {
		worker, owner, some, _ := a.Residuals()
		if !some {
			t.Fatalf("worker %d owes nothing after steps at 1 bit", w)
		}
		corrected[w] = sum([][]float32{g[w], worker})
		owed = sum([][]float32{owed, owner})
	}
	c.equal(t, "the first dense step", c.must(t, 4, 32, g), sum([][]float32{sum(corrected), owed}))
	for w, a := range c.aggregators {
		if _, _, some, _ := a.Residuals(); some {
			t.Errorf("worker %d still owes", w)
		}
	}
	g = c.random(10)
	c.equal(t, "the second dense step", c.must(t, 5, 32, g), sum(g))

	// A fresh crew and this one owe the same again: nothing has been left over.
	fresh := newCrew(3, Settings{ZeroThreshold: true, BucketBytes: 1, Overlap: true})
	c.equal(t, "1 bit again", c.must(t, 6, 1, g), fresh.must(t, 0, 1, g))
}

func TestDoubleBufferingGivesTheAggregateOfTheStepBefore(t *testing.T) {
	for _, bits := range []int{32, 1} {
		s := Settings{ZeroThreshold: true, BucketBytes: 1, Overlap: true}
		now := newCrew(3, s)
		s.DoubleBuffering = true
		late := newCrew(3, s)
		var before []float32
		for n := range int64(4) {
			g := late.random(uint64(n))
			metrics, errs := late.step(n, bits, g)
			if n == 0 {
				for w, err := range errs {
					if !errors.Is(err, graph.ErrNoAggregate) {
						t.Errorf("worker %d has an aggregate in the first step: %v", w, err)
					}
				}
			} else {
				late.equal(t, fmt.Sprintf("%d bits, step %d", bits, n), late.agree(t, metrics, errs), before)
			}
			before = now.must(t, n, bits, g)
		}
		drain := func(_ int, a *Aggregator) (graph.Metrics, error) { return a.Drain().Wait() }
		metrics, errs := late.each(drain)
		late.equal(t, fmt.Sprintf("%d bits, drained", bits), late.agree(t, metrics, errs), before)
		if _, errs = late.each(drain); !errors.Is(errs[0], graph.ErrNoAggregate) {
			t.Errorf("the last aggregate comes twice: %v", errs[0])
		}
	}
}

func TestAValueThatIsNotFiniteStopsAllWorkersBeforeResidualsChange(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, c := range []struct {
			name string
			bits int
			set  func(g [][]float32)
			want string
		}{
			{"NaN at 1 bit", 1, func(g [][]float32) { g[1][66] = float32(math.NaN()) }, "the gradient of norm on worker 1 is not finite"},
			{"infinite at 4 bits", 4, func(g [][]float32) { g[2][81] = float32(math.Inf(-1)) }, "the gradient of fc on worker 2 is not finite"},
			{"NaN at 32 bits", 32, func(g [][]float32) { g[0][59] = float32(math.NaN()) }, "the gradient of conv on worker 0 is not finite"},
			{"on several workers, in several tensors", 1, func(g [][]float32) {
				g[2][0], g[1][30], g[0][100] = float32(math.NaN()), float32(math.NaN()), float32(math.NaN())
			}, "the gradient of conv on worker 1 is not finite"},
			{"a sum", 32, func(g [][]float32) { g[0][68], g[1][68] = math.MaxFloat32, math.MaxFloat32 }, "the sum of all workers' gradients of norm is not finite"},
			{"the sum of a column of sums", 1, func(g [][]float32) {
				for i := range 12 {
					g[0][i], g[1][i] = 2e37, math.MaxFloat32/13
				}
			}, "the sum of all workers' gradients of conv is not finite"},
		} {
			t.Run(fmt.Sprintf("%s, late %v", c.name, late), func(t *testing.T) {
				crew := newCrew(3, Settings{ZeroThreshold: true, BucketBytes: 1, Overlap: true, DoubleBuffering: late})
				crew.step(0, 1, crew.random(0))
				crew.step(1, 1, crew.random(1))
				var before [][]float32
				for _, a := range crew.aggregators {
					worker, owner, _, _ := a.Residuals()
					before = append(before, slices.Clone(worker), slices.Clone(owner))
				}
				g := crew.random(2)
				c.set(g)
				_, errs := crew.step(2, c.bits, g)
				if late { // the step's own aggregate comes with the next, when its residuals count already
					_, errs = crew.step(3, c.bits, crew.random(3))
				}
				for w, err := range errs {
					var not *NotFiniteError
					if !errors.As(err, &not) || err.Error() != c.want {
						t.Errorf("worker %d: %v, want %s", w, err, c.want)
					}
				}
				for w, a := range crew.aggregators {
					worker, owner, _, _ := a.Residuals()
					if !late && (!slices.Equal(worker, before[2*w]) || !slices.Equal(owner, before[2*w+1])) {
						t.Errorf("the residuals of worker %d have changed", w)
					}
				}
			})
		}
	}
}

func TestAnEmptyShareAddsNothing(t *testing.T) {
	c := newCrew(4, Settings{ZeroThreshold: true, Overlap: true})
	g := c.random(0)
	for _, w := range []int{0, 2} {
		clear(g[w]) // as executors leave it
	}
	c.equal(t, "dense", c.must(t, 0, 32, g), sum([][]float32{g[1], g[3]}))
	c.must(t, 1, 1, g)
	for _, w := range []int{0, 2} {
		if worker, _, _, _ := c.aggregators[w].Residuals(); slices.ContainsFunc(worker, func(v float32) bool { return v != 0 }) {
			t.Errorf("worker %d, which has had no samples, owes %v", w, worker)
		}
	}
}

func TestAnyWorkerStopsAll(t *testing.T) {
	c := newCrew(3, Settings{})
	step := func(who int) {
		_, errs := c.each(func(w int, a *Aggregator) (graph.Metrics, error) {
			x := a.Step(0, 32, w == who)
			x.Ready(graph.Bucket{End: c.layout.Size}, graph.Metrics{})
			return x.Wait()
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range []int{-1, 2} {
		step(who)
		for w, a := range c.aggregators {
			if a.Stop() != (who >= 0) {
				t.Errorf("worker %d asks to stop: worker %d: %v", who, w, a.Stop())
			}
		}
	}
}

func TestEveryColumnHasOneOwnerAndTheyOwnEqualParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		l := &graph.Layout{}
		var plan []graph.Bucket
		for range 1 + r.IntN(12) {
			shape := graph.Shape{1 + r.IntN(40), 1 + r.IntN(9)}
			if r.IntN(3) == 0 {
				shape = shape[:1]
			}
			s := graph.Slot{Name: fmt.Sprint(len(l.Slots)), Shape: shape, Offset: l.Size}
			l.Slots = append(l.Slots, s)
			l.Size = (s.End() + 15) / 16 * 16
			plan = append(plan, graph.Bucket{Begin: s.Offset, End: l.Size})
		}
		workers, size, bytes := 1+r.IntN(9), r.IntN(3)*7, []int{0, 1, 400}[r.IntN(3)]
		all := columns(l, size)
		at, end := 0, 0
		for _, b := range Buckets(l, plan, Settings{BucketBytes: bytes, Columns: size}, workers) {
			if b.Begin != end {
				t.Fatalf("a bucket begins at %d, and the one before ends at %d", b.Begin, end)
			}
			end = b.End
			total, largest := 0, 0
			var owned []int
			for _, p := range b.Pieces {
				n, inRuns := 0, 0
				for _, c := range p.Columns {
					if c != all[at] {
						t.Fatalf("column %d is %+v, want %+v", at, c, all[at])
					}
					if int(c.Offset) < b.Begin || int(c.Offset+c.Rows) > b.End {
						t.Fatalf("%+v does not lie in its bucket %d to %d", c, b.Begin, b.End)
					}
					at++
					n += int(c.Rows)
					largest = max(largest, int(c.Rows))
				}
				for _, c := range p.Runs {
					inRuns += int(c.Rows)
				}
				if inRuns != n {
					t.Fatalf("%d values in columns and %d in runs", n, inRuns)
				}
				owned = append(owned, n)
				total += n
			}
			for _, n := range owned {
				if d := math.Abs(float64(n) - float64(total)/float64(workers)); d > float64(largest) {
					t.Fatalf("%d workers own %v values, of columns of %d at most", workers, owned, largest)
				}
			}
		}
		if at != len(all) || end != l.Size {
			t.Fatalf("%d of %d columns have owners, %d of %d values are in buckets", at, len(all), end, l.Size)
		}
	}
}

func TestAWorkerKeepsResidualsOfTheSumsThatItOwns(t *testing.T) {
	c := newCrew(4, Settings{BucketBytes: 1})
	ones, all := make([]float32, c.layout.Size), make([]float32, c.layout.Size)
	for i := range ones {
		ones[i] = 1
	}
	for w, a := range c.aggregators {
		own := slices.Repeat([]float32{float32(w)}, c.layout.Size)
		a.SetResiduals(own, ones)
		worker, owner, owed, _ := a.Residuals()
		if !owed {
			t.Errorf("worker %d owes nothing", w)
		}
		c.equal(t, "the worker's own", worker, own)
		all = sum([][]float32{all, owner})
	}
	c.equal(t, "those of the sums", all, ones) // each once
}

// slowMember takes its time to send gradients.
type slowMember struct{ group.Member }

func (s slowMember) Exchange(tag group.Tag, send, recv [][]byte) error {
	if tag.Phase == group.Scatter {
		time.Sleep(50 * time.Millisecond)
	}
	return s.Member.Exchange(tag, send, recv)
}

// TestResidualsAreThoseBehindThePendingAggregate asks for them while an exchange is under way, as a checkpoint does.
func TestResidualsAreThoseBehindThePendingAggregate(t *testing.T) {
	c := newCrew(2, Settings{ZeroThreshold: true, BucketBytes: 1, Overlap: true, DoubleBuffering: true})
	for _, a := range c.aggregators {
		a.member = slowMember{a.member}
	}
	for n := range int64(3) {
		c.step(n, 1, c.random(uint64(n)))
	}
	for w, a := range c.aggregators {
		_, owner, _, _ := a.Residuals()
		before := slices.Clone(owner)
		if _, _, err := a.Pending(); err != nil {
			t.Fatal(err)
		}
		if _, owner, _, _ = a.Residuals(); !slices.Equal(before, owner) {
			t.Errorf("worker %d: the owner's residuals have changed", w)
		}
	}
}

// TestLongMessagesGoInRounds exchanges messages of which some are several chunks, and some missing, as one exchange would.
func TestLongMessagesGoInRounds(t *testing.T) {
	const n = 4
	members := group.Local(n, 10*time.Second)
	length := func(_, to int) int {
		if to == 1 {
			return 0 // worker 1 owns nothing
		}
		return chunk - 1000 + 100*to*to*to*to*to*to
	}
	errs := make(chan error, n)
	for _, m := range members {
		go func() {
			send, receive := make([][]byte, n), make([][]byte, n)
			for w := range n {
				send[w] = bytes.Repeat([]byte{byte(10*m.Rank() + w)}, length(m.Rank(), w))
				receive[w] = make([]byte, length(w, m.Rank()))
			}
			if err := inRounds(m, group.Tag{Bucket: 3}, send, receive); err != nil {
				errs <- err
				return
			}
			for w := range n {
				if want := bytes.Repeat([]byte{byte(10*w + m.Rank())}, length(w, m.Rank())); !bytes.Equal(receive[w], want) {
					errs <- fmt.Errorf("worker %d has not received what worker %d sent", m.Rank(), w)
					return
				}
			}
			errs <- nil
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
