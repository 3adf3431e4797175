package sweep

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"gotrain/archive"
	"gotrain/pipeline"
)

// board shows how a sweep goes on: on a terminal a line for each run that goes on and one for the whole, below what was said; else
// lines from time to time.
type board struct {
	r        *runner
	out      io.Writer
	terminal bool

	mu      sync.Mutex
	lines   []string    // by slot; "" where nothing runs
	shown   []time.Time // by slot: the last line without a terminal
	drawn   int         // lines on the terminal
	seconds float64     // that the runs which have ended in this process took
	began   []time.Time // by slot
	count   int         // of these runs
	stop    chan struct{}
	stopped sync.WaitGroup
}

// Times between looks at the runs, and between lines of a run without a terminal.
const (
	look  = 200 * time.Millisecond
	quiet = 5 * time.Second
)

func newBoard(r *runner) *board {
	n := r.limits.parallel
	b := &board{r: r, out: r.Log, terminal: r.Terminal, lines: make([]string, n), shown: make([]time.Time, n), began: make([]time.Time, n), stop: make(chan struct{})}
	if b.terminal {
		b.stopped.Go(func() {
			for {
				select {
				case <-b.stop:
					return
				case <-time.After(look):
					b.mu.Lock()
					b.draw()
					b.mu.Unlock()
				}
			}
		})
	}
	return b
}

func (b *board) close() {
	close(b.stop)
	b.stopped.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
}

// say writes a line that stays.
func (b *board) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
	fmt.Fprintf(b.out, format+"\n", args...)
	b.draw()
}

// erase removes the lines that change.
func (b *board) erase() {
	if b.drawn > 0 {
		fmt.Fprintf(b.out, "\x1b[%dA\x1b[J", b.drawn)
		b.drawn = 0
	}
}

// draw shows the lines that change.
func (b *board) draw() {
	if !b.terminal {
		return
	}
	b.erase()
	width := 80
	if f, ok := b.out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			width = w
		}
	}
	var text strings.Builder
	for _, line := range append(b.lines, b.whole()) {
		if line != "" {
			fmt.Fprintln(&text, line[:min(len(line), width-1)])
			b.drawn++
		}
	}
	io.WriteString(b.out, text.String())
}

// whole says how the sweep goes on.
func (b *board) whole() string {
	ended, running, all := b.r.counts()
	text := fmt.Sprintf("%s: %d of %d runs ended, %d running", b.r.Name, ended, all, running)
	if left := all - ended; b.count > 0 && left > 0 {
		seconds := b.seconds / float64(b.count) * float64(left) / float64(b.r.limits.parallel)
		text += ", about " + (time.Duration(seconds) * time.Second).String() + " left"
	}
	return text
}

// counts says how many runs have ended, go on, and are to be made.
func (r *runner) counts() (ended, running, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for j, s := range r.states {
		all++
		if s.busy {
			running++
		} else if s.over(r.Retries) || r.skipped(j) {
			ended++
		}
	}
	return ended, running, all
}

// watch shows what a run says, until stop, and gives each of its epochs to judge.
func (b *board) watch(j job, slot int, judge func(pipeline.EpochEvent)) (stop func()) {
	done := make(chan struct{})
	var finished sync.WaitGroup
	b.mu.Lock()
	b.lines[slot] = title(j) + ": starting"
	b.began[slot] = time.Now()
	b.mu.Unlock()
	finished.Go(func() {
		var run string
		var offset int64
		epochs := b.r.Trials[j.trial-1].Config.Learner.MaxEpochs
		for {
			select {
			case <-done:
				return
			case <-time.After(look):
			}
			if run == "" {
				run, _, _ = b.r.folder.findRun(runName(j.trial, j.repeat)) // a fault will be seen in the end
			}
			if run == "" {
				continue
			}
			line := ""
			offset, _ = pipeline.ReadEvents(filepath.Join(run, pipeline.MetricsFile), offset, func(e pipeline.Event) error {
				switch {
				case e.Minibatch != nil:
					line = fmt.Sprintf("epoch %d of %d, minibatch %d, %s", e.Minibatch.Epoch, epochs, e.Minibatch.Minibatch, sums(e.Minibatch.Sums))
				case e.Epoch != nil:
					judge(*e.Epoch)
					line = fmt.Sprintf("epoch %d of %d, %s", e.Epoch.Epoch, epochs, sums(e.Epoch.Sums))
				case e.Test != nil:
					line = "tested: " + sums(e.Test.Sums)
				}
				return nil
			})
			if line != "" {
				b.set(slot, title(j)+": "+line)
			}
		}
	})
	return func() { close(done); finished.Wait() }
}

func title(j job) string { return fmt.Sprintf("trial %d, run %d", j.trial, j.repeat) }

func sums(s pipeline.Sums) string {
	return fmt.Sprintf("loss %.4g, error %.2f%%", lossOf(s), errorOf(s))
}

func (b *board) set(slot int, line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines[slot] = line
	if !b.terminal && time.Since(b.shown[slot]) > quiet && time.Since(b.began[slot]) > quiet {
		b.shown[slot] = time.Now()
		fmt.Fprintln(b.out, line)
	}
}

// ended says how a run has ended, and what is left.
func (b *board) ended(j job, slot int, e Event) {
	line := title(j) + ": " + why(e.Status, e.Error)
	if e.Status == pipeline.Finished {
		if h, err := archive.ReadHistory(filepath.Join(b.r.folder.dir, runsFolder, e.Run)); err == nil {
			m := metricNamed(b.r.Metric)
			line += ": " + m.name + " " + m.show(m.of(h))
		}
	}
	b.mu.Lock()
	if b.lines[slot] != "" {
		b.count, b.seconds = b.count+1, b.seconds+time.Since(b.began[slot]).Seconds()
		b.lines[slot] = ""
	}
	whole := b.whole()
	b.mu.Unlock()
	b.say("%s", line)
	if !b.terminal && e.Status != pipeline.Interrupted {
		b.say("%s", whole)
	}
}

// why says a status with its error.
func why(status, err string) string {
	switch {
	case err == "":
		return status
	case strings.HasPrefix(err, status):
		return err
	}
	return status + ": " + err
}
