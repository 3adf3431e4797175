package emulator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator/ptx"
)

// entry is a kernel of at most 64 threads a block with pointers p and q. %r1 is the block, %r2 the thread, %r3 the thread in the grid; %rd1 and
// %rd2 are p and q, %rd3 and %rd4 are the grid's thread's words in them.
func entry(name, body string) string {
	return fmt.Sprintf(`
.visible .entry %s(
	.param .u64 p,
	.param .u64 q
)
.maxntid 64, 1, 1
{
	.reg .pred %%p<4>;
	.reg .b16 %%rs<4>;
	.reg .b32 %%r<16>;
	.reg .b64 %%rd<16>;
	.shared .align 4 .b8 last[4];
	ld.param.u64 %%rd1, [p];
	ld.param.u64 %%rd2, [q];
	cvta.to.global.u64 %%rd1, %%rd1;
	cvta.to.global.u64 %%rd2, %%rd2;
	mov.u32 %%r1, %%ctaid.x;
	mov.u32 %%r2, %%tid.x;
	mov.u32 %%r4, %%ntid.x;
	mad.lo.s32 %%r3, %%r1, %%r4, %%r2;
	mul.wide.u32 %%rd5, %%r3, 4;
	add.s64 %%rd3, %%rd1, %%rd5;
	add.s64 %%rd4, %%rd2, %%rd5;
%s
	ret;
}
`, name, body)
}

// lastBlock makes the block that counts last on q sum p of all blocks into q[1], in one thread.
const lastBlock = `
	st.global.u32 [%rd3], %r1;
	membar.gl;
	bar.sync 0;
	setp.ne.u32 %p1, %r2, 0;
	@%p1 bra END;
	mov.u32 %r5, 2147483647;
	atom.global.add.u32 %r6, [%rd2], 1;
	mov.u32 %r7, %nctaid.x;
	sub.u32 %r8, %r7, 1;
	setp.ne.u32 %p1, %r6, %r8;
	@%p1 bra END;
	mul.lo.u32 %r7, %r7, %r4;
	mov.u32 %r9, 0;
	mov.u64 %rd6, %rd1;
LOOP:
	ld.global.u32 %r10, [%rd6];
	add.u32 %r9, %r9, %r10;
	add.s64 %rd6, %rd6, 4;
	sub.u32 %r7, %r7, 1;
	setp.ne.u32 %p1, %r7, 0;
	@%p1 bra LOOP;
	st.global.u32 [%rd2+4], %r9;
	mov.u32 %r11, 0;
	st.global.u32 [%rd2], %r11;
END:`

// exchange makes the warps of a block read what other warps wrote to p.
const exchange = `
	ld.global.u32 %r5, [%rd3];
	st.global.u32 [%rd3], %r2;
	bar.sync 0;
	xor.b32 %r3, %r3, 32;
	mul.wide.u32 %rd5, %r3, 4;
	add.s64 %rd3, %rd1, %rd5;
	ld.global.u32 %r5, [%rd3];
	st.global.u32 [%rd4], %r5;`

