package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

func dense(shape []int, backing any) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))
}

// sample has a tensor of every type, a scalar, and one larger than the piece in which values are converted.
func sample() map[string]*tensor.Dense {
	long := make([]float32, chunkBytes/4*3+5)
	for i := range long {
		long[i] = float32(i) / 3
	}
	return map[string]*tensor.Dense{
		"conv1.weight": dense([]int{2, 1, 1, 3}, []float32{1, -2, 3.5, 0, float32(math.Inf(1)), 1e-45}),
		"loss":         dense([]int{2}, []float64{math.Pi, -0.1}),
		"labels":       dense([]int{1, 3}, []int64{math.MinInt64, 0, math.MaxInt64}),
		"counts":       dense([]int{2}, []int32{math.MinInt32, 7}),
		"pixels":       dense([]int{5}, []uint8{0, 1, 2, 254, 255}),
		"scalar":       tensor.New(tensor.FromScalar(float32(-7))),
		"long":         dense([]int{len(long)}, long),
		"a \"b\" é":    dense([]int{1}, []float32{1}),
	}
}

func write(t *testing.T, tensors map[string]*tensor.Dense, metadata map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(t *testing.T, data []byte) *File {
	t.Helper()
	f, err := Read("m.safetensors", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	metadata := map[string]string{"recipe": `{"depth": 20}`, "a": ""}
	f := read(t, write(t, sample(), metadata))
	if got := f.Metadata(); !reflect.DeepEqual(got, metadata) {
		t.Errorf("metadata is %v", got)
	}
	if len(f.Names()) != len(sample()) || !slices.IsSorted(f.Names()) {
		t.Errorf("names are %q", f.Names())
	}
	for name, want := range sample() {
		got, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Shape().Eq(want.Shape()) || got.Dtype() != want.Dtype() || !reflect.DeepEqual(got.Data(), want.Data()) {
			t.Errorf("%s: got %v of shape %v, want %v of shape %v", name, got.Dtype(), got.Shape(), want.Dtype(), want.Shape())
		}
		into := tensor.New(tensor.Of(want.Dtype()), tensor.WithShape(want.Shape()...))
		if err := f.ReadInto(name, into); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(into.Data(), want.Data()) {
			t.Errorf("%s: ReadInto gave other values", name)
		}
	}
}

func TestReadIntoFillsAnArena(t *testing.T) {
	f := read(t, write(t, map[string]*tensor.Dense{"w": dense([]int{2, 2}, []float32{1, 2, 3, 4})}, nil))
	arena := make([]float32, 6)
	if err := f.ReadInto("w", dense([]int{2, 2}, arena[1:5])); err != nil {
		t.Fatal(err)
	}
	if want := []float32{0, 1, 2, 3, 4, 0}; !slices.Equal(arena, want) {
		t.Errorf("the arena is %v, want %v", arena, want)
	}
}

func TestEqualTensorsGiveEqualBytes(t *testing.T) {
	metadata := map[string]string{"z": "1", "y": "2", "x": "3"}
	want := write(t, sample(), metadata)
	for range 20 { // maps come in another order each time
		if !bytes.Equal(write(t, sample(), metadata), want) {
			t.Fatal("bytes differ")
		}
	}
}

func TestEveryTensorIsAligned(t *testing.T) {
	f := read(t, write(t, sample(), nil))
	if f.data%headerAlign != 0 {
		t.Errorf("values begin at byte %d", f.data)
	}
	for name, e := range f.head.entries {
		if e.begin%e.dtype.size != 0 {
			t.Errorf("%s begins at byte %d", name, e.begin)
		}
	}
}

func TestAFileIsLaidOutAsTheFormatSays(t *testing.T) {
	got := write(t, map[string]*tensor.Dense{
		"b": dense([]int{1, 2}, []float32{1, -2}), "a": dense([]int{1}, []uint8{9})}, map[string]string{"k": "v"})
	head := `{"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},` +
		`"a":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}}`
	head += strings.Repeat(" ", -len(head)&7)
	want := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	want = append(want, head...)
	want = append(want, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 9)
	if !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestWhatCannotBeWrittenIsRefused(t *testing.T) {
	matrix := dense([]int{2, 3}, make([]float32, 6))
	columns, err := matrix.Slice(nil, tensor.S(0, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		t    *tensor.Dense
		want string
	}{
		{"x", columns.(*tensor.Dense), `tensor "x": is not contiguous and row-major: write a clone of it`},
		{"x", tensor.New(tensor.WithShape(2, 3), tensor.AsFortran(make([]float32, 6))),
			`tensor "x": is not contiguous and row-major: write a clone of it`},
		{"x", dense([]int{1}, []int16{1}), `tensor "x": values of int16 cannot be written: use one of F32, F64, I32, I64, U8`},
		{"__metadata__", matrix, `tensor "__metadata__": the format keeps that name for its texts: choose another`},
		{"\xff", matrix, `tensor "\xff": its name is not UTF-8 text`},
	} {
		var b bytes.Buffer
		if err := Write(&b, map[string]*tensor.Dense{c.name: c.t}, nil); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
		if b.Len() > 0 {
			t.Errorf("%s: %d bytes were written", c.want, b.Len())
		}
	}
}

// limited writes so many bytes and then fails, as a full disk does.
type limited int

var errFull = errors.New("no space left on device")

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > int(*l) {
		return int(*l), errFull
	}
	*l -= limited(len(p))
	return len(p), nil
}

func TestAWriteErrorIsReported(t *testing.T) {
	whole := len(write(t, sample(), nil))
	for _, room := range []int{0, 7, 500, whole / 2, whole - 1} {
		l := limited(room)
		if err := Write(&l, sample(), nil); !errors.Is(err, errFull) {
			t.Errorf("with room for %d bytes of %d: %v", room, whole, err)
		}
	}
}

func TestGoldenFilesAreRead(t *testing.T) {
	dir := os.Getenv("GOTRAIN_GOLDEN")
	if dir == "" {
		t.Skip("GOTRAIN_GOLDEN names no folder of golden files")
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if len(paths) == 0 {
		t.Fatalf("no .safetensors files in %s", dir)
	}
	for _, path := range paths {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		tensors := map[string]*tensor.Dense{}
		for _, name := range f.Names() {
			if tensors[name], err = f.Tensor(name); err != nil {
				t.Fatal(err)
			}
		}
		again := read(t, write(t, tensors, f.Metadata()))
		for _, name := range f.Names() {
			got, err := again.Tensor(name)
			if err != nil || !reflect.DeepEqual(got.Data(), tensors[name].Data()) {
				t.Errorf("%s: %s is not what was written (%v)", path, name, err)
			}
		}
	}
}
