package safetensors

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

// file gives a file of a header and zeros after it.
func file(head string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	return append(append(b, head...), make([]byte, data)...)
}

func TestBadFilesAreRefused(t *testing.T) {
	length := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	one := func(dtype, shape, offsets string) string {
		return `{"w":{"dtype":` + dtype + `,"shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "m: 0 bytes are too few for a safetensors file"},
		{"length cut", []byte{1, 2, 3}, "m: 3 bytes are too few for a safetensors file"},
		{"length beyond the limit", length(math.MaxUint64),
			"m: its header would have 18446744073709551615 bytes, where 100000000 are the most: not a safetensors file"},
		{"length beyond the file", append(length(50), "{}"...),
			"m: its header has 50 bytes and would end at byte 58 of 10: the file was cut short"},
		{"no header", length(0), "m: header is not a JSON object: the header is not whole JSON: unexpected EOF"},
		{"not UTF-8", file("{\"\xff\":1}", 0), "m: header is not UTF-8 text"},
		{"not JSON", file(`{w}`, 0), "m: header: the header is not whole JSON: invalid character 'w'"},
		{"a list", file(`[]`, 0), "m: header is not a JSON object"},
		{"cut JSON", file(`{"w":{"dtype":"F32"`, 0), "m: tensor \"w\": its entry has no end: the header is not whole JSON: unexpected EOF"},
		{"more after the header", file(`{}{}`, 0), `m: header has "{}" after its end`},
		{"a tensor twice", file(strings.TrimSuffix(one(`"U8"`, `[1]`, `[0,1]`), "}")+`,"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1),
			`m: header has "w" twice`},
		{"a key twice", file(`{"w":{"dtype":"U8","dtype":"U8","data_offsets":[0,1]}}`, 1), `m: tensor "w": its entry has "dtype" twice`},
		{"metadata twice", file(`{"__metadata__":{},"__metadata__":{}}`, 0), `m: header has "__metadata__" twice`},
		{"a text twice", file(`{"__metadata__":{"a":"1","a":"2"}}`, 0), `m: __metadata__ has "a" twice`},
		{"a text that is none", file(`{"__metadata__":{"a":1}}`, 0), `m: __metadata__: "a" is 1 and not a text`},
		{"an unknown key", file(`{"w":{"Dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1),
			`m: tensor "w": key "Dtype" is unknown: an entry has dtype, shape and data_offsets`},
		{"a missing key", file(`{"w":{"dtype":"U8","data_offsets":[0,1]}}`, 1),
			`m: tensor "w": its entry lacks one of dtype, shape and data_offsets`},
		{"an entry that is none", file(`{"w":3}`, 0), `m: tensor "w": its entry is not a JSON object`},
		{"unknown dtype", file(one(`"F31"`, `[1]`, `[0,4]`), 4),
			`m: tensor "w": dtype "F31" is unknown: use one of F32, F64, I32, I64, U8`},
		{"dtype no text", file(one(`null`, `[1]`, `[0,4]`), 4), `m: tensor "w": dtype is <nil> and not a text`},
		{"shape null", file(one(`"F32"`, `null`, `[0,4]`), 4), `m: tensor "w": shape is not a list of integers`},
		{"extent null", file(one(`"F32"`, `[null]`, `[0,4]`), 4),
			`m: tensor "w": shape has <nil>, which is no integer from 0 on that fits`},
		{"extent negative", file(one(`"F32"`, `[-1]`, `[0,4]`), 4),
			`m: tensor "w": shape has -1, which is no integer from 0 on that fits`},
		{"extent fractional", file(one(`"F32"`, `[1.0]`, `[0,4]`), 4),
			`m: tensor "w": shape has 1.0, which is no integer from 0 on that fits`},
		{"extent too large", file(one(`"F32"`, `[9223372036854775808]`, `[0,4]`), 4),
			`m: tensor "w": shape has 9223372036854775808, which is no integer from 0 on that fits`},
		{"product overflows to the size", file(one(`"F32"`, `[4611686018427387904,4611686018427387905]`, `[0,4]`), 4),
			`m: tensor "w": F32 values of shape [4611686018427387904 4611686018427387905] do not take the 4 bytes of its data_offsets`},
		{"product too small", file(one(`"F32"`, `[2,2]`, `[0,20]`), 20),
			`m: tensor "w": F32 values of shape [2 2] do not take the 20 bytes of its data_offsets`},
		{"values for a shape of none", file(one(`"F32"`, `[2,0]`, `[0,8]`), 8),
			`m: tensor "w": F32 values of shape [2 0] do not take the 8 bytes of its data_offsets`},
		{"no values for a shape", file(one(`"F32"`, `[2]`, `[0,0]`), 0),
			`m: tensor "w": F32 values of shape [2] do not take the 0 bytes of its data_offsets`},
		{"one offset", file(one(`"F32"`, `[1]`, `[0]`), 4), `m: tensor "w": data_offsets [0] is not a begin and an end`},
		{"offsets reversed", file(one(`"F32"`, `[1]`, `[4,0]`), 4), `m: tensor "w": data_offsets [4 0] is not a begin and an end`},
		{"beyond the data", file(one(`"F32"`, `[2]`, `[0,8]`), 4),
			`m: tensor "w": its values end at byte 8 of the data, which has 4: the file was cut short`},
		{"overlap", file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 4),
			`m: tensor "b": its values begin at byte 2 of the data, within those of "a", which end at 4`},
		{"hole", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}`, 4),
			`m: tensor "b": its values begin at byte 3 of the data, and bytes 1 to 3 belong to no tensor`},
		{"rest", file(one(`"U8"`, `[1]`, `[0,1]`), 4),
			`m: the tensors end at byte 1 of the data, which has 4: the rest belongs to no tensor`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read("m", bytes.NewReader(c.data), int64(len(c.data)))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestTensorsThatDoNotFitAreRefused(t *testing.T) {
	data := file(`{"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"h":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]},`+
		`"none":{"dtype":"F32","shape":[0,3],"data_offsets":[10,10]}}`, 10)
	f := read(t, data)
	for _, c := range []struct {
		name string
		into *tensor.Dense
		want string
	}{
		{"x", nil, `m.safetensors: has no tensor "x"`},
		{"h", nil, `m.safetensors: tensor "h": its dtype BF16 cannot be read: convert it to one of F32, F64, I32, I64, U8`},
		{"none", nil, `m.safetensors: tensor "none": shape [0 3] has no values`},
		{"w", dense([]int{2}, make([]float32, 2)),
			`m.safetensors: tensor "w": is float32 of shape [1 2], where float32 of shape [2] is wanted`},
		{"w", dense([]int{1, 2}, make([]float64, 2)),
			`m.safetensors: tensor "w": is float32 of shape [1 2], where float64 of shape [1 2] is wanted`},
		{"w", tensor.New(tensor.WithShape(1, 2), tensor.AsFortran(make([]float32, 2))),
			`m.safetensors: tensor "w": cannot be read into a view that is not contiguous and row-major`},
	} {
		var err error
		if c.into == nil {
			_, err = f.Tensor(c.name)
		} else {
			err = f.ReadInto(c.name, c.into)
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	if shape, dtype, ok := f.Shape("h"); !ok || dtype != "BF16" || len(shape) != 1 {
		t.Errorf("the header says %v %v %v of h", shape, dtype, ok)
	}
}

func TestAFileThatShrinksIsAnError(t *testing.T) {
	data := write(t, sample(), nil)
	f, err := Read("m", bytes.NewReader(data[:len(data)-1]), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.Tensor("pixels"); err == nil || !strings.HasSuffix(err.Error(), "unexpected EOF") {
		t.Errorf("got %v", err)
	}
}

func TestOpenNamesWhatItCannotOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || err.Error() != dir+" is not a regular file" {
		t.Errorf("a folder: %v", err)
	}
	missing := filepath.Join(dir, "m.safetensors")
	if _, err := Open(missing); err == nil || err.Error() != "open "+missing+": no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(missing, write(t, sample(), nil), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(missing)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzRead demands that no file makes the reader panic, and that what it reads is written and read again alike.
func FuzzRead(f *testing.F) {
	f.Add(file(`{"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"s":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}`, 16))
	f.Add(file(`{"__metadata__":{"a":"b"},"w":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]}}   `, 0))
	f.Add(file(`{"w":{"dtype":"U8","shape":[1,1,1,1,1,3],"data_offsets":[0,3]}}`, 3))
	f.Add(file(`{"w":{"dtype":"F64","shape":[9223372036854775807,2],"data_offsets":[0,8]}}`, 8))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read("m", bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		tensors := map[string]*tensor.Dense{}
		for _, name := range r.Names() {
			if d, err := r.Tensor(name); err == nil {
				tensors[name] = d
			}
		}
		once := write(t, tensors, r.Metadata())
		again := read(t, once)
		for name := range tensors {
			if tensors[name], err = again.Tensor(name); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(write(t, tensors, again.Metadata()), once) {
			t.Error("what was written is not read again alike")
		}
	})
}
