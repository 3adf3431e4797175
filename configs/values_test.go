package configs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestValuesComeWithTheirOrigins(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte("extends: quickstart\nlearner:\n  maxEpochs: 7\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := Load("mine.yaml", []string{"seed=3"}, WithDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]KeyValue{}
	for _, v := range c.Values() {
		found[v.Key] = v
	}
	for _, want := range []KeyValue{
		{"learner.maxEpochs", "7", "mine.yaml:3:14"},
		{"seed", "3", "argument seed=3"},
		{"device", "auto", "default"},
		{"name", "mine", "default"},
	} {
		if got := found[want.Key]; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if v, there := found["log.json"]; there {
		t.Errorf("a key without a value is listed: %+v", v)
	}
}
