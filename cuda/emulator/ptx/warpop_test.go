package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// lanes runs a body that leaves its result in %r2, and gives that of each of 32 lanes.
func lanes(t *testing.T, body string) []uint32 {
	t.Helper()
	got, err := runBody(t, body+" st.global.u32 [%rd4], %r2; ret;", 32, nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return got[:32]
}

func TestWarpOperations(t *testing.T) {
	for body, want := range map[string]func(l int) int{
		"shfl.sync.bfly.b32 %r2, %r1, 5, 31, -1;":                                             func(l int) int { return l ^ 5 },
		"shfl.sync.down.b32 %r2, %r1, 3, 31, -1;":                                             func(l int) int { return map[bool]int{true: l + 3, false: l}[l+3 < 32] },
		"shfl.sync.up.b32 %r2, %r1, 3, 0, -1;":                                                func(l int) int { return map[bool]int{true: l - 3, false: l}[l >= 3] },
		"shfl.sync.idx.b32 %r2, %r1, 9, 31, -1;":                                              func(l int) int { return 9 },
		"shfl.sync.down.b32 %r2, %r1, 3, 0x181f, -1;":                                         func(l int) int { return map[bool]int{true: l + 3, false: l}[l%8+3 < 8] },
		"shfl.sync.up.b32 %r2|%p1, %r1, 1, 0, -1; selp.b32 %r2, 1, 0, %p1;":                   func(l int) int { return min(l, 1) },
		"setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r2, %p1, -1;":                         func(int) int { return 31 },
		"setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r2, !%p1, -1;":                        func(int) int { return 0xffffffe0 },
		"setp.lt.u32 %p1, %r1, 5; vote.sync.any.pred %p2, %p1, -1; selp.b32 %r2, 1, 0, %p2;":  func(int) int { return 1 },
		"setp.lt.u32 %p1, %r1, 5; vote.sync.all.pred %p2, %p1, -1; selp.b32 %r2, 1, 0, %p2;":  func(int) int { return 0 },
		"setp.lt.u32 %p1, %r1, 5; vote.sync.uni.pred %p2, !%p1, -1; selp.b32 %r2, 1, 0, %p2;": func(int) int { return 0 },
		"redux.sync.add.u32 %r2, %r1, -1;":                                                    func(int) int { return 496 },
		"sub.u32 %r3, %r1, 9; redux.sync.min.s32 %r2, %r3, -1;":                               func(int) int { return 0xfffffff7 },
		"and.b32 %r3, %r1, 1; match.any.sync.b32 %r2, %r3, -1;":                               func(l int) int { return 0x55555555 << (l & 1) },
		"match.all.sync.b32 %r2|%p1, %r1, -1;":                                                func(int) int { return 0 },
		"match.all.sync.b32 %r2|%p1, %r9, -1;":                                                func(int) int { return 0xffffffff },
		"mov.b32 %r2, 0; setp.lt.u32 %p1, %r1, 4; @%p1 activemask.b32 %r2;":                   func(l int) int { return map[bool]int{true: 15}[l < 4] },
		"mov.u32 %r2, %lanemask_lt;":                                                          func(l int) int { return 1<<l - 1 },
		"bar.sync 0; setp.lt.u32 %p1, %r1, 7; bar.red.popc.u32 %r2, 0, %p1;":                  func(int) int { return 7 },
		"setp.lt.u32 %p1, %r1, 7; bar.red.or.pred %p2, 0, %p1; selp.b32 %r2, 1, 0, %p2;":      func(int) int { return 1 },
		"setp.lt.u32 %p1, %r1, 7; bar.red.and.pred %p2, 0, !%p1; selp.b32 %r2, 1, 0, %p2;":    func(int) int { return 0 },
	} {
		for l, got := range lanes(t, body) {
			if int(got) != want(l) {
				t.Errorf("%s: lane %d has %#x, want %#x", body, l, got, want(l))
			}
		}
	}
}

func TestMemoryInstructions(t *testing.T) {
	for body, want := range map[string]func(l int) int{
		// loads extend, and take the low bytes first
		"mul.lo.u32 %r3, %r1, 0x01010180; st.shared.u32 [%rd2], %r3; ld.shared.u8 %r2, [%rd2];":                                   func(l int) int { return l * 0x80 & 255 },
		"mul.lo.u32 %r3, %r1, 0x01010180; st.shared.u32 [%rd2], %r3; ld.shared.s8 %r2, [%rd2];":                                   func(l int) int { return int(uint32(int32(int8(l * 0x80)))) },
		"mul.lo.u32 %r3, %r1, 0x8000; st.shared.u32 [%rd2], %r3; ld.shared.s16 %r2, [%rd2];":                                      func(l int) int { return int(uint32(int32(int16(l * 0x8000)))) },
		"neg.s32 %r3, %r1; st.shared.u32 [%rd2], %r3; ld.shared.s32 %rd5, [%rd2]; shr.u64 %rd5, %rd5, 32; cvt.u32.u64 %r2, %rd5;": func(l int) int { return map[bool]int{true: 0xffffffff}[l > 0] },
		// vectors
		"mul.wide.u32 %rd5, %r1, 16; mov.u64 %rd6, buffer; add.u64 %rd5, %rd5, %rd6; st.shared.v4.b32 [%rd5], {%r1, %r9, %r1, %r1}; ld.shared.v2.b32 {%r3, %r4}, [%rd5]; ld.shared.v2.u32 {%r5, %r6}, [%rd5+8]; add.u32 %r2, %r3, %r6; add.u32 %r2, %r2, %r4;": func(l int) int { return 2*l + 32 },
		"st.shared.u32 [%rd2], 0x00070005; ld.shared.v2.b16 {%h1, %h2}, [%rd2]; mov.b32 %r2, {%h2, %h1};":                                                                func(int) int { return 0x00050007 },
		"mul.wide.u32 %rd5, %r1, 8; mov.u64 %rd6, buffer; add.u64 %rd5, %rd5, %rd6; st.shared.v4.u16 [%rd5], {%h1, %h1, %h1, %h1}; ld.shared.v2.b32 {%r2, %r3}, [%rd5];": func(int) int { return 0 },
		// the generic space
		"cvta.shared.u64 %rd5, %rd2; st.u32 [%rd5], %r1; ld.shared.u32 %r2, [%rd2];":                                                         func(l int) int { return l },
		"cvta.shared.u64 %rd5, %rd2; cvta.to.shared.u64 %rd6, %rd5; sub.u64 %rd6, %rd6, %rd2; cvt.u32.u64 %r2, %rd6;":                        func(int) int { return 0 },
		"cvta.shared.u64 %rd5, %rd2; isspacep.shared %p1, %rd5; isspacep.global %p2, %rd4; and.pred %p1, %p1, %p2; selp.b32 %r2, 1, 0, %p1;": func(int) int { return 1 },
		"mov.u64 %rd5, n; cvta.param.u64 %rd5, %rd5; ld.u32 %r2, [%rd5];":                                                                    func(int) int { return 32 },
		"cvt.u32.u64 %r3, %rd2; st.shared.u32 [%r3], %r1; ld.shared.u32 %r2, [%r3+0];":                                                       func(l int) int { return l },
		// local memory
		".local .align 8 .b8 own[16]; mov.u64 %rd5, own; st.local.u32 [%rd5+4], %r1; cvta.local.u64 %rd6, %rd5; ld.u32 %r2, [%rd6+4];": func(l int) int { return l },
		// atomics
		"mov.u64 %rd5, buffer; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%rd5], 0; bar.sync 0; atom.shared.add.u32 %r2, [%rd5], 1;":                   func(l int) int { return l },
		"atom.global.cas.b32 %r2, [%rd4], 0, 7; ld.global.u32 %r2, [%rd4];":                                                                              func(int) int { return 7 },
		"atom.global.exch.b32 %r2, [%rd4], 5; red.global.min.s32 [%rd4], -1; ld.global.u32 %r2, [%rd4];":                                                 func(int) int { return 0xffffffff },
		"red.global.add.f32 [%rd4], 0f3F800000; red.add.f32 [%rd4], 0f40000000; ld.global.u32 %r2, [%rd4];":                                              func(int) int { return int(math.Float32bits(3)) },
		"mov.u64 %rd5, 1; atom.global.add.u64 %rd6, [%rd3+128], %rd5; cvt.u32.u64 %r2, %rd6;":                                                            func(l int) int { return l },
		"mov.u32 %r3, 1; atom.global.inc.u32 %r4, [%rd4], %r3; atom.global.inc.u32 %r4, [%rd4], %r3; atom.global.inc.u32 %r2, [%rd4], %r3;":              func(int) int { return 0 },
		"atom.global.dec.u32 %r4, [%rd4], 9; atom.global.dec.u32 %r2, [%rd4], 9;":                                                                        func(int) int { return 9 },
		"atom.global.or.b32 %r3, [%rd4], 6; atom.global.and.b32 %r3, [%rd4], 3; atom.global.xor.b32 %r3, [%rd4], 1; atom.global.max.u32 %r2, [%rd4], 1;": func(int) int { return 3 },
		// asynchronous copies: the rest of a short one is zeros
		"st.global.u32 [%rd4], 0x0403ffff; cp.async.ca.shared.global [%rd2], [%rd4], 4, 3; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r2, [%rd2];":                                                                                  func(int) int { return 0x0003ffff },
		"st.global.u32 [%rd4], %r1; cp.async.ca.shared.global [%rd2], [%rd4], 4; cp.async.commit_group; cp.async.ca.shared.global [%rd2+512], [%rd4], 4; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r2, [%rd2];":                    func(l int) int { return l },
		"st.global.u32 [%rd4], %r1; and.b32 %r3, %r1, 28; mul.wide.u32 %rd5, %r1, 16; mul.wide.u32 %rd6, %r3, 4; add.u64 %rd6, %rd6, %rd3; bar.sync 0; cp.async.cg.shared.global [%rd5], [%rd6], 16; cp.async.wait_all; ld.shared.u32 %r2, [%rd5+4];": func(l int) int { return l&28 + 1 },
		// tables of branches
		"T: .branchtargets A, B; and.b32 %r3, %r1, 1; brx.idx %r3, T; A: mov.u32 %r2, 10; bra C; B: mov.u32 %r2, 20; C:": func(l int) int { return 10 + l&1*10 },
		"membar.gl; fence.acq_rel.gpu; mov.u32 %r2, 1;":                                                                  func(int) int { return 1 },
	} {
		for l, got := range lanes(t, body) {
			if int(got) != want(l) {
				t.Errorf("%s: lane %d has %#x, want %#x", body, l, got, want(l))
				break
			}
		}
	}
}

func TestVariablesOfTheModule(t *testing.T) {
	text := header + `
.const .align 4 .u32 table[4] = {1, 2, 0x30, -1};
.global .align 4 .b8 bytes[8] = {5, 0, 0, 0, 6};
.shared .align 4 .u32 mine;
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 p, .param .align 8 .b8 s[16]) {
	.reg .b32 %r<9>; .reg .b64 %rd<9>;
	ld.param.u64 %rd1, [p];
	ld.const.u32 %r1, [table+8];
	mov.u64 %rd2, bytes;
	ld.global.nc.u32 %r2, [%rd2+4];
	st.shared.u32 [mine], 7;
	st.shared.u32 [dynamic+4], 8;
	mov.u32 %r3, dynamic;
	ld.shared.u32 %r4, [%r3+4];
	ld.shared.u32 %r5, [mine];
	ld.param.v2.u32 {%r6, %r7}, [s+8];
	st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
	st.global.v2.u32 [%rd1+16], {%r5, %r7};
	ret;
}`
	module, err := Parse("m.ptx", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	k, m := kernel(t, module, "k"), &memory{}
	p := m.allocate(24)
	if k.ParamBytes() != 24 || k.Shared() != 16 || fmt.Sprint(k.Params()) != "[{p 0 8} {s 8 16}]" {
		t.Error(k.ParamBytes(), k.Shared(), k.Params())
	}
	if _, err := k.Run(Config{Grid: Dim{1, 1, 1}, Block: Dim{1, 1, 1}, Shared: 8, Memory: m, Params: pack(p, 1, 2, 3, 4)}); err != nil {
		t.Fatal(err)
	}
	if got := m.getWords(p); !slices.Equal(got, []uint32{0x30, 6, 16, 8, 7, 4}) {
		t.Error(got)
	}
}

// fragments are the operands of mma as PTX's manual draws them: for each lane and element, the row and the column.
func TestMatrixProducts(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	for _, e := range []struct {
		shape   string
		depth   int
		a, b    int
		pairs   bool
		convert func(float32) uint32
		value   func(uint32) float32
	}{
		{"m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4, 2, false, func(f float32) uint32 { return math.Float32bits(f) | 0x1fff }, tensorFloat},
		{"m16n8k4.row.col.f32.tf32.tf32.f32", 4, 2, 1, false, func(f float32) uint32 { return math.Float32bits(f) }, tensorFloat},
		{"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 4, 2, true, func(f float32) uint32 { return uint32(toBfloat(f)) }, bfloat},
		{"m16n8k8.row.col.f32.bf16.bf16.f32", 8, 2, 1, true, func(f float32) uint32 { return uint32(toBfloat(f)) }, bfloat},
		{"m16n8k16.row.col.f32.f16.f16.f32", 16, 4, 2, true, func(f float32) uint32 { return uint32(toHalf(float64(f))) }, half},
	} {
		random := func(n int) []uint32 {
			v := make([]uint32, n)
			for i := range v {
				v[i] = e.convert(float32(rng.NormFloat64()))
			}
			return v
		}
		a, b := random(16*e.depth), random(e.depth*8) // row after row
		c := make([]float32, 16*8)
		for i := range c {
			c[i] = float32(rng.NormFloat64())
		}
		// groupID = lane/4, threadID = lane%4
		word := func(l, i int) [4]uint32 { // a word of A, of B and of C, and nothing
			g, th := l/4, l%4
			var v [4]uint32
			if !e.pairs {
				if i < e.a {
					v[0] = a[(g+i%2*8)*e.depth+th+i/2*4]
				}
				if i < e.b {
					v[1] = b[(th+i*4)*8+g]
				}
			} else {
				if i < e.a {
					at := (g+i%2*8)*e.depth + th*2 + i/2*8
					v[0] = a[at] | a[at+1]<<16
				}
				if i < e.b {
					at := (th*2+i*8)*8 + g
					v[1] = b[at] | b[at+8]<<16
				}
			}
			v[2] = math.Float32bits(c[(g+i/2*8)*8+th*2+i%2])
			return v
		}
		var in []uint32
		for l := range 32 {
			for operand := range 3 {
				for i := range 4 {
					in = append(in, word(l, i)[operand])
				}
			}
		}
		registers := func(name string, n int) string {
			var v []string
			for i := range n {
				v = append(v, fmt.Sprintf("%%%s%d", name, i))
			}
			return "{" + strings.Join(v, ",") + "}"
		}
		text := header + `.visible .entry k(.param .u64 in, .param .u64 out) {
	.reg .b32 %t, %a<4>, %b<4>, %c<4>, %d<4>; .reg .b64 %in, %out, %x;
	ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
	mul.wide.u32 %x, %t, 48; add.u64 %in, %in, %x; mul.wide.u32 %x, %t, 16; add.u64 %out, %out, %x;
	ld.global.v4.b32 {%a0,%a1,%a2,%a3}, [%in]; ld.global.v4.b32 {%b0,%b1,%b2,%b3}, [%in+16]; ld.global.v4.b32 {%c0,%c1,%c2,%c3}, [%in+32];
	mma.sync.aligned.` + e.shape + " " + registers("d", 4) + "," + registers("a", e.a) + "," + registers("b", e.b) + "," + registers("c", 4) + `;
	st.global.v4.b32 [%out], {%d0,%d1,%d2,%d3}; ret; }`
		module, err := Parse("mma.ptx", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		m := &memory{}
		pi, po := m.words(in), m.allocate(4*128)
		if _, err := module.kernels[0].Run(Config{Grid: Dim{1, 1, 1}, Block: Dim{32, 1, 1}, Memory: m, Params: pack(pi, po)}); err != nil {
			t.Fatal(err)
		}
		out := m.getFloats(po)
		for l := range 32 {
			for i := range 4 {
				row, column := l/4+i/2*8, l%4*2+i%2
				want := float64(c[row*8+column])
				for k := range e.depth {
					want += float64(e.value(a[row*e.depth+k])) * float64(e.value(b[k*8+column]))
				}
				if got := float64(out[4*l+i]); math.Abs(got-want) > 1e-5 {
					t.Fatalf("%s: row %d, column %d is %g, want %g", e.shape, row, column, got, want)
				}
			}
		}
	}
}

func TestTileIsTheSameWithoutVectors(t *testing.T) {
	rng := rand.New(rand.NewSource(4))
	var x tile
	for i := range 16 {
		for j := range 16 {
			x.a[i][j] = float32(rng.NormFloat64())
			x.b[i][j%8] = float32(rng.NormFloat64())
			x.c[i][j%8] = float32(rng.NormFloat64())
		}
	}
	y := x
	x.multiply(16)
	y.multiplyPlain(16)
	if x != y {
		t.Error("they differ")
	}
}

func TestLoadMatrix(t *testing.T) {
	for count := 1; count <= 4; count *= 2 {
		for _, trans := range []string{"", ".trans"} {
			var d []string
			for i := range count {
				d = append(d, fmt.Sprintf("%%d%d", i))
			}
			// rows are written at 16 bytes each: element j of row i is i<<8 | j
			text := header + `.visible .entry k(.param .u64 out) {
	.reg .b32 %t, %r, %v, %d<4>; .reg .b64 %out, %x; .reg .b16 %h; .shared .align 16 .b8 rows[512];
	ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 16; add.u64 %out, %out, %x;
	shl.b32 %r, %t, 4; shl.b32 %v, %t, 8;`
			for j := range 8 {
				text += fmt.Sprintf("cvt.u16.u32 %%h, %%v; st.shared.u16 [%%r+%d], %%h; add.u32 %%v, %%v, 1;\n", 2*j)
			}
			text += "mov.b32 %d0, 0; mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0; bar.warp.sync -1;\n" +
				fmt.Sprintf("ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 {%s}, [%%r];", count, trans, strings.Join(d, ",")) +
				"st.global.v4.b32 [%out], {%d0,%d1,%d2,%d3}; ret; }"
			module, err := Parse("ldmatrix.ptx", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			m := &memory{}
			out := m.allocate(512)
			if _, err := module.kernels[0].Run(Config{Grid: Dim{1, 1, 1}, Block: Dim{32, 1, 1}, Memory: m, Params: pack(out)}); err != nil {
				t.Fatal(err)
			}
			b := m.space[out>>32-1]
			for l := range 32 {
				for i := range 4 {
					first, second := (8*i+l/4)<<8|l%4*2, (8*i+l/4)<<8|(l%4*2+1)
					if trans != "" {
						first, second = (8*i+l%4*2)<<8|l/4, (8*i+l%4*2+1)<<8|l/4
					}
					if i >= count {
						first, second = 0, 0
					}
					if x, y := int(binary.LittleEndian.Uint16(b[16*l+4*i:])), int(binary.LittleEndian.Uint16(b[16*l+4*i+2:])); x != first || y != second {
						t.Fatalf("x%d%s: lane %d, word %d is %#x %#x, want %#x %#x", count, trans, l, i, x, y, first, second)
					}
				}
			}
		}
	}
}
