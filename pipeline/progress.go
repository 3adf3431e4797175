package pipeline

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// messages writes lines for a person, above a progress bar where there is one.
type messages struct {
	mu       sync.Mutex // skipped records are reported by the loader's goroutines
	w        io.Writer
	terminal bool
	bar      *progressbar.ProgressBar
	before   int64 // what was done before the bar began: it counts the rest, or its rate would be wrong
}

func (m *messages) printf(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		m.bar.Clear()
	}
	fmt.Fprintf(m.w, format+"\n", args...)
	if m.bar != nil {
		m.bar.RenderBlank()
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
		progressbar.OptionSetWriter(m.w),
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
