// Package quantizer turns columns of gradients into few bits and back, with error feedback: what a column loses when it is
// quantized is kept as its residual, and added to its next gradient.
//
// One bit follows Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training
// of Speech DNNs" (2014), with one column an output channel. It knows columns, values and bytes; which columns there are, who
// owns them and how messages travel is the business of package distributed.
package quantizer

// Column is a run of values that share one scale.
type Column struct {
	Offset int32 // of its first value
	Rows   int32 // values
	Dense  bool  // sent as it is, whatever the format
}

// Format says how columns are sent.
type Format struct {
	Bits          int  // 32, 16, 8, 4, 2 or 1
	ZeroThreshold bool // 1 bit: values are told by their sign; false: by the mean of their column
}

// TODO(contract): the functions below are to be implemented.
//
//	Bytes(columns) int                                         length of the columns' wire form
//	Encode(columns, gradient, residual, next, wire) (bad int)  v = gradient + residual; wire = code(v); next = v - decode(wire)
//	Decode(columns, wire, values)                              values = decode(wire)
//	Add(columns, wire, values)                                 values += decode(wire)
