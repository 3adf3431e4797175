// Package kernels holds the CUDA kernels, compiled to PTX, and makes their launches: for each kernel a method of Set that knows
// its grid, its block and the order of its parameters. What runs when, on which stream and in which memory, is the business of
// package cuda.
//
// # Memory
//
// Activations and their gradients lie as [N][H][W][C] in float32 or bfloat16, and C is a multiple of 8 there: Padded(C). What is
// written is zero in the channels beyond C, and what is read may be relied on to be. Convolutions leave float32 in any precision, see
// graph.Conv. Matrices [N][C] are float32 and not padded. Arenas and all per-channel values are float32 in the plan's layout. Where
// outputs may share memory with inputs is what package graph's memory plan lets them.
//
// What changes from step to step is read from device memory, so that a captured launch can run again: see Update, Result and
// Samples.
//
// # Sums
//
// Sums have one order, which depends on shapes and on nothing else, so that two runs agree to the bit, on whatever card: partial
// sums go to scratch memory, and the last block, by a ticket, adds them up. A launch that takes tickets needs words that are zero,
// and leaves them zero.
//
// Kernels are compiled by clang for sm_80 and PTX 7.8, see generate.sh; newer cards take them through the driver's compiler.
package kernels

import (
	"embed"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"gotrain/cuda/driver"
	"gotrain/graph"
)

//go:generate ./generate.sh

//go:embed *.ptx
var sources embed.FS

// Source is a file of PTX with the names of its kernels.
type Source struct {
	Name    string
	PTX     []byte
	Kernels []string
}

// Sources are the files of PTX, in the order of their names.
func Sources() []Source {
	names, _ := fs.Glob(sources, "*.ptx")
	var all []Source
	for _, name := range names {
		text, _ := sources.ReadFile(name)
		s := Source{Name: name, PTX: text}
		for _, rest := range strings.Split(string(text), ".visible .entry ")[1:] {
			kernel, _, _ := strings.Cut(rest, "(")
			s.Kernels = append(s.Kernels, kernel)
		}
		all = append(all, s)
	}
	return all
}

// Set is the kernels, loaded on one device.
type Set struct {
	functions map[string]driver.Function
	info      driver.Info
}

// Load loads all kernels on a device.
func Load(d driver.Device) (*Set, error) {
	s := &Set{functions: map[string]driver.Function{}, info: d.Info()}
	for _, source := range Sources() {
		m, err := d.Load(source.Name, source.PTX)
		if err != nil {
			return nil, fmt.Errorf("load the kernels of %s: %w", source.Name, err)
		}
		for _, name := range source.Kernels {
			if s.functions[name], err = m.Function(name); err != nil {
				return nil, fmt.Errorf("find kernel %s in %s: %w", name, source.Name, err)
			}
		}
	}
	return s, nil
}

// launch launches a kernel that is among the sources.
func (s *Set) launch(name string, grid driver.Dim, threads int, params ...any) driver.Launch {
	f := s.functions[name]
	if f == nil {
		panic("kernels: no kernel " + name)
	}
	return driver.Launch{Function: f, Grid: grid, Block: driver.Dim{X: threads, Y: 1, Z: 1}, Params: pack(params...)}
}

// flat is a grid of n threads at least.
func flat(n int) driver.Dim { return driver.Dim{X: max(1, ceil(n, threads)), Y: 1, Z: 1} }

const threads = 256 // of a block

// pack lays parameters out as PTX has them: each aligned to its size.
func pack(values ...any) (b []byte) {
	align := func(n int) {
		for len(b)%n != 0 {
			b = append(b, 0)
		}
	}
	word := func(v uint32) {
		align(4)
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	double := func(v uint64) {
		align(8)
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for _, v := range values {
		switch v := v.(type) {
		case driver.Pointer:
			double(uint64(v))
		case int64:
			double(uint64(v))
		case float64:
			double(math.Float64bits(v))
		case int: // a 32-bit int of a kernel
			word(uint32(int32(v)))
		case uint32:
			word(v)
		case float32:
			word(math.Float32bits(v))
		case bool:
			n := uint32(0)
			if v {
				n = 1
			}
			word(n)
		default:
			panic(fmt.Sprintf("kernels: no parameter is a %T", v))
		}
	}
	return b
}

// suffix is how names of kernels end that exist for both storage types.
func suffix(t graph.DType) string {
	if t == graph.BFloat16 {
		return "_bf16"
	}
	return "_f32"
}

// Padded is the number of channels that so many take in memory.
func Padded(channels int) int { return (channels + 7) / 8 * 8 }

// ActivationBytes is the memory of an activation [N][C][H][W].
func ActivationBytes(s graph.Shape, t graph.DType) int {
	return s[0] * s[2] * s[3] * Padded(s[1]) * t.Size()
}

func ceil(n, d int) int { return (n + d - 1) / d }
