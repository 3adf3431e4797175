package readers

import "math/bits"

// random is SplitMix64 (Steele, Lea and Flood 2014). It stands here, and not math/rand, because its numbers are part of
// what a seed means: they must be the same in every release of Go.
type random uint64

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

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
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

// Order is the order in which samples are taken: each sweep is a permutation of its own, given by the seed and the
// number of the sweep alone.
type Order struct {
	Seed int64
	N    int
}

// Sweep writes the permutation of a sweep, counted from 0, into dst, which is grown where it is too short, and returns it.
func (o Order) Sweep(sweep int64, dst []int32) []int32 {
	dst = sequence(o.N, dst)
	r := keyed(keyShuffle, uint64(o.Seed), uint64(sweep))
	for i := o.N - 1; i > 0; i-- { // Fisher and Yates
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
