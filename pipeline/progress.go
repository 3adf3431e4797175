package pipeline

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// messages writes lines for a person: to the screen, above a progress bar where there is one, and to the run's log.
type messages struct {
	mu       sync.Mutex // skipped records are reported by the loader's goroutines
	screen   io.Writer
	log      io.Writer // nil before the run has its folder
	terminal bool      // what the screen is
	bar      *progressbar.ProgressBar
	before   int64 // what was done before the bar began: it counts the rest, or its rate would be wrong
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
	m.before = done
	m.bar = progressbar.NewOptions64(samples-done,
		progressbar.OptionSetWriter(m.screen),
		progressbar.OptionSetWidth(16),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("samples"),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// at moves the bar.
func (m *messages) at(done int64, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		m.bar.Describe(what)
		m.bar.Set64(done - m.before)
	}
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