var testKernels = ".version 7.8\n.target sm_80\n.address_size 64\n" +
	entry("increment", `
	ld.global.u32 %r5, [%rd3];
	add.u32 %r5, %r5, 1;
	st.global.u32 [%rd4], %r5;`) +
	entry("one_word", `
	st.global.u32 [%rd1], %r1;`) +
	entry("neighbour", `
	st.global.u32 [%rd3], %r1;
	ld.global.u32 %r5, [%rd2];
	st.global.u32 [%rd2+4], %r5;`) +
	entry("read_then_write", `
	ld.global.u32 %r5, [%rd1];
	setp.ne.u32 %p1, %r1, 1;
	@%p1 bra END;
	st.global.u32 [%rd1], %r5;
END:`) +
	entry("halves", `
	mul.wide.u32 %rd5, %r1, 2;
	add.s64 %rd3, %rd1, %rd5;
	ld.global.u16 %rs1, [%rd3];
	add.s16 %rs1, %rs1, 1;
	setp.ne.u32 %p1, %r2, 0;
	@%p1 bra END;
	st.global.u16 [%rd3], %rs1;
END:`) +
	entry("count", `
	atom.global.add.u32 %r5, [%rd1], 1;`) +
	entry("last_block", lastBlock) +
	entry("last_block_without_fence", strings.Replace(lastBlock, "membar.gl;", "", 1)) +
	entry("too_early", strings.Replace(lastBlock, "@%p1 bra END;\n\tmul", "mul", 1)) +
	entry("last_block_fenced_late", strings.Replace(strings.Replace(lastBlock, "membar.gl;", "setp.eq.u32 %p2, %r1, 2;\n\t@!%p2 membar.gl;", 1),
		"mov.u32 %r7, %nctaid.x;", "mov.u32 %r7, %nctaid.x;\n\tmembar.gl;", 1)) +
	entry("last_block_wipes", strings.Replace(strings.Replace(lastBlock, "st.global.u32 [%rd3], %r1;", "ld.global.u32 %r5, [%rd1];", 1),
		"mov.u32 %r9, 0;", "mov.u32 %r9, 0;\n\tst.global.u32 [%rd1], %r9;", 1)) +
	entry("wipes_at_once", `
	ld.global.u32 %r5, [%rd1];
	membar.gl;
	setp.ne.u32 %p1, %r1, 2;
	@%p1 bra END;
	st.global.u32 [%rd1], %r1;
END:`) +
	entry("store_or_count", `
	setp.eq.u32 %p1, %r1, 1;
	@%p1 st.global.u32 [%rd1], %r1;
	@!%p1 atom.global.add.u32 %r5, [%rd1], 1;`) +
	entry("exchange", exchange) +
	entry("exchange_without_barrier", strings.Replace(exchange, "bar.sync 0;", "", 1)) +
	entry("overwrite", strings.Replace(strings.Replace(exchange, "ld.global.u32 %r5, [%rd3];", "ld.global.u32 %r5, [%rd1];", 1), "bar.sync 0;", "", 1)) +
	entry("give_up", `
	trap;`)

// params lays pointers out as a kernel's parameters.
func params(pointers ...driver.Pointer) []byte {
	var b []byte
	for _, p := range pointers {
		b = binary.LittleEndian.AppendUint64(b, uint64(p))
	}
	return b
}

func (r *rig) kernel(device int, name string, blocks int, pointers ...driver.Pointer) driver.Launch {
	r.t.Helper()
	m, err := r.devices[device].Load("test.ptx", []byte(testKernels))
	r.must(err)
	f, err := m.Function(name)
	r.must(err)
	return driver.Launch{Function: f, Grid: driver.Dim{X: blocks, Y: 1, Z: 1}, Block: driver.Dim{X: 32, Y: 1, Z: 1}, Params: params(pointers...)}
}

func TestKernelsRunInStreamOrder(t *testing.T) {
	for _, o := range []Options{{}, {Workers: 4}, {Loose: true}} {
		r := newRig(t, o)
		p, q := r.memory(0, 4*64, "p"), r.memory(0, 4*64, "q")
		s := r.stream(0, "compute")
		r.must(s.Fill(p, 5, 64))
		r.must(s.Launch(r.kernel(0, "increment", 2, p, q), r.kernel(0, "increment", 2, q, p)))
		r.must(s.Synchronize())
		r.wantWords(0, q, 6, 6, 6)
		r.wantWords(0, p+4*61, 7, 7, 7)
	}
}

func TestBlocksThatShareTheHalvesOfAWord(t *testing.T) {
	for _, workers := range []int{1, 4} {
		r := newRig(t, Options{Workers: workers})
		p := r.memory(0, 256, "p")
		s := r.stream(0, "compute")
		r.must(s.Fill(p, 0x00050005, 64))
		for range 3 {
			r.must(s.Launch(r.kernel(0, "halves", 100, p, p)))
		}
		r.must(s.Synchronize())
		r.wantWords(0, p+4*48, 0x00080008, 0x00080008, 0x00050005)
	}
}

