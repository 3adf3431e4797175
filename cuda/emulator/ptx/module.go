// Package ptx parses the text of NVIDIA's PTX and executes its kernels on the CPU, warp by warp, with checks on everything that a
// GPU leaves undefined: bounds, alignment, reads of shared memory that nothing wrote, races between the threads of a block,
// barriers that not all threads reach, warp operations with lanes missing.
//
// It is an interpreter for tests and for machines without a GPU, not a model of a GPU's timing. It knows what clang makes of this
// project's kernels and what their inline assembly uses; an instruction that it does not know is an error of Parse that names it.
// Global memory is not its own: a Memory supplies and checks it.
//
// It does not see races between the threads of a block on global memory, nor registers that are read before they are written, which
// are zero here. See shadow for what it sees of shared memory.
//
// It follows the PTX ISA, version 7.8 (docs.nvidia.com/cuda/parallel-thread-execution). Arithmetic is IEEE 754, rounded to nearest
// even; where a GPU approximates (ex2, lg2, sin, cos, rsqrt, tanh), results here are rounded from float64.
package ptx

import "fmt"

// Module is a parsed file of PTX. It can be used by several goroutines.
type Module struct {
	name     string
	kernels  []*Kernel
	symbols  map[string]symbol // of the module's scope
	constant []byte            // the constant bank: .const variables, and .global ones with values, which are read only here
	files    map[int]string    // of .file
}

// Kernel is an entry of a module. Several goroutines can run it at once.
type Kernel struct {
	module     *Module
	name       string
	params     []Param
	paramBytes int
	shared     int // bytes of static shared memory
	granule    int // the smallest access to shared memory, in bytes
	local      int // bytes of local memory of a thread
	threads    int
	code       []inst
	lines      []line // of code
	fileBytes  int    // of a warp's registers
	fixedBytes int    // of constants and special registers, which lie below them at negative offsets
	predicates int    // the first two are the constants false and true
	constants  []constant
	specials   []special
}

// line is where an instruction stands.
type line struct {
	number     int
	text       string
	file, from int // of .loc
}

// constant is an immediate operand, which lies in the register file, once for every lane.
type constant struct {
	slot  int32
	wide  bool
	value uint64
}

// special is a special register, which lies in the register file too.
type special struct {
	slot int32
	name string
}

// Param is a parameter of a kernel.
type Param struct {
	Name         string
	Offset, Size int // bytes in the parameter space
}

// Kernels are the module's entries in the order of the text.
func (m *Module) Kernels() []*Kernel { return m.kernels }

// Kernel finds an entry by name.
func (m *Module) Kernel(name string) (*Kernel, error) {
	for _, k := range m.kernels {
		if k.name == name {
			return k, nil
		}
	}
	return nil, fmt.Errorf("%s: no kernel %q among its %d", m.name, name, len(m.kernels))
}

// Name is the entry's name.
func (k *Kernel) Name() string { return k.name }

// Params are the kernel's parameters.
func (k *Kernel) Params() []Param { return k.params }

// ParamBytes is the size that Config.Params must have.
func (k *Kernel) ParamBytes() int { return k.paramBytes }

// Shared is the number of bytes of shared memory that the kernel declares; dynamic shared memory comes on top.
func (k *Kernel) Shared() int { return k.shared }

// MaxThreads is the largest block that the kernel was compiled for: .maxntid or .reqntid, else 1024.
func (k *Kernel) MaxThreads() int { return k.threads }
