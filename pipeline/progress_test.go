package pipeline

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestTheBarKeepsWithinTheTerminal(t *testing.T) {
	parts := []string{"epoch 12/160", "391/391", "loss 1.234"}
	for columns, want := range map[int]string{100: "epoch 12/160, 391/391, loss 1.234", 33: "epoch 12/160, 391/391, loss 1.234",
		32: "epoch 12/160, 391/391", 12: "epoch 12/160", 11: "", -5: ""} {
		if got := fit(columns, parts); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
	var screen bytes.Buffer
	m := messages{screen: &screen, terminal: true}
	m.start(50000, 0)
	for _, done := range []int64{1, 25000, 49999} {
		time.Sleep(110 * time.Millisecond) // the bar shows no more often
		m.at(done, "epoch 160/160", "391/391", "loss 12.345", "error 100.0%")
	}
	m.stop()
	colors := regexp.MustCompile(`\x1b\[[0-9;]*[a-zA-Z]`)
	for _, line := range strings.FieldsFunc(colors.ReplaceAllString(screen.String(), ""), func(r rune) bool { return r == '\r' || r == '\n' }) {
		if n := utf8.RuneCountInString(line); n > 79 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if !strings.Contains(screen.String(), "epoch 160/160") || strings.Contains(screen.String(), "/hr") {
		t.Errorf("shows %q", screen.String())
	}
}
