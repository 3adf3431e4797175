//go:build !cgo

package quantizer

// Without cgo there is only the definition.
type vectorized struct{}

func vectorizations() []vectorized  { return nil }
func best() (v vectorized, ok bool) { return v, false }
func (v vectorized) String() string { return "none" }

func (v vectorized) encode(f Format, columns []Column, gradient, residual, next []float32, wire []byte) (bad int) {
	return f.define(columns, gradient, residual, next, wire)
}

func (v vectorized) decode(f Format, columns []Column, wire []byte, values []float32, add bool) {
	f.defineDecode(columns, wire, values, add)
}

// memcpy is the measure of the benchmarks.
func memcpy(to, from []byte) { copy(to, from) }
