package group

import "time"

// outside is an exchange that goes another way than by MPI, which cannot tell who is missing.
type outside struct {
	step  int64
	since time.Time
}

// Outside says that this process exchanges something in a way of its own, until end is called, so that Waiting tells of it.
func (j *Job) Outside(step int64) (end func()) {
	j.outside.Store(&outside{step, time.Now()})
	return func() { j.outside.Store(nil) }
}

// Lost says who does not answer while an exchange that Outside was told of has waited too long, or fails for a cause, which may be
// nil; nil where all answer. It takes a moment.
func (j *Job) Lost(cause error) *LostError {
	j.hub.remote.call()
	time.Sleep(grace)
	return j.lostOutside(cause)
}

// lostOutside is Lost, behind a roll call.
func (j *Job) lostOutside(cause error) *LostError {
	o := j.outside.Load()
	if o == nil {
		return nil
	}
	var all []int
	for w := range j.hub.size {
		all = append(all, w)
	}
	missing := j.hub.absent(all)
	if len(missing) == 0 {
		return nil
	}
	e := &LostError{Rank: j.hub.first, Tag: Tag{Phase: Outside, Step: o.step}, After: time.Since(o.since), Limit: j.hub.timeout, Cause: cause}
	e.miss(missing, j.hub.hosts)
	return e
}
