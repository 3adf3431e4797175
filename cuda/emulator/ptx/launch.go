package ptx

// Dim is the extent of a grid or a block, or the place of a block or a thread in one.
type Dim struct{ X, Y, Z int }

// Count is the number of places.
func (d Dim) Count() int { return d.X * d.Y * d.Z }

// at is the place with linear index i, x running fastest.
func (d Dim) at(i int) Dim { return Dim{i % d.X, i / d.X % d.Y, i / d.X / d.Y} }

// Config is one launch of a kernel.
type Config struct {
	Grid, Block Dim
	Shared      int    // bytes of dynamic shared memory, behind the kernel's own
	Params      []byte // as they lie in the parameter space, little endian: see Kernel.Params
	Memory      Memory
	Workers     int // goroutines that run blocks; 0 and 1: one. Results do not depend on it.

	// Limit is the number of instructions that a warp may execute before it counts as hung; 0: 1<<28.
	Limit int64

	// Unchecked leaves out the shadow of shared memory, and so the search for races and for reads of what nothing wrote. Bounds,
	// alignment and barriers are checked all the same.
	Unchecked bool
}

// Stats is what a launch did.
type Stats struct {
	Blocks              int64
	ThreadInstructions  int64 // instructions executed, times the lanes that took part
	WarpInstructions    int64
	GlobalRead, Written int64 // bytes of global memory, lane by lane
	Barriers            int64 // barriers completed by blocks
}

func (s *Stats) add(o Stats) {
	s.Blocks += o.Blocks
	s.ThreadInstructions += o.ThreadInstructions
	s.WarpInstructions += o.WarpInstructions
	s.GlobalRead += o.GlobalRead
	s.Written += o.Written
	s.Barriers += o.Barriers
}

// AccessKind is how a warp's instruction touches global memory.
type AccessKind uint8

// Kinds of accesses.
const (
	Read AccessKind = iota
	Write
	Atomic // reads and writes at once, and does not race with other atomics
)

// Access is one instruction of one warp that touches global memory: the question to a Memory and its answer.
type Access struct {
	Kind    AccessKind
	Size    int        // bytes of each lane: 1, 2, 4, 8 or 16
	Mask    uint32     // the lanes that take part and have not been served yet; at least one
	Address [32]uint64 // of each lane in Mask
	Block   int        // linear index of the block, x running fastest
	Warp    int        // of the block: lane l is its thread Warp*32+l
	Epoch   uint32     // counts the block's barriers: accesses of a block's threads in different epochs are ordered

	// Served are lanes of Mask whose bytes are at Data[Address-Base:]. Memory sets them. It need not serve lanes that are in
	// another allocation than the first lane's: it is asked again for those.
	Served uint32
	Base   uint64
	Data   []byte
}

// Memory is a device's global memory. Blocks run in parallel, so its methods are called by several goroutines at once.
type Memory interface {
	// Access checks the bytes [Address, Address+Size) of lanes in a.Mask and serves them. The interpreter has checked that
	// addresses are aligned to the size. It reads or writes Data after Access has returned, with sync/atomic where Kind says so. The
	// error is an *AccessError if it is about one lane.
	Access(a *Access) error

	// Fence says that threads of a block executed membar or fence at the device's scope or a wider one.
	Fence(block int)
}

// AccessError is a Memory's objection to one lane's access.
type AccessError struct {
	Lane int
	What string // such as "4 bytes at 0x7f0000001000 are outside of every allocation"
}

func (e *AccessError) Error() string { return e.What }
