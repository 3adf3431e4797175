package ptx

func (t *tile) multiply(depth int) { t.multiplyPlain(depth) }
