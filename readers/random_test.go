package readers

import (
	"slices"
	"testing"
)

// The numbers of a seed must never change: they are what a replay stands on.
func TestRandomNumbersStayTheSame(t *testing.T) {
	var r random // the published test vector of SplitMix64 with state 0
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := r.next(); got != want {
			t.Errorf("number %d: %#x, want %#x", i, got, want)
		}
	}
	want := []int32{4, 6, 1, 9, 5, 7, 2, 0, 3, 8}
	if got := (Order{Seed: 1, N: 10}).Sweep(0, nil); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestOrderIsAPermutationOfItsOwnForEachSweep(t *testing.T) {
	o := Order{Seed: 7, N: 1000}
	first, second := o.Sweep(0, nil), o.Sweep(1, nil)
	if slices.Equal(first, second) {
		t.Error("two sweeps have one order")
	}
	if slices.Equal(first, Order{Seed: 8, N: 1000}.Sweep(0, nil)) {
		t.Error("two seeds have one order")
	}
	again := o.Sweep(0, slices.Clone(second))
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