func TestTheLastBlockReadsWhatTheOthersWrote(t *testing.T) {
	for _, workers := range []int{1, 4} {
		r := newRig(t, Options{Workers: workers})
		p, q := r.memory(0, 4*32*50, "parts"), r.memory(0, 8, "ticket")
		s := r.stream(0, "compute")
		r.must(s.Fill(q, 0, 2))
		for range 3 { // each resets the ticket
			r.must(s.Launch(r.kernel(0, "last_block", 50, p, q)))
		}
		r.must(s.Synchronize())
		r.wantWords(0, q, 0, 32*49*50/2)
	}
}

func TestAtomicsReadWhatTheyChange(t *testing.T) {
	r := newRig(t, Options{})
	p := r.memory(0, 4, "count")
	s := r.stream(0, "compute")
	r.must(s.Launch(r.kernel(0, "count", 1, p, p)))
	if err := s.Synchronize(); err == nil || !strings.Contains(err.Error(), "reads bytes 0 to 3 of count (4 bytes of device 0), which nothing wrote") {
		t.Error(err)
	}
}

func TestTheLastBlockCanFenceBehindItsAtomicAndCanWriteWhatAllHaveRead(t *testing.T) {
	for _, kernel := range []string{"last_block_fenced_late", "last_block_wipes"} {
		r := newRig(t, Options{})
		p, q := r.memory(0, 4*32*3, "parts"), r.memory(0, 8, "ticket")
		s := r.stream(0, "compute")
		r.must(s.Fill(p, 0, 32*3))
		r.must(s.Fill(q, 0, 2))
		r.must(s.Launch(r.kernel(0, kernel, 3, p, q)))
		r.must(s.Synchronize())
	}
}

func TestWarpsAreOrderedByBarriers(t *testing.T) {
	r := newRig(t, Options{})
	p, q := r.memory(0, 4*128, "p"), r.memory(0, 4*128, "q")
	s := r.stream(0, "compute")
	r.must(s.Fill(p, 0, 128))
	l := r.kernel(0, "exchange", 2, p, q)
	l.Block.X = 64
	r.must(s.Launch(l))
	r.must(s.Synchronize())
	r.wantWords(0, q, 32, 33, 34)
	for kernel, want := range map[string]string{
		"exchange_without_barrier": "writes bytes 128 to 131 of p (512 bytes of device 0), read by several warps: no barrier orders the warps",
		"overwrite":                "reads bytes 0 to 3 of p (512 bytes of device 0), written by warp 0: no barrier orders the warps",
	} {
		r := newRig(t, Options{})
		p, q := r.memory(0, 4*128, "p"), r.memory(0, 4*128, "q")
		s := r.stream(0, "compute")
		r.must(s.Fill(p, 0, 128))
		l := r.kernel(0, kernel, 2, p, q)
		l.Block.X = 64
		r.must(s.Launch(l))
		err := s.Synchronize()
		var c *Conflict
		if !errors.As(err, &c) || c.Between != Warps || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", kernel, err)
		}
	}
}

func TestAtomicsOfBlocksAreNoConflict(t *testing.T) {
	r := newRig(t, Options{})
	p := r.memory(0, 4, "count")
	s := r.stream(0, "compute")
	r.must(s.Fill(p, 0, 1))
	r.must(s.Launch(r.kernel(0, "count", 10, p, p), r.kernel(0, "count", 10, p, p)))
	r.must(s.Synchronize())
	r.wantWords(0, p, 640)
	other := r.stream(0, "other")
	r.must(s.Launch(r.kernel(0, "count", 10, p, p)))
	r.must(other.Launch(r.kernel(0, "count", 10, p, p))) // atomics of two kernels are
	r.must(s.Synchronize())
	var c *Conflict
	if err := other.Synchronize(); !errors.As(err, &c) || c.Between != Operations || !c.Writes || !c.Wrote {
		t.Error(err)
	}
}

