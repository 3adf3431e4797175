package kernels

import "gotrain/cuda/driver"

// CrossEntropyScratch is the bytes of scratch memory of CrossEntropy for n samples.
func CrossEntropyScratch(n int) int { return 24 * ceil(n, 8) }

// CrossEntropy is the softmax cross-entropy of logits [n][classes], float32: it writes loss, errors and count of result (a Result), and the
// gradient dlogits where that is not 0. labels are int32 [n], weights float32 [n], divisor one float32; ticket is a word that is zero.
// Labels have to be classes. It reads logits three times, from cache but for the first.
func (s *Set) CrossEntropy(n, classes int, logits, labels, weights, divisor, dlogits, scratch, ticket, result driver.Pointer) driver.Launch {
	return s.launch("softmax_cross_entropy", driver.Dim{X: ceil(n, 8), Y: 1, Z: 1}, threads, logits, labels, weights, divisor, dlogits, scratch, ticket, result, n, classes)
}

// AddResults adds the metrics of several workers in their order: results has a pointer for each.
func (s *Set) AddResults(results driver.Pointer, workers int, result driver.Pointer) driver.Launch {
	return s.launch("add_results", driver.Dim{X: 1, Y: 1, Z: 1}, 32, results, workers, result)
}
