package quantizer

func (f Format) encode(columns []Column, gradient, residual, next []float32, wire []byte) (bad int) {
	return f.define(columns, gradient, residual, next, wire)
}

func (f Format) decode(columns []Column, wire []byte, values []float32, add bool) {
	f.defineDecode(columns, wire, values, add)
}
