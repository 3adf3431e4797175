package pipeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gotrain/graph"
)

// MetricsFile is the name of the file in a run's folder to which what happens is appended, an Event a line, as it happens.
const MetricsFile = "metrics.jsonl"

// Event is a line of MetricsFile. One of its fields is set. After a crash a run goes on from its last checkpoint: what was
// said of later steps is then said again, and the last line counts.
type Event struct {
	Begin      *BeginEvent      `json:"begin,omitempty"`
	Minibatch  *MinibatchEvent  `json:"minibatch,omitempty"`
	Epoch      *EpochEvent      `json:"epoch,omitempty"`
	Test       *TestEvent       `json:"test,omitempty"`
	Checkpoint *CheckpointEvent `json:"checkpoint,omitempty"`
	End        *EndEvent        `json:"end,omitempty"`
}

// BeginEvent begins an attempt: the first, or one that continues the run.
type BeginEvent struct {
	Attempt int       `json:"attempt"` // from 1
	Step    int64     `json:"step"`    // updates made before
	Time    time.Time `json:"time"`
}

// EndEvent ends an attempt. One that was killed has none.
type EndEvent struct {
	Status string    `json:"status"`
	Error  string    `json:"error,omitempty"`
	Time   time.Time `json:"time"`
}

// Sums are sums over samples.
type Sums struct {
	Loss   Float `json:"loss"`   // cross-entropy
	Errors Float `json:"errors"` // samples classified wrongly
	Count  Float `json:"count"`  // samples
}

func sumsOf(m graph.Metrics) Sums { return Sums{Float(m.Loss), Float(m.Errors), Float(m.Count)} }

// MinibatchEvent is a training step. With double buffering its sums are those of the step before.
type MinibatchEvent struct {
	Step      int64 `json:"step"`      // from 1
	Epoch     int   `json:"epoch"`     // from 1
	Minibatch int   `json:"minibatch"` // of the epoch, from 1
	Sums
	Rate    Float `json:"rate"`
	Norm    Float `json:"norm"`    // of the gradient, before clipping
	Bits    int   `json:"bits"`    // that gradients were sent with
	Seconds Float `json:"seconds"` // since the epoch began
}

// EpochEvent ends an epoch. Times are those that this attempt has spent on it, as the first worker saw them.
type EpochEvent struct {
	Epoch int   `json:"epoch"` // from 1
	Step  int64 `json:"step"`
	Sums
	Seconds Float `json:"seconds"` // of the whole epoch, earlier attempts too

	Minibatches int   `json:"minibatches"` // that the times are of
	Compute     Float `json:"compute"`     // seconds
	Quantize    Float `json:"quantize"`    // seconds, on the computing thread
	Decode      Float `json:"decode"`      // seconds, beside the computation
	Exchange    Float `json:"exchange"`    // seconds that were waited for it
	Data        Float `json:"data"`        // seconds that were waited for data
	Bytes       int64 `json:"bytes"`       // sent
}

// TestEvent is an evaluation on the test set.
type TestEvent struct {
	Epoch int   `json:"epoch"` // trained before
	Step  int64 `json:"step"`
	Sums
	Minibatches int `json:"minibatches"`
}

// CheckpointEvent says what a checkpoint consists of, for it may be gone when somebody wants to compare.
type CheckpointEvent struct {
	Step  int64             `json:"step"`
	Parts map[string]string `json:"parts"` // SHA-256, hexadecimal, by name
}

// Float is a number that JSON has no form for where it is not finite: then it is a text.
type Float float64

func (f Float) MarshalJSON() ([]byte, error) {
	if v := float64(f); !finite(v) {
		return strconv.AppendQuote(nil, strconv.FormatFloat(v, 'g', -1, 64)), nil
	}
	return json.Marshal(float64(f))
}

func (f *Float) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseFloat(string(bytes.Trim(text, `"`)), 64)
	if err != nil {
		return fmt.Errorf("%s is not a number", text)
	}
	*f = Float(v)
	return nil
}

// journal appends events. Each is one write, so that a process that is killed leaves whole lines, and at most half of its
// last one.
type journal struct {
	f *os.File
}

// openJournal opens a run's metrics for appending, behind the last whole line. It returns the number of attempts before.
func openJournal(run string) (j *journal, attempts int, err error) {
	path := filepath.Join(run, MetricsFile)
	end, err := ReadEvents(path, 0, func(e Event) error {
		if e.Begin != nil {
			attempts = e.Begin.Attempt
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, 0, unwritable(path, 0, err)
	}
	if err := f.Truncate(end); err != nil {
		f.Close()
		return nil, 0, unwritable(path, 0, err)
	}
	return &journal{f}, attempts, nil
}

// write appends an event.
func (j *journal) write(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := j.f.Write(append(line, '\n')); err != nil {
		return unwritable(j.f.Name(), 0, err)
	}
	return nil
}

// maxEvent is more bytes than a line has.
const maxEvent = 1 << 20

// ReadEvents reads the events of a file from an offset on, and returns the offset behind the last whole line. What follows it
// is being written, or was when its process was killed.
func ReadEvents(path string, from int64, each func(Event) error) (end int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(f, 1<<16)
	end = from
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		var e Event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err == nil {
			err = each(e)
		}
		if err != nil {
			return end, fmt.Errorf("%s: at byte %d: %w", path, end, err)
		}
		end += int64(len(line)) + 1
	}
}

// readLine reads a line that ends, without its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxEvent:
			return nil, fmt.Errorf("a line is longer than %d bytes", maxEvent)
		}
	}
}
