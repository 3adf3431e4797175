package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"gorgonia.org/tensor"
)

// Write writes the tensors and texts as one file. Equal input gives equal bytes: tensors are ordered by name, those of
// larger values before those of smaller ones, so that each starts at a multiple of its values' size. Tensors that are
// not contiguous and row-major are refused.
func Write(w io.Writer, tensors map[string]*tensor.Dense, metadata map[string]string) error {
	names, err := order(tensors)
	if err != nil {
		return err
	}
	head, err := formatHeader(names, tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	chunk := make([]byte, 0, chunkBytes)
	for _, name := range names {
		if err := writeTensor(w, tensors[name], chunk); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return nil
}

// order checks that every tensor can be written, and lists their names in the order of the file.
func order(tensors map[string]*tensor.Dense) ([]string, error) {
	names := slices.Sorted(maps.Keys(tensors))
	for _, name := range names {
		t := tensors[name]
		switch _, ok := dtypeOf(t.Dtype()); {
		case name == metadataKey:
			return nil, fmt.Errorf("tensor %q: the format keeps that name for its texts: choose another", name)
		case !utf8.ValidString(name):
			return nil, fmt.Errorf("tensor %q: its name is not UTF-8 text", name)
		case !ok:
			return nil, fmt.Errorf("tensor %q: values of %v cannot be written: use one of %s", name,
				t.Dtype(), readableNames())
		case !plain(t):
			return nil, fmt.Errorf("tensor %q: is not contiguous and row-major: write a clone of it", name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(tensors[b].Dtype().Size(), tensors[a].Dtype().Size())
	})
	return names, nil
}

// formatHeader gives the length and the padded header.
func formatHeader(names []string, tensors map[string]*tensor.Dense, metadata map[string]string) ([]byte, error) {
	head := bytes.NewBuffer(make([]byte, lengthBytes))
	head.WriteByte('{')
	if len(metadata) > 0 {
		text, err := json.Marshal(metadata) // which sorts the keys
		if err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
		fmt.Fprintf(head, "%q:%s", metadataKey, text)
	}
	at := int64(0)
	for _, name := range names {
		t := tensors[name]
		d, _ := dtypeOf(t.Dtype())
		end := at + values(t)*d.size
		entry := struct {
			DType   string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{d.name, append([]int{}, t.Shape()...), [2]int64{at, end}}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		text, err := json.Marshal(entry)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if head.Len() > lengthBytes+1 {
			head.WriteByte(',')
		}
		fmt.Fprintf(head, "%s:%s", key, text)
		at = end
	}
	head.WriteByte('}')
	for head.Len()%headerAlign != 0 {
		head.WriteByte(' ')
	}
	n := head.Len() - lengthBytes
	if n > maxHeader {
		return nil, fmt.Errorf("the header has %d bytes, where the format allows %d", n, maxHeader)
	}
	binary.LittleEndian.PutUint64(head.Bytes(), uint64(n))
	return head.Bytes(), nil
}

func writeTensor(w io.Writer, t *tensor.Dense, chunk []byte) error {
	switch t.Dtype() {
	case tensor.Float32:
		return writeValues(w, t.Float32s(), chunk)
	case tensor.Float64:
		return writeValues(w, t.Float64s(), chunk)
	case tensor.Int32:
		return writeValues(w, t.Int32s(), chunk)
	case tensor.Int64:
		return writeValues(w, t.Int64s(), chunk)
	default: // uint8: order refused the others
		_, err := w.Write(t.Uint8s())
		return err
	}
}

func writeValues[T value](w io.Writer, values []T, chunk []byte) error {
	for part := range slices.Chunk(values, chunkBytes/8) {
		var err error
		if chunk, err = binary.Append(chunk[:0], binary.LittleEndian, part); err != nil {
			return err
		}
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// plain says whether the memory holds the values in the order of the format.
func plain(t *tensor.Dense) bool { return !t.RequiresIterator() && !t.DataOrder().IsColMajor() }

// values is the number of a tensor's values, 1 for a scalar.
func values(t *tensor.Dense) int64 {
	n := int64(1)
	for _, extent := range t.Shape() {
		n *= int64(extent)
	}
	return n
}
