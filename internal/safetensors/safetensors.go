// Package safetensors reads and writes named host tensors in the safetensors format, the one of model files, checkpoints
// and golden training steps.
//
// A file is
//
//	8 bytes   n, the length of the header, little-endian
//	n bytes   the header: a JSON object, padded with spaces
//	the rest  the values of all tensors, row-major, little-endian, without gaps
//
// and the header's entries are
//
//	"__metadata__": {"key": "text", ...}                                        optional
//	"name": {"dtype": "F32", "shape": [16, 3, 3, 3], "data_offsets": [0, 1728]}  offsets from the end of the header
//
// as https://huggingface.co/docs/safetensors describes them. Files are read as if they came from an enemy: every figure
// is checked before it is used. Files are written so that equal tensors give equal bytes.
//
// It knows nothing of networks or checkpoints, and the types of values are those that a gorgonia tensor can hold here:
// F32, F64, I64, I32, U8. Others are recognized in a header and refused when their values are asked for.
package safetensors

import (
	"slices"
	"strings"

	"gorgonia.org/tensor"
)

// Limits of what is read.
const (
	maxHeader   = 100_000_000    // the format's own limit
	headerAlign = 8              // of the first value, when written
	chunkBytes  = 1 << 16        // values are converted in pieces of this size
	metadataKey = "__metadata__" // the header's one entry that is no tensor
	lengthBytes = 8              // the length before the header
)

// A dtype is a type of values: its name in files, the bytes of one value, and the host's type where it has one.
type dtype struct {
	name string
	size int64
	host tensor.Dtype
}

// readable says whether there is a host type for the values.
func (d dtype) readable() bool { return d.host.Type != nil }

var dtypes = []dtype{
	{"F32", 4, tensor.Float32}, {"F64", 8, tensor.Float64},
	{"I32", 4, tensor.Int32}, {"I64", 8, tensor.Int64}, {"U8", 1, tensor.Uint8},
	{name: "BOOL", size: 1}, {name: "I8", size: 1}, {name: "F8_E4M3", size: 1}, {name: "F8_E5M2", size: 1},
	{name: "I16", size: 2}, {name: "U16", size: 2}, {name: "F16", size: 2}, {name: "BF16", size: 2},
	{name: "U32", size: 4}, {name: "U64", size: 8},
}

// dtypeNamed finds a type by its name in files.
func dtypeNamed(name string) (dtype, bool) {
	i := slices.IndexFunc(dtypes, func(d dtype) bool { return d.name == name })
	if i < 0 {
		return dtype{}, false
	}
	return dtypes[i], true
}

// dtypeOf finds the type in files of a host tensor's values.
func dtypeOf(host tensor.Dtype) (dtype, bool) {
	i := slices.IndexFunc(dtypes, func(d dtype) bool { return d.readable() && d.host == host })
	if i < 0 {
		return dtype{}, false
	}
	return dtypes[i], true
}

// readableNames lists the types that have a host type, for messages.
func readableNames() string {
	var names []string
	for _, d := range dtypes {
		if d.readable() {
			names = append(names, d.name)
		}
	}
	return strings.Join(names, ", ")
}
