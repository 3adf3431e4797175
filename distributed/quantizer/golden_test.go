package quantizer

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotrain/internal/safetensors"
)

// open opens a golden file and returns what reads its tensors.
func open[T any](t *testing.T, path string) (metadata map[string]string, read func(name string) (values []T, shape []int)) {
	file, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file.Metadata(), func(name string) ([]T, []int) {
		tensor, err := file.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		values, ok := tensor.Data().([]T)
		if !ok {
			t.Fatalf("%s: %s has values of type %T", path, name, tensor.Data())
		}
		return values, tensor.Shape()
	}
}

// implementations lists every Encode and Decode of the machine, by name.
func implementations() map[string]func(Format) (encode func([]Column, []float32, []float32, []float32, []byte) int, decode func([]Column, []byte, []float32, bool)) {
	type encode = func([]Column, []float32, []float32, []float32, []byte) int
	type decode = func([]Column, []byte, []float32, bool)
	all := map[string]func(Format) (encode, decode){
		"definition": func(f Format) (encode, decode) { return f.define, f.defineDecode },
	}
	for _, v := range vectorizations() {
		all[v.String()] = func(f Format) (encode, decode) {
			return func(c []Column, g, r, n []float32, w []byte) int { return v.encode(f, c, g, r, n, w) },
				func(c []Column, w []byte, x []float32, add bool) { v.decode(f, c, w, x, add) }
		}
	}
	return all
}

// even is columns one after the other.
func even(columns, rows int) (list []Column) {
	for i := range columns {
		list = append(list, Column{Offset: int32(i * rows), Rows: int32(rows)})
	}
	return list
}

// near compares values within 1e-5 of the largest |v| that their column has seen.
func near(t *testing.T, what string, got, want []float32, rows int, largest []float64) {
	t.Helper()
	for i := range got {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= 1e-5*largest[i/rows]) {
			t.Fatalf("%s: column %d, value %d: is %g and should be %g", what, i/rows, i%rows, got[i], want[i])
		}
	}
}

func TestLevelsAgreeWithTheReference(t *testing.T) {
	paths, _ := filepath.Glob("testdata/*.safetensors")
	if len(paths) != 4 {
		t.Fatalf("testdata has %d files: make them with testdata/make_levels.py", len(paths))
	}
	for _, path := range paths {
		for name, with := range implementations() {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".safetensors")+"/"+name, func(t *testing.T) {
				metadata, read := open[float32](t, path)
				bits, err := strconv.Atoi(metadata["bits"])
				if err != nil {
					t.Fatal(err)
				}
				gradient, shape := read("gradient")
				decoded, _ := read("decoded")
				lost, _ := read("residual")
				f := Format{Bits: bits}
				encode, decode := with(f)
				columns, rows, size := even(shape[1], shape[2]), shape[2], shape[1]*shape[2]
				residual, values, wire := make([]float32, size), make([]float32, size), make([]byte, f.Bytes(columns))
				largest := make([]float64, shape[1])
				for step := range shape[0] {
					g := gradient[step*size:][:size]
					for i := range g {
						largest[i/rows] = max(largest[i/rows], math.Abs(float64(g[i]+residual[i])))
					}
					if bad := encode(columns, g, residual, residual, wire); bad >= 0 {
						t.Fatalf("step %d: column %d is not finite", step, bad)
					}
					decode(columns, wire, values, false)
					near(t, fmt.Sprintf("step %d, decoded", step), values, decoded[step*size:][:size], rows, largest)
				}
				near(t, "residual", residual, lost, rows, largest)
			})
		}
	}
}

// The files of 1-bit aggregation hold more than one quantization; this is about every worker's own, of its gradient.
func TestOneBitAgreesWithTheReference(t *testing.T) {
	dir := os.Getenv("GOTRAIN_GOLDEN")
	if dir == "" {
		t.Skip("GOTRAIN_GOLDEN is not set: it names the folder of onebit_*.safetensors")
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "onebit*.safetensors"))
	if len(paths) == 0 {
		t.Fatalf("GOTRAIN_GOLDEN: %s has no onebit*.safetensors", dir)
	}
	for _, path := range paths {
		for name, with := range implementations() {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".safetensors")+"/"+name, func(t *testing.T) {
				metadata, read := open[float32](t, path)
				_, integers := open[int64](t, path)
				gradient, shape := read("gradient")
				lost, _ := read("residual")
				bits, _ := integers("bits")
				encode, _ := with(Format{Bits: 1, ZeroThreshold: metadata["zeroThreshold"] == "True"})
				for worker := range shape[1] {
					oneBit(t, encode, worker, shape, gradient, bits, lost)
				}
			})
		}
	}
}

func oneBit(t *testing.T, encode func([]Column, []float32, []float32, []float32, []byte) int, worker int, shape []int,
	gradient []float32, bits []int64, lost []float32) {
	columns, rows, size := even(shape[2], shape[3]), shape[3], shape[2]*shape[3]
	residual, wire := make([]float32, size), make([]byte, Format{Bits: 1}.Bytes(columns))
	piece := len(wire) / len(columns)
	exact := make([]float64, size) // the residual
	largest := make([]float64, len(columns))
	for step := range shape[0] {
		at := (step*shape[1] + worker) * size
		g, want := gradient[at:][:size], bits[at:][:size]
		if bad := encode(columns, g, residual, residual, wire); bad >= 0 {
			t.Fatalf("step %d: column %d is not finite", step, bad)
		}
		for c := range columns {
			message := wire[c*piece:][:piece]
			var sum [2]float64
			var n [2]int
			for i := range rows {
				k := c*rows + i
				if bit := int64(message[8+i/8] >> (i % 8) & 1); bit != want[k] {
					t.Fatalf("worker %d, step %d, column %d, value %d: the bit is %d and should be %d", worker, step, c, i, bit, want[k])
				}
				exact[k] += float64(g[k])
				largest[c] = max(largest[c], math.Abs(exact[k]))
				sum[want[k]] += exact[k]
				n[want[k]]++
			}
			for side := range sum {
				mean := sum[side] / float64(max(n[side], 1))
				near(t, fmt.Sprintf("worker %d, step %d, column %d, mean %d", worker, step, c, side),
					[]float32{getFloat(message[4*side:])}, []float32{float32(mean)}, 1, largest[c:])
				sum[side] = mean
			}
			for i := range rows {
				k := c*rows + i
				exact[k] -= sum[want[k]]
			}
		}
	}
	near(t, fmt.Sprintf("worker %d, residual", worker), residual, lost[worker*size:][:size], rows, largest)
}
