//go:build !amd64

package ptx

import "unsafe"

func (t *tile) multiply(depth int) { t.multiplyPlain(depth) }

func addAddresses(where *[32]uint32, base unsafe.Pointer, offset, mask, last uint64) bool {
	return false
}

func accelerate() {}
