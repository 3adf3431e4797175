package kernels

import (
	"encoding/binary"
	"math"

	"gotrain/cuda/driver"
	"gotrain/graph"
)

// ResultBytes is what a Result takes in device memory: float64 loss, errors, count, squares; uint32 updated; 4 bytes that nothing uses.
const ResultBytes = 40

// Result is what a step leaves in device memory.
type Result struct {
	graph.Metrics
	Squares float64 // of the norm of the aggregated gradient
	Updated bool    // false where loss or norm is not finite
}

// GetResult reads a result.
func GetResult(b []byte) (r Result) {
	for i, v := range []*float64{&r.Loss, &r.Errors, &r.Count, &r.Squares} {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	r.Updated = binary.LittleEndian.Uint32(b[32:]) != 0
	return r
}

// UpdateBytes is what a graph.Update takes in device memory.
const UpdateBytes = 48

// PutUpdate lays an update out for Update: words of rule and nesterov; float32 rate, momentum, gain, L2, clip, beta1, beta2, epsilon; for Adam
// 1/(1-beta1^step) and 1/(1-beta2^step).
func PutUpdate(to []byte, u graph.Update) {
	nesterov := uint32(0)
	if u.Nesterov {
		nesterov = 1
	}
	binary.LittleEndian.PutUint32(to, uint32(u.Rule))
	binary.LittleEndian.PutUint32(to[4:], nesterov)
	unbias := func(beta float32) float32 {
		if u.Rule != graph.Adam {
			return 1
		}
		return float32(1 / (1 - math.Pow(float64(beta), float64(u.Step))))
	}
	for i, v := range []float32{u.Rate, u.Momentum, u.Gain, u.L2, u.Clip, u.Beta1, u.Beta2, u.Epsilon, unbias(u.Beta1), unbias(u.Beta2)} {
		binary.LittleEndian.PutUint32(to[8+4*i:], math.Float32bits(v))
	}
}

func squareBlocks(n int) int { return min(512, max(1, ceil(n, 4096))) }

// SumSquaresScratch is the bytes of scratch memory of SumSquares over n values.
func SumSquaresScratch(n int) int { return 8 * squareBlocks(n) }

// SumSquares writes the sum of squares of an arena to the result; it is not finite where a value is not. n is an arena's size, a multiple of
// 16. ticket is a word that is zero. It reads each value once: memory bounds it, or float64 arithmetic on cards that have little of it.
func (s *Set) SumSquares(n int, x, scratch, ticket, result driver.Pointer) driver.Launch {
	return s.launch("sum_squares", driver.Dim{X: squareBlocks(n), Y: 1, Z: 1}, threads, x, int64(n), scratch, ticket, result)
}

// Update applies the learner's rule to n parameters w with gradients g and moments m and v, which a rule may not need: they are 0 then.
// parameters are what PutUpdate has laid out. Where the result's loss or squares are not finite, it updates nothing and says so in the
// result. It reads and writes each value of w and of the moments once, and reads g once: memory bounds it.
func (s *Set) Update(n int, parameters, result, w, g, m, v driver.Pointer) driver.Launch {
	blocks := min(ceil(n, 1024), 16*max(1, s.info.Multiprocessors))
	return s.launch("update_parameters", driver.Dim{X: max(1, blocks), Y: 1, Z: 1}, threads, parameters, result, w, g, m, v, int64(n))
}
