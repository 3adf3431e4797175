package pipeline

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// messages writes lines for a person: to the screen, above a progress bar where there is one, and to the run's log.
type messages struct {
	mu       sync.Mutex // skipped records are reported by the loader's goroutines
	screen   io.Writer
	log      io.Writer // nil before the run has its folder
	terminal bool      // what the screen is
	bar      *progressbar.ProgressBar
	before   int64     // what was done before the bar began
	total    int64     // what is to be done
	began    time.Time // when the bar did
}

func (m *messages) printf(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	line := fmt.Sprintf(format+"\n", args...)
	m.write(m.log, line)
	if m.bar != nil {
		m.bar.Clear()
	}
	m.write(m.screen, line)
	if m.bar != nil {
		m.bar.RenderBlank()
	}
}

// note writes a line to the log alone.
func (m *messages) note(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(m.log, line+"\n")
}

// progress writes a line that says what the bar shows: not to a screen that has one.
func (m *messages) progress(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(m.log, line+"\n")
	if !m.terminal {
		m.write(m.screen, line+"\n")
	}
}

func (m *messages) write(w io.Writer, line string) {
	if w != nil {
		io.WriteString(w, line)
	}
}

// start shows a bar for so many samples, of which some are done; on no terminal it does nothing.
func (m *messages) start(samples int64, done int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.terminal {
		return
	}
	m.before, m.total, m.began = done, samples, time.Now()
	m.bar = progressbar.NewOptions64(samples-done,
		progressbar.OptionSetWriter(m.screen),
		progressbar.OptionSetWidth(barWidth),
		progressbar.OptionSetPredictTime(false), // parts say it, as far as there is room
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// at moves the bar; parts say where training is, the most important first.
func (m *messages) at(done int64, parts ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar == nil {
		return
	}
	if rate := float64(done-m.before) / time.Since(m.began).Seconds(); rate > 0 {
		left := time.Duration(float64(m.total-done) / rate * float64(time.Second))
		parts = append(parts, fmt.Sprintf("%.0f samples/s", rate), fmt.Sprintf("%v left", left.Round(time.Second)))
	}
	m.bar.Describe(fit(columns(m.screen)-barColumns, parts))
	m.bar.Set64(done - m.before)
}

const (
	barWidth   = 10
	barColumns = barWidth + len(" 100% ||") + 2 // with a column to spare: some terminals wrap behind their last
)

// columns is the width of a terminal; 80 where it does not say.
func columns(screen io.Writer) int {
	if f, ok := screen.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// fit joins as many of the first parts as there is room for.
func fit(columns int, parts []string) string {
	line := ""
	for i, p := range parts {
		if i > 0 {
			p = ", " + p
		}
		if len(line)+len(p) > columns {
			break
		}
		line += p
	}
	return line
}

// hide makes room for a line that goes to another writer; the next at shows the bar again.
func (m *messages) hide() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		m.bar.Clear()
	}
}

// stop removes the bar.
func (m *messages) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		m.bar.Clear()
		m.bar = nil
	}
}
