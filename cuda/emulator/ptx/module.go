// Package ptx parses the text of NVIDIA's PTX and executes its kernels on the CPU, warp by warp, with checks on everything that a
// GPU leaves undefined: bounds, alignment, reads of shared memory that nothing wrote, races between the threads of a block,
// barriers that not all threads reach, warp operations with lanes missing.
//
// It is an interpreter for tests and for machines without a GPU, not a model of a GPU's timing. It knows what clang makes of this
// project's kernels and what their inline assembly uses; an instruction that it does not know is an error of Parse that names it.
// Global memory is not its own: a Memory supplies and checks it.
//
// It follows the PTX ISA, version 7.8 (docs.nvidia.com/cuda/parallel-thread-execution). Arithmetic is IEEE 754, rounded to nearest
// even; where a GPU approximates (ex2, lg2, sin, cos, rsqrt, tanh), results here are rounded from float64.
package ptx

import "errors"

// Module is a parsed file of PTX. It can be used by several goroutines.
type Module struct {
	name    string
	kernels []*Kernel
}

// Kernel is an entry of a module. Several goroutines can run it at once.
type Kernel struct {
	name   string
	params []Param
	shared int
	block  int
}

// Param is a parameter of a kernel.
type Param struct {
	Name         string
	Offset, Size int // bytes in the parameter space
}

// Parse reads a module. name is the file's, for messages. Errors name it, the line and what is wrong there.
func Parse(name string, text []byte) (*Module, error) { return nil, errors.New("not yet") }

// Kernels are the module's entries in the order of the text.
func (m *Module) Kernels() []*Kernel { return m.kernels }

// Kernel finds an entry by name.
func (m *Module) Kernel(name string) (*Kernel, error) { return nil, errors.New("not yet") }

// Name is the entry's name.
func (k *Kernel) Name() string { return k.name }

// Params are the kernel's parameters.
func (k *Kernel) Params() []Param { return k.params }

// ParamBytes is the size that Config.Params must have.
func (k *Kernel) ParamBytes() int { return 0 }

// Shared is the number of bytes of shared memory that the kernel declares; dynamic shared memory comes on top.
func (k *Kernel) Shared() int { return k.shared }

// MaxThreads is the largest block that the kernel was compiled for: .maxntid or .reqntid, else 1024.
func (k *Kernel) MaxThreads() int { return k.block }

// Run executes a grid. The error is a *Fault where a kernel's instruction is to blame, and the launch has stopped half-way then.
func (k *Kernel) Run(c Config) (Stats, error) { return Stats{}, errors.New("not yet") }
