package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// within says that a text is a number in a parameter's range.
func within(p Parameter, text string) bool {
	v, err := strconv.ParseFloat(text, 64)
	return err == nil && v >= p.Low && v <= p.High
}

// proposals are all trials of a file, a line each.
func proposals(f *File) (all []string) {
	for i := range f.Trials {
		var values []string
		for _, v := range f.propose(i, nil) {
			values = append(values, v.Text)
		}
		all = append(all, strings.Join(values, " "))
	}
	return all
}

func TestAGridHasEveryCombinationOnce(t *testing.T) {
	f, err := parsed(head + "    distributed.bits: [1, 32]\n    learner.L2RegWeight: {logUniform: [1e-5, 1e-3]}\n    seed: {int: [1, 9], points: 2}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1 1e-05 1", "1 1e-05 9", "1 0.0001 1", "1 0.0001 9", "1 0.001 1", "1 0.001 9",
		"32 1e-05 1", "32 1e-05 9", "32 0.0001 1", "32 0.0001 9", "32 0.001 1", "32 0.001 9"}
	if got := proposals(f); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func random(t *testing.T, trials, seed int) *File {
	t.Helper()
	f, err := parsed(head + "    learner.L2RegWeight: {logUniform: [1e-5, 1e-3]}\n    network.batchNorm.epsilon: {uniform: [0.25, 0.75]}\n    learner.minibatchSize: {int: [3, 6]}\n    precision: [float32, bfloat16]\n" +
		fmt.Sprintf("  strategy: random\n  trials: %d\n  seed: %d\n", trials, seed))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheSameSeedProposesTheSameTrials(t *testing.T) {
	few, many, other := proposals(random(t, 10, 1)), proposals(random(t, 200, 1)), proposals(random(t, 10, 2))
	if !slices.Equal(few, many[:10]) {
		t.Errorf("more trials change those before:\n%q\n%q", few, many[:10])
	}
	if slices.Equal(few, other) {
		t.Error("another seed proposes the same")
	}
}

func TestRandomValuesFillTheirRanges(t *testing.T) {
	f := random(t, 2000, 1)
	below := 0
	counts := map[string]int{}
	for i := range f.Trials {
		v := f.propose(i, nil)
		for k, p := range f.Parameters[:3] {
			if !within(p, v[k].Text) {
				t.Fatalf("%s: %s", p.Key, v[k].Text)
			}
		}
		if x, _ := strconv.ParseFloat(v[0].Text, 64); x < 1e-4 {
			below++
		}
		counts[v[2].Text]++
		counts[v[3].Text]++
	}
	if math.Abs(float64(below)-1000) > 150 {
		t.Errorf("%d of 2000 are in the lower half of a logarithmic range", below)
	}
	for value, want := range map[string]float64{"3": 500, "4": 500, "5": 500, "6": 500, "float32": 1000, "bfloat16": 1000} {
		if math.Abs(float64(counts[value])-want) > 150 {
			t.Errorf("%s is there %d times, want about %v", value, counts[value], want)
		}
	}
}