func TestFaultsOfKernels(t *testing.T) {
	const stopped = " [cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED]"
	const illegal = " [cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS]"
	tests := []struct {
		kernel string
		blocks int
		bytes  int // of p and q
		fill   int // words of p and q that are written first
		want   string
		end    string
	}{
		{"increment", 3, 4 * 64, 64, "block (2,0,0), thread (0,0,0): reads bytes 256 to 259 of p (256 bytes of device 0)", illegal},
		{"increment", 2, 4 * 64, 60, "block (1,0,0), thread (28,0,0): reads bytes 240 to 243 of p (256 bytes of device 0), which nothing wrote", illegal},
		{"one_word", 2, 4, 1, "block (1,0,0), thread (0,0,0): writes bytes 0 to 3 of p (4 bytes of device 0), written by block (0,0,0): " +
			"no fence with an atomic orders the blocks", stopped},
		{"neighbour", 2, 4 * 64, 64, "block (1,0,0), thread (0,0,0): writes bytes 4 to 7 of q (256 bytes of device 0), written by block (0,0,0): " +
			"no fence with an atomic orders the blocks", stopped},
		{"read_then_write", 2, 4, 1, "block (1,0,0), thread (0,0,0): writes bytes 0 to 3 of p (4 bytes of device 0), read by several blocks: " +
			"no fence with an atomic orders the blocks", stopped},
		{"last_block_without_fence", 3, 4 * 96, 2, "block (2,0,0), thread (0,0,0): reads bytes 0 to 3 of p (384 bytes of device 0), written by block (0,0,0): " +
			"no fence with an atomic orders the blocks", stopped},
		{"wipes_at_once", 3, 4, 1, "block (2,0,0), thread (0,0,0): writes bytes 0 to 3 of p (4 bytes of device 0), read by several blocks: " +
			"no fence with an atomic orders the blocks", stopped},
		{"store_or_count", 2, 4, 1, "block (1,0,0), thread (0,0,0): writes bytes 0 to 3 of p (4 bytes of device 0), written by other blocks' atomics: " +
			"no fence with an atomic orders the blocks", stopped},
		{"too_early", 3, 4 * 96, 96, "block (1,0,0), thread (0,0,0): writes bytes 128 to 131 of p (384 bytes of device 0), read by block (0,0,0): " +
			"no fence with an atomic orders the blocks", stopped},
		{"give_up", 1, 4, 1, "block (0,0,0), thread (0,0,0): trap", stopped},
	}
	for _, test := range tests {
		t.Run(test.kernel, func(t *testing.T) {
			r := newRig(t, Options{})
			p, q := r.memory(0, test.bytes, "p"), r.memory(0, test.bytes, "q")
			s := r.stream(0, "compute")
			r.must(s.Fill(p, 0, test.fill))
			r.must(s.Fill(q, 0, test.fill))
			r.must(s.Launch(r.kernel(0, test.kernel, test.blocks, p, q)))
			err := s.Synchronize()
			var f *ptx.Fault
			if !errors.As(err, &f) {
				t.Fatalf("%v is no *ptx.Fault", err)
			}
			at := fmt.Sprintf(": test.ptx:%d: %s", f.Line, f.Text)
			wantError(t, err, fmt.Sprintf("kernel %s (operation 3 of stream compute of device 0): %s: %s%s%s",
				test.kernel, test.kernel, test.want, at, test.end))
			if line := strings.Split(testKernels, "\n")[f.Line-1]; !strings.Contains(line, f.Text) {
				t.Errorf("line %d is %q, not %q", f.Line, line, f.Text)
			}
			var c *Conflict
			if errors.As(err, &c) != strings.Contains(test.want, "orders") {
				t.Errorf("%v: *Conflict: %v", err, c)
			}
		})
	}
}

