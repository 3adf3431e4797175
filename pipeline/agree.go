package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"gotrain/distributed/group"
)

// What the processes of a team tell each other between steps: decisions of the leading one, errors, and small sums.

// leaderError is one that the leading process has met and tells of; the others end with the same status, and quietly.
type leaderError struct {
	Text   string
	Status int
}

func (e *leaderError) Error() string { return e.Text }

// Told says whether an error has been told, here or by another process.
func Told(err error) bool {
	return errors.As(err, new(*leaderError)) || errors.As(err, new(*sharedError))
}

// sharedError is the leading process' own view of an error that all processes have come to. It tells of it before it leaves.
type sharedError struct{ error }

func (e *sharedError) Unwrap() error { return e.error }

// shared marks an error as one that all processes have come to.
func (t *team) shared(err error) error {
	if err == nil || t.job == nil {
		return err
	}
	return &sharedError{err}
}

// followed is what this process returns for an error that all processes have come to: the leading one tells of it.
func (t *team) followed(err error) error {
	if err == nil || Told(err) {
		return err
	}
	if t.leads() {
		return t.shared(err)
	}
	return &leaderError{err.Error(), ExitStatus(err)}
}

// agree has the leading process decide, and gives all processes what it has put into v, a pointer, or its error.
func (t *team) agree(v any, decide func() error) error {
	var message struct {
		Value json.RawMessage
		Err   *leaderError
	}
	var failed error
	if t.leads() {
		if failed = decide(); failed != nil {
			message.Err = &leaderError{failed.Error(), ExitStatus(failed)}
		} else if b, err := json.Marshal(v); err != nil {
			return err
		} else {
			message.Value = b
		}
	}
	if t.workers == 1 {
		return failed
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	all := make([][]byte, len(t.members))
	if err := t.each(func(i int, m group.Member) (err error) {
		all[i], err = group.BroadcastBytes(m, t.control(), 0, text)
		return err
	}); err != nil {
		return err
	}
	if t.leads() {
		return t.shared(failed)
	}
	if err := json.Unmarshal(all[0], &message); err != nil {
		return err
	}
	if message.Err != nil {
		return message.Err
	}
	return json.Unmarshal(message.Value, v)
}

// together ends all processes where one of them has met an error: the leading one returns its own, or that of the first
// worker that has one.
func (t *team) together(err error) error {
	if t.workers == 1 {
		return err
	}
	const room = 2048
	own := make([]byte, room)
	if err != nil {
		own[0] = byte(ExitStatus(err))
		copy(own[1:], err.Error())
	}
	found := make([]error, len(t.members))
	if e := t.each(func(i int, m group.Member) error {
		all := make([][]byte, m.Size())
		for r := range all {
			all[r] = make([]byte, room)
		}
		if e := group.AllGather(m, t.control(), own, all); e != nil {
			return e
		}
		for r, b := range all {
			if b[0] != 0 && found[i] == nil {
				found[i] = &leaderError{fmt.Sprintf("worker %d: %s", r, strings.TrimRight(string(b[1:]), "\x00")), int(b[0])}
			}
		}
		return nil
	}); e != nil {
		return errors.Join(err, e)
	}
	switch first := found[0]; {
	case first == nil:
		return nil
	case !t.leads():
		return first
	case err != nil:
		return t.shared(err)
	case first.(*leaderError).Status == 2:
		return t.shared(usage("%s", first.Error()))
	default:
		return t.shared(errors.New(first.Error()))
	}
}

// same compares something of all workers: the error names the first that differs from worker 0.
func (t *team) same(what string, of func(i int) []byte) error {
	return t.each(func(i int, m group.Member) error {
		own := of(i)
		all := make([][]byte, m.Size())
		for r := range all {
			all[r] = make([]byte, len(own))
		}
		if err := group.AllGather(m, t.control(), own, all); err != nil {
			return err
		}
		for r := range all {
			if string(all[r]) != string(all[0]) {
				return fmt.Errorf("worker %d has other %s than worker 0", r, what)
			}
		}
		return nil
	})
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
		all := make([][]byte, m.Size())
		for r := range all {
			all[r] = make([]byte, 1)
		}
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
		all := make([][]byte, m.Size())
		for r := range all {
			all[r] = make([]byte, 8*len(own))
		}
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
