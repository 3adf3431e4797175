package pipeline

import (
	"path/filepath"
	"strings"
	"testing"

	"gotrain/graph"
	"gotrain/readers"
)

func TestAnotherRuleStartsWithMomentsOfZero(t *testing.T) {
	dir := t.TempDir()
	stop(t, small(t, dir), nil)
	adam := small(t, dir, "learner.type=adam")
	s := stop(t, adam, accepting)
	want := "warning: " + filepath.Join(only(t, dir), "checkpoints", "000000000001") +
		": the updates before it followed the rule momentum, and adam goes on from moments of zero\n"
	if !strings.Contains(s.screen, want) {
		t.Errorf("says\n%swant\n%s", s.screen, want)
	}
	if s := do(t, adam, nil); strings.Contains(s.screen, "warning") {
		t.Errorf("warns again:\n%s", s.screen)
	}
	c, _, err := newCheckpoints(only(t, dir), 0).Load()
	if err != nil {
		t.Fatal(err)
	}
	var state State
	if err := c.JSON(statePart, &state); err != nil || state.Rule != "adam" || state.RuleSince != 1 {
		t.Errorf("the state is %+v, %v", state, err)
	}
}

func TestMomentsThatAreMissingAreNotTakenForZero(t *testing.T) {
	dir := t.TempDir()
	cfg := small(t, dir)
	stop(t, cfg, nil)
	store := newCheckpoints(only(t, dir), 0)
	c, _, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	var state State
	if err := c.JSON(statePart, &state); err != nil {
		t.Fatal(err)
	}
	ds, err := readers.Open(cfg.Reader, readers.Train)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	all, err := device{}.executors(source(spec(cfg, ds), cfg), cfg, 1, 1, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := all[0]
	defer e.Close()
	for _, p := range []struct {
		optimizer []Part
		says      string
	}{
		{nil, "the moments of the rule momentum: " + c.Dir + ": the checkpoint has no part optimizer.safetensors"},
		{[]Part{tensorsPart(optimizerPart, modelTensors(e, e.Arena(graph.Statistics)))}, "the moments of the rule momentum: momentum/"},
	} {
		if err := store.Save(state.Step, append([]Part{tensorsPart(modelPart, modelTensors(e, e.Arena(graph.Statistics))), jsonPart(statePart, state)}, p.optimizer...)); err != nil {
			t.Fatal(err)
		}
		if _, err := try(cfg, nil); err == nil || !strings.Contains(err.Error(), p.says) {
			t.Errorf("says %v\nwant %s", err, p.says)
		}
	}
}
