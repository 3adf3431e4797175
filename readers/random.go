package readers

import (
	"math/bits"

	"gotrain/internal/splitmix"
)

// random is a stream of random numbers.
type random splitmix.Source

func (r *random) next() uint64 { return (*splitmix.Source)(r).Next() }

// The first key says what a stream of numbers is for, so that no two uses share one.
const (
	keyShuffle uint64 = 1
	keyAugment uint64 = 2
)

// keyed returns the stream that belongs to a sequence of keys.
func keyed(keys ...uint64) random {
	var r random
	for _, k := range keys {
		r = random(r.next() ^ k)
		r = random(r.next())
	}
	return r
}

// intn returns a number from 0 to n-1, without bias (Lemire 2019).
func (r *random) intn(n int) int {
	hi, lo := bits.Mul64(r.next(), uint64(n))
	for threshold := -uint64(n) % uint64(n); lo < threshold; {
		hi, lo = bits.Mul64(r.next(), uint64(n))
	}
	return int(hi)
}

// float64 returns a number in [0, 1).
func (r *random) float64() float64 { return float64(r.next()>>11) / (1 << 53) }

// order is the order in which samples are taken: each sweep is a permutation of its own, given by the seed and the
// number of the sweep alone.
type order struct {
	seed int64
	n    int
}

// sweep writes the permutation of a sweep, counted from 0, into dst, which is grown where it is too short, and returns it.
func (o order) sweep(sweep int64, dst []int32) []int32 {
	dst = sequence(o.n, dst)
	r := keyed(keyShuffle, uint64(o.seed), uint64(sweep))
	for i := o.n - 1; i > 0; i-- { // Fisher and Yates
		j := r.intn(i + 1)
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}

// sequence writes 0 to n-1 into dst.
func sequence(n int, dst []int32) []int32 {
	if cap(dst) < n {
		dst = make([]int32, n)
	}
	dst = dst[:n]
	for i := range dst {
		dst[i] = int32(i)
	}
	return dst
}
