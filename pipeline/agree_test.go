package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotrain/distributed/group"
)

// separate makes the teams of n processes with a worker each.
func separate(n int, timeout time.Duration) []*team {
	teams := make([]*team, n)
	for i, m := range group.Local(n, timeout) {
		teams[i] = &team{members: []group.Member{m}, workers: n, timeout: timeout}
	}
	return teams
}

// everywhere runs f in all processes at the same time, and returns their errors.
func everywhere(teams []*team, f func(i int, t *team) error) []error {
	errs := make([]error, len(teams))
	var wg sync.WaitGroup
	for i, t := range teams {
		wg.Go(func() { errs[i] = f(i, t) })
	}
	wg.Wait()
	return errs
}

// TestWhatAProcessDoesByItselfMayTakeLongerThanAnExchange has work that takes several times the time limit.
func TestWhatAProcessDoesByItselfMayTakeLongerThanAnExchange(t *testing.T) {
	const limit = 200 * time.Millisecond
	t.Run("a decision", func(t *testing.T) {
		t.Parallel()
		errs := everywhere(separate(3, limit), func(i int, team *team) error {
			got := 0
			err := team.agree(&got, func() error { time.Sleep(4 * limit); got = 7; return nil })
			if err == nil && got != 7 {
				err = fmt.Errorf("process %d is told %d", i, got)
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	t.Run("a decision that fails", func(t *testing.T) {
		t.Parallel()
		errs := everywhere(separate(3, limit), func(_ int, team *team) error {
			return team.agree(new(int), func() error { time.Sleep(4 * limit); return usage("no room") })
		})
		for i, err := range errs {
			if err == nil || err.Error() != "no room" || ExitStatus(err) != 2 {
				t.Errorf("process %d: %v", i, err)
			}
		}
	})
	t.Run("work of several", func(t *testing.T) {
		t.Parallel()
		var done atomic.Int32
		errs := everywhere(separate(3, limit), func(i int, team *team) error {
			err := team.together(func() error { time.Sleep(time.Duration(i) * 2 * limit); done.Add(1); return nil })
			if n := done.Load(); n != 3 {
				err = fmt.Errorf("process %d goes on when %d are done", i, n)
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	t.Run("work that fails", func(t *testing.T) {
		t.Parallel()
		errs := everywhere(separate(3, limit), func(i int, team *team) error {
			return team.together(func() error {
				if i == 0 {
					return nil
				}
				time.Sleep(time.Duration(3-i) * 2 * limit)
				return usage("no data at %d", i)
			})
		})
		for i, err := range errs {
			if err == nil || err.Error() != "worker 1: no data at 1" || ExitStatus(err) != 2 {
				t.Errorf("process %d: %v", i, err)
			}
		}
	})
}

// TestWorkMayTakeNoTime checks that nobody waits longer for the others than these take.
func TestWorkMayTakeNoTime(t *testing.T) {
	start := time.Now()
	errs := everywhere(separate(3, time.Minute), func(i int, team *team) error {
		return errors.Join(team.agree(new(int), func() error { return nil }), team.together(func() error { return nil }))
	})
	if d := time.Since(start); d > 5*time.Second || errors.Join(errs...) != nil {
		t.Errorf("%v after %v", errs, d)
	}
}

// TestAProcessThatIsDeadEndsWorkInTime leaves one out.
func TestAProcessThatIsDeadEndsWorkInTime(t *testing.T) {
	const limit = 300 * time.Millisecond
	for name, f := range map[string]func(*team) error{
		"a decision": func(team *team) error {
			return team.agree(new(int), func() error { time.Sleep(10 * limit); return nil })
		},
		"work": func(team *team) error {
			return team.together(func() error { time.Sleep(10 * limit); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			errs := everywhere(separate(3, limit), func(i int, team *team) error {
				if i == 1 {
					return nil
				}
				return f(team)
			})
			if d := time.Since(start); d > 5*limit {
				t.Errorf("it took %v", d)
			}
			for _, i := range []int{0, 2} {
				if lost := (*group.LostError)(nil); !errors.As(errs[i], &lost) || !slices.Equal(lost.Missing, []int{1}) {
					t.Errorf("process %d: %v", i, errs[i])
				}
			}
		})
	}
}

func TestWhatDiffersIsNamed(t *testing.T) {
	names := []string{"configuration", "data", "program", "libraries"}
	for _, c := range []struct {
		own  [3]string // a letter for each hash, by worker
		want string
	}{
		{[3]string{"abcd", "abcd", "abcd"}, ""},
		{[3]string{"abcd", "abcd", "xbcd"}, "worker 2 has other configuration than worker 0"},
		{[3]string{"abcd", "xbxd", "abcx"}, "worker 1 has other configuration and program than worker 0"},
		{[3]string{"abcd", "xyzw", "xyzw"}, "worker 1 has other configuration, data, program and libraries than worker 0"},
	} {
		for i, err := range everywhere(separate(3, time.Second), func(i int, team *team) error {
			return team.same(names, func(int) (all [][32]byte) {
				for _, letter := range c.own[i] {
					all = append(all, [32]byte{31: byte(letter)})
				}
				return all
			})
		}) {
			if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
				t.Errorf("process %d says %s, want %s", i, got, c.want)
			}
		}
	}
}

func TestAllProcessesHaveTheFewestThreads(t *testing.T) {
	for i, err := range everywhere(separate(3, time.Second), func(i int, team *team) error {
		n, err := team.least([]int{4, 2, 3}[i])
		if err == nil && n != 2 {
			err = fmt.Errorf("%d", n)
		}
		return err
	}) {
		if err != nil {
			t.Errorf("process %d: %v, want 2", i, err)
		}
	}
}

// slow is a worker on a slow link: the first one receives and sends so many bytes a second.
type slow struct {
	group.Member
	rate int
	most *int // bytes of an exchange of the first worker
}

func (s slow) Exchange(tag group.Tag, send, recv [][]byte) error {
	if s.Rank() == 0 {
		n := 0
		for i := 1; i < s.Size(); i++ {
			n += len(send[i]) + len(recv[i])
		}
		*s.most = max(*s.most, n)
		time.Sleep(time.Duration(float64(n) / float64(s.rate) * float64(time.Second)))
	}
	return s.Member.Exchange(tag, send, recv)
}

// TestALargeNetworkIsGatheredInPieces has arenas that take longer than the time limit together, and by themselves.
func TestALargeNetworkIsGatheredInPieces(t *testing.T) {
	const limit, size = 400 * time.Millisecond, mostValues + mostValues/2 + 1
	most := 0
	teams := separate(3, limit)
	for _, team := range teams {
		team.members[0] = slow{team.members[0], 4 * mostValues * 5, &most} // a piece in 0.2 s
	}
	value := func(worker, i int) float32 { return float32(worker) + float32(i%1000)/1000 }
	errs := everywhere(teams, func(i int, team *team) error {
		r := &run{team: team, workers: []*worker{{member: team.members[0]}}}
		own := make([]float32, size)
		for j := range own {
			own[j] = value(i, j)
		}
		all, err := r.gather(func(*worker) []float32 { return own })
		if err != nil {
			return err
		}
		if (i == 0) != (len(all) == 3) {
			return fmt.Errorf("process %d has values of %d workers", i, len(all))
		}
		slices.Reverse(all)
		back, err := r.scatter(all, size)
		if err != nil {
			return err
		}
		for j, v := range back[0] {
			if v != value(2-i, j) {
				return fmt.Errorf("worker %d gets %v, want %v", i, v, value(2-i, j))
			}
		}
		if err := r.tell(own); err != nil {
			return err
		}
		for j, v := range own {
			if v != value(0, j) {
				return fmt.Errorf("worker %d is told %v, want %v", i, v, value(0, j))
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if most > 2*4*mostValues {
		t.Errorf("one exchange has %d bytes", most)
	}
}

func TestAnErrorThatAllHaveComeToKeepsItsStatus(t *testing.T) {
	err := error(&commonError{ErrInterrupted, ExitStatus(ErrInterrupted)})
	if !Told(err) || !errors.Is(err, ErrInterrupted) || ExitStatus(err) != 130 || !strings.Contains(err.Error(), "interrupted") {
		t.Error(err)
	}
}
