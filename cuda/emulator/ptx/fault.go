package ptx

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Fault is what a kernel did wrong, and where.
type Fault struct {
	Kernel string
	File   string // of the PTX: the name given to Parse
	Line   int    // in File; 0 if the fault is not at an instruction
	Text   string // of the instruction
	Source string // file:line of the CUDA source, from .loc; empty without
	Block  Dim
	Thread Dim
	What   string
}

// Error is the fault on one line:
//
//	conv_forward_f32: block (3,0,0), thread (17,0,0): shared memory ...: conv.cu:20: conv.ptx:211: st.shared.f32 [%r1], %f2
func (f *Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: block %s, thread %s: %s", f.Kernel, f.Block, f.Thread, f.What)
	if f.Source != "" {
		b.WriteString(": " + f.Source)
	}
	if f.Line != 0 {
		fmt.Fprintf(&b, ": %s:%d: %s", f.File, f.Line, f.Text)
	}
	return b.String()
}

// String is (x,y,z).
func (d Dim) String() string { return fmt.Sprintf("(%d,%d,%d)", d.X, d.Y, d.Z) }

// fail ends the block with a fault of a lane at the warp's instruction.
func (w *warp) fail(lane int, format string, args ...any) {
	b := w.block
	l := b.k.lines[w.pc]
	f := &Fault{Kernel: b.k.name, File: b.k.module.name, Line: l.number, Text: l.text, Block: b.c.Grid.at(b.index),
		Thread: b.c.Block.at(w.thread(lane)), What: fmt.Sprintf(format, args...)}
	if name, ok := b.k.module.files[l.file]; ok {
		f.Source = fmt.Sprintf("%s:%d", name, l.from)
	}
	panic(f)
}

// failAccess is what the Memory objects to.
func (w *warp) failAccess(err error, m uint32) {
	var a *AccessError
	if errors.As(err, &a) {
		w.fail(a.Lane, "%s", a.What)
	}
	w.fail(bits.TrailingZeros32(m), "%s", err)
}
