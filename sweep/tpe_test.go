package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
)

// space is a search over a logarithmic rate, a share, an integer and a word.
func space(t *testing.T, strategy string, seed int) *File {
	t.Helper()
	f, err := parsed(head + "    learner.learningRatesPerMB: {logUniform: [1e-4, 10]}\n    learner.momentumPerMB: {uniform: [0, 1]}\n    learner.minibatchSize: {int: [1, 64]}\n    precision: [float32, bfloat16, tf32]\n" +
		fmt.Sprintf("  strategy: %s\n  trials: 50\n  seed: %d\n", strategy, seed))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// loss is least, 0, at a rate of 0.05, a share of 0.8, the integer 20 and the second word.
func loss(values []Value) float64 {
	number := func(i int) float64 {
		v, _ := strconv.ParseFloat(values[i].Text, 64)
		return v
	}
	l := math.Pow(math.Log10(number(0)/0.05)/5, 2) + math.Pow(number(1)-0.8, 2) + math.Pow((number(2)-20)/64, 2)
	if values[3].Text != "bfloat16" {
		l += 0.1
	}
	return l
}

// search gives the losses of all trials, each proposed by those before.
func search(f *File) (seen []observation) {
	for i := range f.Trials {
		v := f.propose(i, seen)
		o := observation{loss: loss(v)}
		for _, x := range v {
			o.values = append(o.values, x.Text)
		}
		seen = append(seen, o)
	}
	return seen
}

func TestTPEFindsBetterTrialsThanChance(t *testing.T) {
	const seeds = 20
	best := map[string]float64{}
	late := map[string]float64{}
	for _, strategy := range []string{Random, TPE} {
		for seed := range seeds {
			seen := search(space(t, strategy, seed))
			least := math.Inf(1)
			for i, o := range seen {
				least = min(least, o.loss)
				if i >= 30 {
					late[strategy] += o.loss / 20 / seeds
				}
			}
			best[strategy] += least / seeds
		}
	}
	t.Logf("best of 50, on average: %.4f at random, %.4f by TPE; of the last 20: %.4f and %.4f", best[Random], best[TPE], late[Random], late[TPE])
	if best[TPE] > 0.8*best[Random] || late[TPE] > 0.3*late[Random] {
		t.Errorf("TPE is hardly better than chance")
	}
}

func TestTPEProposesTheSameForTheSameTrials(t *testing.T) {
	a, b := search(space(t, TPE, 1)), search(space(t, TPE, 1))
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed proposes other trials")
	}
	if !reflect.DeepEqual(a[:tpeStartup], search(space(t, Random, 1))[:tpeStartup]) {
		t.Error("the first trials are not those of a random search")
	}
	f := space(t, TPE, 1)
	for i := range a {
		a[i].loss = math.Inf(1) // none has a result
	}
	for k, v := range f.propose(40, a) {
		if p := f.Parameters[k]; p.Scale != "" && !within(p, v.Text) {
			t.Errorf("%s: %s", p.Key, v.Text)
		}
	}
}

func TestDensitiesSumToOne(t *testing.T) {
	p := Parameter{Scale: "uniform", Low: 0, High: 1}
	d := p.density(0, []observation{{values: []string{"0.1"}}, {values: []string{"0.15"}}, {values: []string{"0.9"}}})
	sum, mean := 0.0, 0.0
	const n = 10_000
	for i := range n {
		x := (float64(i) + 0.5) / n
		sum += d.at(x) / n
		mean += x * d.at(x) / n
	}
	if math.Abs(sum-1) > 1e-3 {
		t.Errorf("the integral is %v", sum)
	}
	r, drawn := rand.New(rand.NewPCG(1, 1)), 0.0
	for range n {
		drawn += d.draw(r) / n
	}
	if math.Abs(drawn-mean) > 0.02 {
		t.Errorf("the mean of draws is %v, and of the density %v", drawn, mean)
	}
}

func TestHalvingKeepsTheBestOfThoseThatHaveCome(t *testing.T) {
	h := &Halving{MinEpochs: 2, Factor: 3}
	var rungs []int
	for e := 1; e <= 60; e++ {
		if h.rung(e) {
			rungs = append(rungs, e)
		}
	}
	if !slices.Equal(rungs, []int{2, 6, 18, 54}) {
		t.Errorf("trials are compared behind epochs %v", rungs)
	}
	var all []float64
	var kept []bool
	for _, v := range []float64{5, 6, 4, 7, 8, 4.5, 9, 1} {
		all = append(all, v)
		kept = append(kept, h.keep(all, v))
	}
	if want := []bool{true, false, true, false, false, true, false, true}; !slices.Equal(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
}
