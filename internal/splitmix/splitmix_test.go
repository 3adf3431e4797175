package splitmix

import "testing"

// The vectors are those that the generator's authors and its other implementations publish.
func TestTheSequenceIsThePublishedOne(t *testing.T) {
	for seed, want := range map[Source][]uint64{
		0:       {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f},
		1234567: {6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821},
	} {
		s := seed
		for i, w := range want {
			if got := s.Next(); got != w {
				t.Errorf("seed %d, number %d: %#x, want %#x", seed, i, got, w)
			}
		}
	}
}
