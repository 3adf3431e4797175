//go:build !amd64

package ptx

func (t *tile) multiply(depth int) { t.multiplyPlain(depth) }

func accelerate() {}
