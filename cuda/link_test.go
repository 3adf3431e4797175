package cuda_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gotrain/cuda"
	"gotrain/cuda/driver"
	"gotrain/cuda/emulator"
	"gotrain/cuda/nccl"
	"gotrain/distributed"
	"gotrain/graph"
)

// wire is a cuda.Link between emulated devices, each of a machine of its own. It does at once what NCCL does in a stream.
type wire struct {
	rank, size int
	between    [][]chan []byte // [from][to]
	host       driver.Host
	lost       error // of Wait
	reduced    int   // calls of AllReduce
}

// wires join so many machines.
func wires(t *testing.T, machines []driver.Driver) (all []*wire) {
	t.Helper()
	n := len(machines)
	between := make([][]chan []byte, n)
	for from := range between {
		for range n {
			between[from] = append(between[from], make(chan []byte, 64))
		}
	}
	for rank, m := range machines {
		d, err := m.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		w := &wire{rank: rank, size: n, between: between}
		if w.host, err = d.AllocateHost(1<<20, "wire"); err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

func (w *wire) Rank() int                 { return w.rank }
func (w *wire) Size() int                 { return w.size }
func (w *wire) Wait(e driver.Event) error { return errors.Join(e.Synchronize(), w.lost) }

func (w *wire) read(at driver.Pointer, bytes int, s driver.Stream) ([]byte, error) {
	if err := s.Copy(w.host.Pointer, at, bytes); err != nil {
		return nil, err
	}
	err := s.Synchronize()
	return slices.Clone(w.host.Bytes[:bytes]), err
}

func (w *wire) write(at driver.Pointer, b []byte, s driver.Stream) error {
	copy(w.host.Bytes, b)
	if err := s.Copy(at, w.host.Pointer, len(b)); err != nil {
		return err
	}
	return s.Synchronize()
}

func (w *wire) Exchange(send, receive []nccl.Message, s driver.Stream) error {
	for _, m := range send {
		if m.Bytes == 0 {
			continue
		}
		b, err := w.read(m.At, m.Bytes, s)
		if err != nil {
			return err
		}
		w.between[w.rank][m.Peer] <- b
	}
	for _, m := range receive {
		if m.Bytes == 0 {
			continue
		}
		b := <-w.between[m.Peer][w.rank]
		if len(b) != m.Bytes {
			return fmt.Errorf("worker %d sends %d bytes to worker %d, which wants %d", m.Peer, len(b), w.rank, m.Bytes)
		}
		if err := w.write(m.At, b, s); err != nil {
			return err
		}
	}
	return nil
}

func (w *wire) AllReduce(at driver.Pointer, count int, s driver.Stream) error {
	b, err := w.read(at, 4*count, s)
	if err != nil {
		return err
	}
	w.reduced++
	for to := range w.size {
		w.between[w.rank][to] <- b
	}
	sums := make([]float32, count)
	for from := range w.size {
		part := <-w.between[from][w.rank]
		for i := range sums {
			v := math.Float32frombits(binary.LittleEndian.Uint32(part[4*i:]))
			if from > 0 {
				v += sums[i]
			}
			sums[i] = v
		}
	}
	b = b[:0:0]
	for _, v := range sums {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return w.write(at, b, s)
}

// linkedCrew are workers in fleets of their own, joined by wires.
func linkedCrew(t *testing.T, src graph.Source, n int, o cuda.Options, s distributed.Settings) (*crew, []*wire) {
	t.Helper()
	c := &crew{}
	var machines []driver.Driver
	for range n {
		machines = append(machines, emulator.New(emulator.Options{}))
	}
	all := wires(t, machines)
	for rank, d := range machines {
		f, err := cuda.NewFleet(d, src, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		a, err := f.Executor(0).NewLinkedAggregator(s, all[rank])
		if err != nil {
			t.Fatal(err)
		}
		c.executors, c.aggregators = append(c.executors, f.Executor(0)), append(c.aggregators, a)
	}
	return c, all
}

// Workers that a link joins do what a fleet does that has all of them, to the bit: this link sums in the order of the workers.
func TestLinkedWorkersAggregateAsAFleetDoes(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings distributed.Settings
		bits     []int // of each step
		eager    bool
		reduced  []int // the steps in which the link sums
	}{
		{"dense", distributed.Settings{Overlap: true, BucketBytes: 1 << 16}, []int{32, 32, 32}, false, []int{0, 1, 2}},
		{"1 bit, and then dense", distributed.Settings{ZeroThreshold: true, Overlap: true, BucketBytes: 1 << 15}, []int{1, 1, 1, 32, 32}, false, []int{4}},
		{"1 bit by means, no overlap", distributed.Settings{BucketBytes: 1 << 17}, []int{1, 1}, true, nil},
		{"other bits in columns of 50", distributed.Settings{Overlap: true, Columns: 50}, []int{4, 16}, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src := resnet8(graph.Float32)
			linked, links := linkedCrew(t, src, workers, cuda.Options{Batch: 2, Eager: c.eager}, c.settings)
			inOne := onDevices(t, fleet(t, src, emulator.Options{Devices: workers}, cuda.Options{Workers: workers, Batch: 2}), c.settings)
			for w := range workers {
				start(t, linked.executors[w], 1)
				start(t, inOne.executors[w], 1)
			}
			for i, bits := range c.bits {
				before := links[0].reduced
				b := minibatches()[i]
				got, want := linked.must(t, int64(i), bits, b), inOne.must(t, int64(i), bits, b)
				if got != want {
					t.Errorf("step %d: %+v, want %+v", i, got, want)
				}
				same(t, fmt.Sprintf("step %d", i), linked, inOne)
				for w, a := range linked.aggregators {
					if want := i >= 3; a.Stop() != want {
						t.Errorf("step %d: worker %d stops: %v, want %v", i, w, a.Stop(), want)
					}
				}
				if got, want := links[0].reduced > before, slices.Contains(c.reduced, i); got != want {
					t.Errorf("step %d: summed by the link: %v, want %v", i, got, want)
				}
			}
			for w, a := range linked.aggregators {
				if got, want := a.(*cuda.Aggregator).Bytes(1), inOne.aggregators[w].(*cuda.Aggregator).Bytes(1); got != want {
					t.Errorf("worker %d sends %d bytes, in one process %d", w, got, want)
				}
			}
		})
	}
}

// Residuals that were saved by a fleet go on in linked workers.
func TestLinkedWorkersGoOnFromResiduals(t *testing.T) {
	s := distributed.Settings{ZeroThreshold: true, Overlap: true, BucketBytes: 1 << 14}
	inOne := onDevices(t, fleet(t, unnormed, emulator.Options{Devices: 2}, cuda.Options{Workers: 2, Batch: 3}), s)
	linked, _ := linkedCrew(t, unnormed, 2, cuda.Options{Batch: 3}, s)
	for w := range 2 {
		start(t, inOne.executors[w], 1)
	}
	inOne.must(t, 1, 1, randomBatch(1, 6, 3, 6, 5, 5))
	for w := range 2 {
		for a := range graph.Arenas {
			copy(linked.executors[w].Arena(a), pull(t, inOne.executors[w], a))
			if err := linked.executors[w].Push(a); err != nil {
				t.Fatal(err)
			}
		}
		worker, owner, _ := inOne.residuals(t, w)
		if err := linked.aggregators[w].(*cuda.Aggregator).SetResiduals(worker, owner); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "restored", linked, inOne)
	b := randomBatch(2, 6, 3, 6, 5, 5)
	if got, want := linked.must(t, 2, 1, b), inOne.must(t, 2, 1, b); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	same(t, "a step later", linked, inOne)
}

// What is not finite on one linked worker stops all, whoever sums, and touches nothing.
func TestWhatIsNotFiniteStopsLinkedWorkers(t *testing.T) {
	s := distributed.Settings{ZeroThreshold: true, Overlap: true, BucketBytes: 1 << 14}
	for _, bits := range []int{1, 32} {
		linked, _ := linkedCrew(t, unnormed, 2, cuda.Options{Batch: 3}, s)
		inOne := onDevices(t, fleet(t, unnormed, emulator.Options{Devices: 2}, cuda.Options{Workers: 2, Batch: 3}), s)
		for w := range 2 {
			start(t, linked.executors[w], 1)
			start(t, inOne.executors[w], 1)
		}
		bad := randomBatch(2, 6, 3, 6, 5, 5)
		bad.Images[5*3*6*5] = float32(math.Inf(1)) // of worker 1
		before := pull(t, linked.executors[0], graph.Parameters)
		_, got := linked.step(1, bits, bad)
		_, want := inOne.step(1, bits, bad)
		for w := range 2 {
			if got[w] == nil || got[w].Error() != want[w].Error() || !errors.As(got[w], new(*distributed.NotFiniteError)) {
				t.Errorf("%d bits, worker %d: error %v, in one process %v", bits, w, got[w], want[w])
			}
			equal(t, "parameters", pull(t, linked.executors[w], graph.Parameters), before)
		}
	}
}

func TestALinkThatFailsEndsTheStep(t *testing.T) {
	linked, links := linkedCrew(t, unnormed, 2, cuda.Options{Batch: 3}, distributed.Settings{Overlap: true})
	for w := range 2 {
		start(t, linked.executors[w], 1)
	}
	cut := errors.New("worker 0 waited 60s for exchanging with all workers")
	links[0].lost = cut
	_, errs := linked.step(7, 32, randomBatch(1, 6, 3, 6, 5, 5))
	if want := "step 7: " + cut.Error(); !errors.Is(errs[0], cut) || errs[0].Error() != want {
		t.Errorf("%v, want %s", errs[0], want)
	}
	if errs[1] != nil {
		t.Error(errs[1])
	}
}

func TestLinksAreRefusedWhereTheyCannotBe(t *testing.T) {
	e := fleet(t, unnormed, emulator.Options{}, cuda.Options{Workers: 2, Batch: 3}).Executor(1)
	_, err := e.NewLinkedAggregator(distributed.Settings{}, &wire{size: 2})
	if want := "a link is one worker's, and this process has 2"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = fleet(t, unnormed, emulator.Options{}, cuda.Options{}).Executor(0).NewLinkedAggregator(distributed.Settings{DoubleBuffering: true}, &wire{size: 2})
	if want := "devices do not aggregate with double buffering: take package distributed's aggregator"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
