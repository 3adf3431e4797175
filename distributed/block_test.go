package distributed

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gotrain/distributed/group"
)

// TestBlockMomentum follows the rule by hand, for two workers with one parameter: both start at 10, and in each block the first
// moves by -1 and the second by -3.
func TestBlockMomentum(t *testing.T) {
	for _, c := range []struct {
		name   string
		block  Block
		starts []float32 // where the workers start the second and the third block
	}{
		{"momentum", Block{Momentum: 0.5, Rate: 1}, []float32{8, 5}},                   // s = 2, then 1 + 2
		{"nesterov", Block{Momentum: 0.5, Rate: 1, Nesterov: true}, []float32{7, 3.5}}, // the same, and half of s ahead
		{"half the rate", Block{Momentum: 0.5, Rate: 0.5}, []float32{9, 7.5}},
		{"averaging", Block{Rate: 1}, []float32{8, 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := group.Local(2, 10*time.Second)
			results := make([][]float32, 2)
			errs := make(chan error)
			for i, m := range members {
				go func() {
					b, parameters := c.block, []float32{10}
					b.Begin(parameters)
					for n := range 2 {
						parameters[0] -= []float32{1, 3}[i]
						if err := b.End(m, int64(n), parameters); err != nil {
							errs <- err
							return
						}
						results[i] = append(results[i], parameters[0])
					}
					errs <- nil
				}()
			}
			if err := errors.Join(<-errs, <-errs); err != nil {
				t.Fatal(err)
			}
			for i := range results {
				if !slices.Equal(results[i], c.starts) {
					t.Errorf("worker %d starts blocks at %v, want %v", i, results[i], c.starts)
				}
			}
		})
	}
}
