package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"gorgonia.org/tensor"
)

// File gives the tensors of one safetensors file. Its methods may be called from several goroutines where the
// io.ReaderAt below allows that.
type File struct {
	name string
	r    io.ReaderAt
	data int64 // where the values begin in r
	head header
	file *os.File // what Close closes, nil for Read
}

// Open opens the file at path, for reading until Close.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err // names the path and the reason
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	var s *File
	if err == nil {
		s, err = Read(path, f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	s.file = f
	return s, nil
}

// Read reads the header of a file of that size, and checks it whole. The name is for messages. Values are read when they
// are asked for.
func Read(name string, r io.ReaderAt, size int64) (*File, error) {
	var length [lengthBytes]byte
	if size < lengthBytes {
		return nil, fmt.Errorf("%s: %d bytes are too few for a safetensors file", name, size)
	}
	if err := readAt(r, length[:], 0); err != nil {
		return nil, fmt.Errorf("%s: reading the header's length: %w", name, err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader {
		return nil, fmt.Errorf("%s: its header would have %d bytes, where %d are the most: not a safetensors file",
			name, n, maxHeader)
	}
	data := lengthBytes + int64(n)
	if data > size {
		return nil, fmt.Errorf("%s: its header has %d bytes and would end at byte %d of %d: the file was cut short",
			name, n, data, size)
	}
	text := make([]byte, n)
	if err := readAt(r, text, lengthBytes); err != nil {
		return nil, fmt.Errorf("%s: reading the header: %w", name, err)
	}
	head, err := parseHeader(text, size-data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &File{name: name, r: r, data: data, head: head}, nil
}

// Close closes the file that Open opened.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Names lists the tensors, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.head.entries)) }

// Metadata is a copy of the texts that the file carries beside its tensors.
func (f *File) Metadata() map[string]string { return maps.Clone(f.head.metadata) }

// Shape gives a tensor's extents and the name of its type, F32 for instance. ok is false where there is no such tensor.
func (f *File) Shape(name string) (shape []int, dtype string, ok bool) {
	e, ok := f.head.entries[name]
	return slices.Clone(e.shape), e.dtype.name, ok
}

// Tensor reads a tensor into memory of its own.
func (f *File) Tensor(name string) (*tensor.Dense, error) {
	e, err := f.entry(name)
	if err != nil {
		return nil, err
	}
	t := tensor.New(tensor.Of(e.dtype.host), tensor.WithShape(e.shape...))
	return t, f.fill(name, e, t)
}

// ReadInto reads a tensor into memory that dst views, an arena for instance. Shapes and types must be equal.
func (f *File) ReadInto(name string, dst *tensor.Dense) error {
	e, err := f.entry(name)
	if err != nil {
		return err
	}
	if have := []int(dst.Shape()); dst.Dtype() != e.dtype.host || !slices.Equal(have, e.shape) {
		return fmt.Errorf("%s: tensor %q: is %v of shape %v, where %v of shape %v is wanted", f.name, name,
			e.dtype.host, e.shape, dst.Dtype(), have)
	}
	if !plain(dst) {
		return fmt.Errorf("%s: tensor %q: cannot be read into a view that is not contiguous and row-major", f.name, name)
	}
	return f.fill(name, e, dst)
}

// entry finds a tensor whose values a host tensor can hold.
func (f *File) entry(name string) (entry, error) {
	e, ok := f.head.entries[name]
	switch {
	case !ok:
		return e, fmt.Errorf("%s: has no tensor %q", f.name, name)
	case !e.dtype.readable():
		return e, fmt.Errorf("%s: tensor %q: its dtype %s cannot be read: convert it to one of %s", f.name, name,
			e.dtype.name, readableNames())
	case e.begin == e.end:
		return e, fmt.Errorf("%s: tensor %q: shape %v has no values", f.name, name, e.shape)
	}
	return e, nil
}

// value is a host type of values.
type value interface {
	float32 | float64 | int32 | int64 | uint8
}

// fill reads the values of e into t, which has its type and shape.
func (f *File) fill(name string, e entry, t *tensor.Dense) error {
	switch e.dtype.host {
	case tensor.Float32:
		return readValues(f, name, e, t.Float32s())
	case tensor.Float64:
		return readValues(f, name, e, t.Float64s())
	case tensor.Int32:
		return readValues(f, name, e, t.Int32s())
	case tensor.Int64:
		return readValues(f, name, e, t.Int64s())
	default: // uint8: entry refused the others
		return readValues(f, name, e, t.Uint8s())
	}
}

// readValues fills values in pieces that stay in the cache between the read and the conversion.
func readValues[T value](f *File, name string, e entry, values []T) error {
	chunk := make([]byte, min(chunkBytes, e.end-e.begin))
	for at := e.begin; at < e.end; at += int64(len(chunk)) {
		chunk = chunk[:min(int64(len(chunk)), e.end-at)]
		if err := readAt(f.r, chunk, f.data+at); err != nil {
			return fmt.Errorf("%s: tensor %q: reading its values at byte %d: %w", f.name, name, f.data+at, err)
		}
		n, err := binary.Decode(chunk, binary.LittleEndian, values[:int64(len(chunk))/e.dtype.size])
		if err != nil || n != len(chunk) {
			return fmt.Errorf("%s: tensor %q: decoded %d bytes of %d: %w", f.name, name, n, len(chunk), err)
		}
		values = values[int64(n)/e.dtype.size:]
	}
	return nil
}

// readAt fills p. A file that has become shorter since it was opened is an error.
func readAt(r io.ReaderAt, p []byte, offset int64) error {
	n, err := r.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
