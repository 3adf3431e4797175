package group

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LostError says which workers did not answer.
type LostError struct {
	Rank    int   // who waited
	Missing []int // workers that had not sent or not received
	Tag     Tag
	After   time.Duration
}

func (e *LostError) Error() string {
	is := "is"
	if len(e.Missing) > 1 {
		is = "are"
	}
	return fmt.Sprintf("worker %d waited %s in %v, for %s, which %s dead, stopped, cut off or too slow; "+
		"the same command continues the run from its last checkpoint", e.Rank, seconds(e.After), e.Tag, workers(e.Missing), is)
}

// workers lists ranks: "worker 2", "workers 1, 2 and 5".
func workers(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("worker %d", ranks[0])
	}
	var b strings.Builder
	b.WriteString("workers ")
	for i, r := range ranks {
		switch {
		case i > 0 && i == len(ranks)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(r))
	}
	return b.String()
}

// seconds writes a duration as a user has set it: 60s, 0.25s.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Round(10*time.Millisecond))/1e9, 'f', -1, 64) + "s"
}
