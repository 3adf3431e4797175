// Package splitmix is the generator of all random numbers that a seed stands for: SplitMix64 of Steele, Lea and Flood,
// "Fast Splittable Pseudorandom Number Generators" (2014).
//
// It is our own, and not math/rand, because its sequence is part of what a seed means: no release of Go may change initial
// weights, orders or crops. It is no source of secrets.
package splitmix

// Source is the state of a generator; any value is good.
type Source uint64

// Next returns the next 64 bits.
func (s *Source) Next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