func TestPeerAccessOfKernels(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	p, q := r.memory(1, 4*32, "p"), r.memory(0, 4*32, "q")
	s, u := r.stream(0, "compute"), r.stream(1, "compute")
	r.must(u.Fill(p, 1, 32))
	r.order(u, s)
	r.must(s.Launch(r.kernel(0, "increment", 1, p, q)))
	err := s.Synchronize()
	if err == nil || !strings.Contains(err.Error(), "reads bytes 0 to 3 of p (128 bytes of device 1), for which device 0 has not enabled peer access") {
		t.Fatal(err)
	}
	r = newRig(t, Options{Devices: 2})
	p, q = r.memory(1, 4*32, "p"), r.memory(0, 4*32, "q")
	s, u = r.stream(0, "compute"), r.stream(1, "compute")
	r.must(r.devices[0].EnablePeer(r.devices[1]))
	r.must(u.Fill(p, 1, 32))
	r.order(u, s)
	r.must(s.Launch(r.kernel(0, "increment", 1, p, q)))
	r.must(s.Synchronize())
	r.wantWords(0, q, 2, 2)
	r.must(u.Fill(p, 1, 32)) // the host has waited for the kernel
	r.must(s.Launch(r.kernel(0, "increment", 1, p, q)))
	r.must(u.Synchronize())
	err = s.Synchronize()
	if err == nil || !strings.Contains(err.Error(), "reads bytes 0 to 3 of p (128 bytes of device 1), written by fill of 128 bytes "+
		"(operation 2 of stream compute of device 1): no stream, event or graph orders the two") {
		t.Fatal(err)
	}
}

func TestLaunchErrors(t *testing.T) {
	dim := func(x, y, z int) driver.Dim { return driver.Dim{X: x, Y: y, Z: z} }
	tests := []struct {
		name   string
		change func(*driver.Launch)
		want   string
	}{
		{"no blocks", func(l *driver.Launch) { l.Grid.Y = 0 }, "grid (1,0,1), which has to be from 1 to (2147483647,65535,65535)"},
		{"too many blocks", func(l *driver.Launch) { l.Grid.Z = 65536 }, "grid (1,1,65536), which has to be from 1 to (2147483647,65535,65535)"},
		{"too many threads", func(l *driver.Launch) { l.Block = dim(32, 33, 1) }, "block (32,33,1), which has to be from 1 to (1024,1024,64) and 1024 threads"},
		{"more threads than compiled for", func(l *driver.Launch) { l.Block = dim(65, 1, 1) },
			"block (65,1,1) has 65 threads, but the kernel was compiled for at most 64"},
		{"too much shared memory", func(l *driver.Launch) { l.Shared = 49152 },
			"49152 bytes of dynamic shared memory, but the kernel may have 49136 beside 16 of its own; AllowShared allows more"},
		{"parameters of another kernel", func(l *driver.Launch) { l.Params = l.Params[:8] }, "8 bytes of parameters, but the kernel takes 16"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{})
			l := r.kernel(0, "increment", 1, 0, 0)
			test.change(&l)
			wantError(t, r.stream(0, "s").Launch(l), "increment: "+test.want+": cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (1): invalid argument")
		})
	}
	r := newRig(t, Options{Devices: 2})
	l := r.kernel(0, "increment", 1, 0, 0)
	wantError(t, r.stream(1, "s").Launch(l), "increment is not a kernel of device 1: "+
		"cuLaunchKernel: CUDA_ERROR_INVALID_HANDLE (400): invalid resource handle")
	wantError(t, l.Function.AllowShared(166912), "increment: 166912 bytes of dynamic shared memory beside 16 of its own; at most 166912 in all: "+
		"cuFuncSetAttribute: CUDA_ERROR_INVALID_VALUE (1): invalid argument")
	r.must(l.Function.AllowShared(60000))
}

func TestModuleErrors(t *testing.T) {
	r := newRig(t, Options{})
	_, err := r.devices[0].Load("bad.ptx", []byte(".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k() { frob; }\n"))
	if err == nil || !strings.Contains(err.Error(), "bad.ptx:4") || !strings.Contains(err.Error(), "frob") {
		t.Error(err)
	}
	wantCode(t, err, 218)
	m, err := r.devices[0].Load("test.ptx", []byte(testKernels))
	r.must(err)
	_, err = m.Function("nothing")
	wantError(t, err, "nothing in test.ptx: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500): named symbol not found")
}

func wantCode(t *testing.T, err error, code int) {
	t.Helper()
	var e *driver.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%v, want code %d", err, code)
	}
}
