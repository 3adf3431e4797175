package pipeline

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"gotrain/distributed/group"
)

// What the processes of a team tell each other between steps: decisions of the leading one, errors, and small sums.

// commonError is one that all processes have come to, so that they leave together: the leading one tells of it.
type commonError struct {
	error
	status int
}

func (e *commonError) Unwrap() error { return e.error }

// Told says whether an error has been told, here or by another process.
func Told(err error) bool { return errors.As(err, new(*commonError)) }

// followed marks an error as one that all processes have come to.
func (t *team) followed(err error) error {
	if err == nil || t.job == nil || Told(err) {
		return err
	}
	return &commonError{err, ExitStatus(err)}
}

// outcome is an error on its way to other processes; none has status 0.
type outcome struct {
	Status int    `json:"status"`
	Text   string `json:"text"`
}

func outcomeOf(err error) outcome {
	if err == nil {
		return outcome{}
	}
	return outcome{ExitStatus(err), err.Error()}
}

// err is the error of another process that has come here.
func (o outcome) err() error {
	if o.Status == 0 {
		return nil
	}
	return &commonError{errors.New(o.Text), o.Status}
}

// patiently does what this process has to do by itself, while others wait for it or have work of their own, and returns when
// all are done. It may take long, for the time limit is for exchanges: as long as anybody is at it, all tell each other so.
func (t *team) patiently(work func() error) (failed, lost error) {
	if len(t.members) == t.workers {
		return work(), nil
	}
	done := make(chan error, 1)
	go func() { done <- work() }()
	for busy := true; ; {
		if busy {
			select {
			case failed = <-done:
				busy = false
			case <-time.After(t.timeout / 4):
			}
		}
		if others, err := t.any(busy); err != nil || !others {
			return failed, err
		}
	}
}

// agree has the leading process decide, and gives all processes what it has put into v, a pointer, or its error. A decision
// exchanges nothing, and takes the time it takes.
func (t *team) agree(v any, decide func() error) error {
	if !t.leads() {
		decide = func() error { return nil }
	}
	failed, err := t.patiently(decide)
	if err != nil {
		return errors.Join(failed, err)
	}
	if len(t.members) == t.workers {
		return t.followed(failed)
	}
	var message struct {
		Outcome outcome         `json:"outcome"`
		Value   json.RawMessage `json:"value"`
	}
	var text []byte
	if t.leads() {
		if message.Outcome = outcomeOf(failed); failed == nil {
			if message.Value, err = json.Marshal(v); err != nil {
				return err
			}
		}
		if text, err = json.Marshal(message); err != nil {
			return err
		}
	}
	all := make([][]byte, len(t.members))
	if err := t.each(func(i int, m group.Member) (err error) {
		all[i], err = group.BroadcastBytes(m, t.control(), 0, text)
		return err
	}); err != nil {
		return err
	}
	if t.leads() {
		return t.followed(failed)
	}
	if err := json.Unmarshal(all[0], &message); err != nil {
		return err
	}
	if err := message.Outcome.err(); err != nil {
		return err
	}
	return json.Unmarshal(message.Value, v)
}

// together has all processes do what each has to do by itself, and ends all where one of them has met an error: the leading
// one returns its own, or that of the first worker that has one. The work exchanges nothing, and takes the time it takes.
func (t *team) together(work func() error) error {
	failed, err := t.patiently(work)
	if err != nil {
		return errors.Join(failed, err)
	}
	if len(t.members) == t.workers {
		return t.followed(failed)
	}
	const room = 2048
	own := make([]byte, room)
	if failed != nil {
		own[0] = byte(ExitStatus(failed))
		copy(own[1:], failed.Error())
	}
	found := make([]error, len(t.members))
	if err := t.each(func(i int, m group.Member) error {
		all := rows(m.Size(), room)
		if err := group.AllGather(m, t.control(), own, all); err != nil {
			return err
		}
		for r, b := range all {
			if b[0] != 0 && found[i] == nil {
				found[i] = outcome{int(b[0]), fmt.Sprintf("worker %d: %s", r, strings.TrimRight(string(b[1:]), "\x00"))}.err()
			}
		}
		return nil
	}); err != nil {
		return errors.Join(failed, err)
	}
	if failed != nil && t.leads() {
		return t.followed(failed)
	}
	return found[0]
}

