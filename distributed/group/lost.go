package group

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LostError says which workers did not answer.
type LostError struct {
	Rank    int      // who waited
	Missing []int    // workers that had not sent or not received, with all others of processes that do not answer
	Hosts   []string // names of theirs; nil where all workers are in one process
	Tag     Tag
	After   time.Duration
	Limit   time.Duration // the group's, for an exchange
	Cause   error         // what the transport says; nil where the time limit ran out
}

const continues = "the same command continues the run from its last checkpoint"

func (e *LostError) Error() string {
	is := "is"
	if len(e.Missing) > 1 {
		is = "are"
	}
	why, slow := "dead, stopped, cut off or too slow", fmt.Sprintf("; raise distributed.timeout (%s) where an exchange may take longer", seconds(e.Limit))
	if e.Cause != nil {
		why, slow = fmt.Sprintf("dead or cut off (%v)", e.Cause), ""
	}
	return fmt.Sprintf("worker %d waited %s in %v, for %s, which %s %s; %s%s",
		e.Rank, seconds(e.After), e.Tag, e.missing(), is, why, continues, slow)
}

// miss sets who is missing, and their hosts; hosts has those of all workers, or is nil.
func (e *LostError) miss(workers []int, hosts []string) {
	e.Missing = workers
	if hosts != nil {
		for _, w := range workers {
			e.Hosts = append(e.Hosts, hosts[w])
		}
	}
}

func (e *LostError) Unwrap() error { return e.Cause }

// waiting says the same of an exchange that still waits.
func (e *LostError) waiting() string {
	return fmt.Sprintf("worker %d has waited %s in %v, for %s, which %s not answer; %s",
		e.Rank, seconds(e.After), e.Tag, e.missing(), map[bool]string{true: "do", false: "does"}[len(e.Missing) > 1], continues)
}

// missing lists workers: "worker 2", "workers 1 (host a), 2 (host a) and 5 (host b)".
func (e *LostError) missing() string {
	var b strings.Builder
	b.WriteString("worker")
	if len(e.Missing) > 1 {
		b.WriteString("s")
	}
	for i, r := range e.Missing {
		switch {
		case i == 0:
			b.WriteString(" ")
		case i == len(e.Missing)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(r))
		if i < len(e.Hosts) {
			fmt.Fprintf(&b, " (host %s)", e.Hosts[i])
		}
	}
	return b.String()
}

// seconds writes a duration as a user has set it: 60s, 0.25s.
func seconds(d time.Duration) string {
	unit := 10 * time.Millisecond
	if d >= time.Second {
		unit = 100 * time.Millisecond
	}
	return strconv.FormatFloat(d.Round(unit).Seconds(), 'f', -1, 64) + "s"
}
