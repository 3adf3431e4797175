package readers

import (
	"slices"
	"testing"
)

// The numbers of a seed must never change: they are what a replay stands on.
func TestRandomNumbersStayTheSame(t *testing.T) {
	want := []int32{4, 6, 1, 9, 5, 7, 2, 0, 3, 8}
	if got := (order{seed: 1, n: 10}).sweep(0, nil); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestOrderIsAPermutationOfItsOwnForEachSweep(t *testing.T) {
	o := order{seed: 7, n: 1000}
	first, second := o.sweep(0, nil), o.sweep(1, nil)
	if slices.Equal(first, second) {
		t.Error("two sweeps have one order")
	}
	if slices.Equal(first, order{seed: 8, n: 1000}.sweep(0, nil)) {
		t.Error("two seeds have one order")
	}
	again := o.sweep(0, slices.Clone(second))
	if !slices.Equal(first, again) {
		t.Error("a sweep's order depends on what the buffer held")
	}
	slices.Sort(first)
	if !slices.Equal(first, sequence(1000, nil)) {
		t.Error("not every sample once")
	}
}

func TestIntnIsUniform(t *testing.T) {
	const n, draws = 9, 90000
	var count [n]int
	r := keyed(3)
	for range draws {
		count[r.intn(n)]++
	}
	for i, c := range count {
		if c < 9600 || c > 10400 { // four standard deviations are 377
			t.Errorf("%d drawn %d times of %d", i, c, draws)
		}
	}
}