// same compares hashes of all workers, each of which has a name: the error names the first worker that differs from worker 0,
// and in what.
func (t *team) same(names []string, of func(i int) [][sha256.Size]byte) error {
	found := make([]error, len(t.members))
	if err := t.each(func(i int, m group.Member) error {
		var own []byte
		for _, hash := range of(i) {
			own = append(own, hash[:]...)
		}
		all := rows(m.Size(), len(own))
		if err := group.AllGather(m, t.control(), own, all); err != nil {
			return err
		}
		for r := range all {
			var differ []string
			for j, name := range names {
				from, to := j*sha256.Size, (j+1)*sha256.Size
				if string(all[r][from:to]) != string(all[0][from:to]) {
					differ = append(differ, name)
				}
			}
			if differ != nil && found[i] == nil {
				found[i] = &differentError{r, differ}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return found[0]
}

// differentError says in what a worker differs from the first.
type differentError struct {
	worker int
	names  []string
}

func (e *differentError) Error() string {
	last := len(e.names) - 1
	what := e.names[last]
	if last > 0 {
		what = strings.Join(e.names[:last], ", ") + " and " + what
	}
	return fmt.Sprintf("worker %d has other %s than worker 0", e.worker, what)
}

// rows makes n messages of so many bytes.
func rows(n, bytes int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = make([]byte, bytes)
	}
	return all
}

// any says whether any process says yes.
func (t *team) any(yes bool) (bool, error) {
	if t.workers == 1 {
		return yes, nil
	}
	own := []byte{0}
	if yes {
		own[0] = 1
	}
	said := make([]bool, len(t.members))
	err := t.each(func(i int, m group.Member) error {
		all := rows(m.Size(), 1)
		err := group.AllGather(m, t.control(), own, all)
		for _, b := range all {
			said[i] = said[i] || b[0] != 0
		}
		return err
	})
	return said[0], err
}

// sum adds float64 values of all workers, in their order; of gives each worker's and receives the sums.
func (t *team) sum(of func(i int) []*float64) error {
	return t.combine(of, func(a, b float64) float64 { return a + b })
}

// most takes the largest of all workers' values.
func (t *team) most(of func(i int) []*float64) error {
	return t.combine(of, func(a, b float64) float64 { return max(a, b) })
}

// least is the smallest of all processes' numbers.
func (t *team) least(own int) (int, error) {
	values := make([]float64, len(t.members))
	for i := range values {
		values[i] = float64(own)
	}
	err := t.combine(func(i int) []*float64 { return []*float64{&values[i]} }, func(a, b float64) float64 { return min(a, b) })
	return int(values[0]), err
}

func (t *team) combine(of func(i int) []*float64, f func(a, b float64) float64) error {
	if t.workers == 1 {
		return nil
	}
	return t.each(func(i int, m group.Member) error {
		values := of(i)
		own := make([]float64, len(values))
		for j, v := range values {
			own[j] = *v
		}
		all := rows(m.Size(), 8*len(own))
		if err := group.AllGather(m, t.control(), raw(own), all); err != nil {
			return err
		}
		for j, v := range values {
			*v = unraw[float64](all[0])[j]
			for _, b := range all[1:] {
				*v = f(*v, unraw[float64](b)[j])
			}
		}
		return nil
	})
}

// most values of a network that one exchange takes to or from a worker: the time limit is that of an exchange, and a network
// may be large.
const mostValues = 1 << 20

// pieces calls f with the bounds of pieces of n values.
func pieces(n int, f func(from, to int) error) error {
	for from := 0; from < n; from += mostValues {
		if err := f(from, min(from+mostValues, n)); err != nil {
			return err
		}
	}
	return nil
}

// carry takes values of one worker to another, which has room for as many. All workers come along, piece by piece, so that
// nobody waits for more than one piece of others; all know how many there are.
func (t *team) carry(m group.Member, from, to int, values, into []float32) error {
	return pieces(max(len(values), len(into)), func(begin, end int) error {
		send, receive := make([][]byte, m.Size()), make([][]byte, m.Size())
		if m.Rank() == from {
			send[to] = raw(values[begin:end])
		}
		if m.Rank() == to {
			receive[from] = raw(into[begin:end])
		}
		if err := m.Exchange(t.control(), send, receive); err != nil {
			return err
		}
		return group.Barrier(m, t.control())
	})
}

// broadcast gives a worker the values of the first one, piece by piece.
func (t *team) broadcast(m group.Member, values []float32) error {
	return pieces(len(values), func(begin, end int) error {
		return group.Broadcast(m, t.control(), 0, raw(values[begin:end]))
	})
}

// raw sees values as bytes, and unraw bytes as values: processes of one job run on machines of one kind.
func raw[T float32 | float64](values []T) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])))
}

func unraw[T float32 | float64](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var v T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(v)))
}
