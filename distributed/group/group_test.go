package group_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	. "gotrain/distributed/group"
)

// together runs f for each member at once, and returns their errors.
func together(members []Member, f func(m Member) error) []error {
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = f(m) })
	}
	wg.Wait()
	return errs
}

func must(t testing.TB, errs []error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// content is what worker from sends to worker to: a function of the arguments, some of it empty.
func content(seed uint64, from, to int) []byte {
	r := rand.New(rand.NewPCG(seed, uint64(from*1000+to)))
	n := 0
	if r.IntN(4) > 0 {
		n = r.IntN(2000)
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// exchangeContent makes one exchange with content, and checks what comes.
func exchangeContent(m Member, tag Tag, seed uint64) error {
	n := m.Size()
	send, recv := make([][]byte, n), make([][]byte, n)
	for i := range n {
		send[i] = content(seed, m.Rank(), i)
		recv[i] = make([]byte, len(content(seed, i, m.Rank())))
	}
	if err := m.Exchange(tag, send, recv); err != nil {
		return err
	}
	for i := range n {
		if !slices.Equal(recv[i], content(seed, i, m.Rank())) {
			return fmt.Errorf("worker %d has other bytes from worker %d than that sent in %v", m.Rank(), i, tag)
		}
	}
	return nil
}

// checkGroup exercises everything that succeeds; it is the same for every transport.
func checkGroup(m Member) error {
	// Many exchanges, several at once, in steps.
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for bucket := range errs {
		wg.Go(func() {
			for step := range 50 {
				if errs[bucket] = exchangeContent(m, Tag{Phase(bucket % 2), int64(step), bucket}, uint64(100*step+bucket)); errs[bucket] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return checkCollectives(m, Tag{Phase: Control})
}

func checkCollectives(m Member, tag Tag) error {
	n := m.Size()
	// Each worker's bytes to all, and to each root.
	bytes := func(from int) []byte { return content(7, from, 0) }
	fresh := func() [][]byte {
		recv := make([][]byte, n)
		for i := range recv {
			recv[i] = make([]byte, len(bytes(i)))
		}
		return recv
	}
	same := func(what string, recv [][]byte) error {
		for i := range recv {
			if !slices.Equal(recv[i], bytes(i)) {
				return fmt.Errorf("%s: worker %d has other bytes from worker %d than that sent", what, m.Rank(), i)
			}
		}
		return nil
	}
	recv := fresh()
	if err := errors.Join(AllGather(m, tag, bytes(m.Rank()), recv), same("AllGather", recv)); err != nil {
		return err
	}
	for root := range n {
		b := make([]byte, len(bytes(root)))
		if m.Rank() == root {
			copy(b, bytes(root))
		}
		if err := Broadcast(m, tag, root, b); err != nil {
			return err
		}
		if !slices.Equal(b, bytes(root)) {
			return fmt.Errorf("Broadcast from %d: other bytes at %d", root, m.Rank())
		}
		var own []byte
		if m.Rank() == root {
			own = b
		}
		got, err := BroadcastBytes(m, tag, root, own)
		if err != nil || !slices.Equal(got, b) {
			return fmt.Errorf("BroadcastBytes from %d: other bytes at %d, error %v", root, m.Rank(), err)
		}
		if err := Barrier(m, tag); err != nil {
			return err
		}
	}
	for _, length := range []int{0, 1, n - 1, 5, 512, 513, 3001} {
		got := addends(length, m.Rank())
		want := slices.Clone(addends(length, 0))
		for r := 1; r < n; r++ {
			for i, v := range addends(length, r) {
				want[i] += v
			}
		}
		if err := AllReduce(m, tag, got); err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("AllReduce of %d values: sums at worker %d are not those in worker order", length, m.Rank())
		}
	}
	return nil
}

// addends are numbers whose sum depends on the order.
func addends(length, worker int) []float32 {
	r := rand.New(rand.NewPCG(uint64(length), uint64(worker)))
	v := make([]float32, length)
	for i := range v {
		v[i] = float32(r.NormFloat64()) * float32(int(1)<<r.IntN(20))
	}
	return v
}

func TestLocalWorkersExchangeAndReduce(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { must(t, together(Local(n, 20*time.Second), checkGroup)) })
	}
}

func TestAWorkerMayRunAhead(t *testing.T) {
	// Worker 0 sends to worker 1 twice while worker 1 waits for worker 2 in the first exchange.
	m := Local(3, 20*time.Second)
	must(t, together(m, func(m Member) error {
		for step := range 20 {
			send, recv := make([][]byte, 3), make([][]byte, 3)
			one := func() []byte { return []byte{byte(step)} }
			switch m.Rank() {
			case 0:
				send[1] = one()
			case 1:
				recv[0], recv[2] = make([]byte, 1), make([]byte, 1)
			case 2:
				time.Sleep(time.Millisecond)
				send[1] = one()
			}
			if err := m.Exchange(Tag{Step: int64(step)}, send, recv); err != nil {
				return err
			}
			if m.Rank() == 1 && (recv[0][0] != byte(step) || recv[2][0] != byte(step)) {
				return fmt.Errorf("step %d: %v", step, recv)
			}
		}
		return nil
	}))
}

func TestALostWorkerIsNamed(t *testing.T) {
	tag := Tag{Scatter, 17, 3}
	m := Local(4, 150*time.Millisecond)
	start := time.Now()
	errs := together(m, func(m Member) error {
		if m.Rank() == 2 {
			return nil
		}
		return Barrier(m, tag) // in which all wait for all
	})
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
	// The first to give up says so; the others with it or for themselves.
	for _, r := range []int{0, 1, 3} {
		var lost *LostError
		if !errors.As(errs[r], &lost) || !slices.Equal(lost.Missing, []int{2}) || lost.Tag != tag || lost.After < 150*time.Millisecond {
			t.Errorf("worker %d: %v", r, errs[r])
		}
	}
	// From now on, everything fails at once.
	start = time.Now()
	errs = together(m, func(m Member) error { return Barrier(m, Tag{Phase: Control}) })
	for r, err := range errs {
		var lost *LostError
		if !errors.As(err, &lost) || err != errs[0] {
			t.Errorf("worker %d: %v, want what all say", r, err)
		}
	}
	if d := time.Since(start); d > 100*time.Millisecond {
		t.Errorf("failing took %v", d)
	}
}

func TestAbortEndsExchanges(t *testing.T) {
	m := Local(3, time.Minute)
	cause := errors.New("the data cannot be read")
	errs := together(m, func(m Member) error {
		if m.Rank() == 1 {
			time.Sleep(20 * time.Millisecond)
			m.Abort(cause)
			m.Abort(errors.New("too late"))
		}
		return Barrier(m, Tag{Phase: Control})
	})
	for r, err := range errs {
		if err != cause {
			t.Errorf("worker %d: %v, want %v", r, err, cause)
		}
	}
}

func TestMistakesInAProgramAreNamed(t *testing.T) {
	tag := Tag{Gather, 5, 1}
	bytes := func(n ...int) [][]byte {
		var all [][]byte
		for _, n := range n {
			all = append(all, make([]byte, n))
		}
		return all
	}
	for _, c := range []struct {
		name       string
		send, recv [][]byte // of worker 1; worker 0 sends and expects 4 bytes
		want       string
	}{
		{"a message too short", bytes(4, 0), bytes(3, 0), "step 5, bucket 1, receiving aggregates: worker 0 sends 4 bytes to worker 1, which expects 3"},
		{"a message too long", bytes(5, 0), bytes(4, 0), "step 5, bucket 1, receiving aggregates: worker 1 sends 5 bytes to worker 0, which expects 4"},
		{"its own", bytes(4, 1), bytes(4, 2), "step 5, bucket 1, receiving aggregates: worker 1 sends 1 bytes to worker 1, which expects 2"},
		{"too few", bytes(4), bytes(4, 0), "step 5, bucket 1, receiving aggregates: worker 1 sends to 1 workers and receives from 2; the group has 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := together(Local(2, 100*time.Millisecond), func(m Member) error {
				if m.Rank() == 0 {
					return m.Exchange(tag, bytes(0, 4), bytes(0, 4))
				}
				return m.Exchange(tag, c.send, c.recv)
			})
			if errs[1] == nil || errs[1].Error() != c.want {
				t.Errorf("%v, want %s", errs[1], c.want)
			}
			if errs[0] == nil {
				t.Error("worker 0 has seen nothing")
			}
		})
	}
	t.Run("two at once", func(t *testing.T) {
		m := Local(2, time.Second)
		first := make(chan error)
		go func() { first <- Barrier(m[0], tag) }()
		for !Waits(m[0]) {
			time.Sleep(time.Millisecond)
		}
		const want = "worker 0 makes two exchanges at once in step 5, bucket 1, receiving aggregates: what they send could not be told apart"
		if err := Barrier(m[0], tag); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		must(t, []error{Barrier(m[1], tag), <-first})
	})
}

func TestTheMessageOfALostWorker(t *testing.T) {
	for _, c := range []struct {
		err  LostError
		want string
	}{
		{LostError{Missing: []int{2}, Tag: Tag{Scatter, 17, 3}, After: 60 * time.Second, Limit: time.Minute}, "worker 0 waited 60s in step 17, bucket 3, sending gradients, for worker 2, which is dead, " +
			"stopped, cut off or too slow; the same command continues the run from its last checkpoint; raise distributed.timeout (60s) where an exchange may take longer"},
		{LostError{Rank: 3, Missing: []int{0, 1}, Tag: Tag{Gather, 1, 0}, After: 250 * time.Millisecond, Limit: 250 * time.Millisecond}, "worker 3 waited 0.25s in step 1, bucket 0, receiving aggregates, for workers 0 and 1, " +
			"which are dead, stopped, cut off or too slow; the same command continues the run from its last checkpoint; raise distributed.timeout (0.25s) where an exchange may take longer"},
		{LostError{Rank: 1, Missing: []int{0, 2, 3}, Hosts: []string{"a", "b", "b"}, Tag: Tag{Control, 9, 0}, After: 1*time.Second + 2*time.Millisecond, Limit: time.Second},
			"worker 1 waited 1s in step 9, between steps, for workers 0 (host a), 2 (host b) and 3 (host b), " +
				"which are dead, stopped, cut off or too slow; the same command continues the run from its last checkpoint; raise distributed.timeout (1s) where an exchange may take longer"},
		{LostError{Rank: 1, Missing: []int{0}, Hosts: []string{"a"}, Tag: Tag{Phase: Outside, Step: 9}, After: time.Second, Cause: errors.New("a socket")},
			"worker 1 waited 1s in step 9, exchanging between GPUs, for worker 0 (host a), which is dead or cut off (a socket); " +
				"the same command continues the run from its last checkpoint"},
		{LostError{Rank: 1, Missing: []int{0}, Hosts: []string{"a"}, Tag: Tag{Statistic, 9, 4}, After: time.Second, Cause: errors.New("connection reset")},
			"worker 1 waited 1s in step 9, statistics of batch norm, for worker 0 (host a), which is dead or cut off (connection reset); " +
				"the same command continues the run from its last checkpoint"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestALocalExchangeAllocatesNothing(t *testing.T) {
	const steps = 200
	m := Local(4, time.Minute)
	per := testing.AllocsPerRun(5, func() {
		must(t, together(m, func(m Member) error {
			send, recv := make([][]byte, 4), make([][]byte, 4)
			for i := range send {
				send[i], recv[i] = make([]byte, 64), make([]byte, 64)
			}
			for step := range steps {
				if err := m.Exchange(Tag{Step: int64(step)}, send, recv); err != nil {
					return err
				}
			}
			return nil
		}))
	}) / (4 * steps)
	if per > 0.2 { // what the test itself allocates is shared by the steps
		t.Errorf("%.2f allocations an exchange", per)
	}
}
