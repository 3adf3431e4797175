package ptx

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

const header = ".version 7.8\n.target sm_80\n.address_size 64\n"

// snippet is a kernel whose lanes load a, b and c, of 64 bits, of 32 and of 16, run the body, and store what it has put into d, dd
// or hd. The lanes that the body is not run for store a pattern.
func snippet(body string) string {
	out := "cvt.u64.u32 %dd, %d;"
	switch {
	case strings.Contains(body, "%dd"):
		out = ""
	case strings.Contains(body, "%hd"):
		out = "cvt.u64.u16 %dd, %hd;"
	}
	return header + `.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 lanes) {
	.reg .b16 %ha, %hb, %hc, %hd;
	.reg .b32 %a, %b, %c, %d, %t, %m, %lane;
	.reg .b64 %da, %db, %dc, %dd, %in, %out, %x;
	.reg .pred %p, %q, %on;
	ld.param.u64 %in, [in];
	ld.param.u64 %out, [out];
	ld.param.u32 %m, [lanes];
	mov.u32 %lane, %tid.x;
	ld.global.u64 %da, [%in];
	ld.global.u64 %db, [%in+8];
	ld.global.u64 %dc, [%in+16];
	cvt.u32.u64 %a, %da;
	cvt.u32.u64 %b, %db;
	cvt.u32.u64 %c, %dc;
	cvt.u16.u64 %ha, %da;
	cvt.u16.u64 %hb, %db;
	cvt.u16.u64 %hc, %dc;
	mov.b32 %d, 0x5a5a5a5a;
	mov.b16 %hd, 0x5a5a;
	mov.b64 %dd, 0x5a5a5a5a5a5a5a5a;
	setp.eq.u32 %p, %a, %a;
	shr.u32 %t, %m, %lane;
	and.b32 %t, %t, 1;
	setp.eq.u32 %on, %t, 0;
	@%on bra DONE;
	` + body + `
DONE:
	` + out + `
	mul.wide.u32 %x, %lane, 8;
	add.u64 %x, %x, %out;
	st.global.u64 [%x], %dd;
	ret;
}
`
}

// evaluate runs a body for the lanes of a mask, in a block of so many threads.
func evaluate(t *testing.T, body string, threads int, mask uint32, a, b, c uint64) ([]uint64, error) {
	t.Helper()
	module, err := Parse("snippet.ptx", []byte(snippet(body)))
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{}
	in := m.words([]uint32{uint32(a), uint32(a >> 32), uint32(b), uint32(b >> 32), uint32(c), uint32(c >> 32)})
	out := m.allocate(8 * threads)
	_, err = module.kernels[0].Run(Config{Grid: Dim{1, 1, 1}, Block: Dim{threads, 1, 1}, Params: pack(in, out, int(mask)), Memory: m})
	var v []uint64
	w := m.getWords(out)
	for i := range threads {
		v = append(v, uint64(w[2*i])|uint64(w[2*i+1])<<32)
	}
	return v, err
}

type instruction struct {
	body    string
	a, b, c uint64
	want    uint64
}

// runAll runs each instruction in a whole warp, which can take other ways than in a block of one thread or in one lane of a warp that
// has diverged.
func runAll(t *testing.T, cases []instruction) {
	t.Helper()
	for _, e := range cases {
		name := fmt.Sprintf("%s of %#x, %#x, %#x", e.body, e.a, e.b, e.c)
		for _, ways := range []struct {
			threads int
			mask    uint32
		}{{32, full}, {1, full}, {32, 1 << 7}, {32, 0xffff0ff0}} {
			got, err := evaluate(t, e.body, ways.threads, ways.mask, e.a, e.b, e.c)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for l, v := range got {
				want := e.want
				if ways.mask>>l&1 == 0 {
					want = 0x5a5a5a5a5a5a5a5a
					switch {
					case strings.Contains(e.body, "%dd"):
					case strings.Contains(e.body, "%hd"):
						want &= 0xffff
					default:
						want &= 0xffffffff
					}
				}
				if v != want {
					t.Errorf("%s: lane %d of mask %#x: %#x, want %#x", name, l, ways.mask, v, want)
					break
				}
			}
		}
	}
}

func f32(v float64) uint64 { return uint64(math.Float32bits(float32(v))) }
func f64(v float64) uint64 { return math.Float64bits(v) }

const (
	nan32   = 0x7fffffff
	minus0  = 0x80000000
	inf32   = 0x7f800000
	minus1  = 0xffffffff
	minus1L = 0xffffffffffffffff
)

func TestIntegerArithmetic(t *testing.T) {
	runAll(t, []instruction{
		{"add.s32 %d, %a, %b;", minus1, 2, 0, 1},
		{"add.u16 %hd, %ha, %hb;", 0xffff, 3, 0, 2},
		{"add.s64 %dd, %da, %db;", minus1L, 5, 0, 4},
		{"add.sat.s32 %d, %a, %b;", 0x7fffffff, 1, 0, 0x7fffffff},
		{"sub.s32 %d, %a, %b;", 1, 2, 0, minus1},
		{"sub.s64 %dd, %da, %db;", 1, 2, 0, minus1L},
		{"sub.s16 %hd, %ha, 2;", 1, 0, 0, 0xffff},
		{"mul.lo.s32 %d, %a, %b;", 0x10001, 0x10001, 0, 0x20001},
		{"mul.lo.s64 %dd, %da, %db;", 0x100000001, 3, 0, 0x300000003},
		{"mul.hi.s32 %d, %a, %b;", minus1, 1, 0, minus1},
		{"mul.hi.u32 %d, %a, %b;", minus1, minus1, 0, 0xfffffffe},
		{"mul.hi.u64 %dd, %da, %db;", minus1L, minus1L, 0, minus1L - 1},
		{"mul.hi.s64 %dd, %da, %db;", minus1L, 5, 0, minus1L},
		{"mul.wide.s32 %dd, %a, %b;", minus1, 3, 0, minus1L - 2},
		{"mul.wide.u32 %dd, %a, %b;", minus1, 3, 0, 0x2fffffffd},
		{"mul.wide.s16 %d, %ha, %hb;", 0xffff, 2, 0, 0xfffffffe},
		{"mul.wide.u16 %d, %ha, %hb;", 0xffff, 2, 0, 0x1fffe},
		{"mad.lo.s32 %d, %a, %b, %c;", 3, 4, minus1, 11},
		{"mad.wide.s32 %dd, %a, %b, %dc;", minus1, 2, 1, minus1L},
		{"mad.wide.u32 %dd, %a, %b, %dc;", minus1, 2, 1, 0x1ffffffff},
		{"mad.hi.u32 %d, %a, %b, %c;", 1 << 31, 4, 7, 9},
		{"mad.lo.s64 %dd, %da, %db, %dc;", 1 << 40, 2, 1, 1<<41 + 1},
		{"div.s32 %d, %a, %b;", 0x80000000, minus1, 0, 0x80000000},
		{"div.s32 %d, %a, %b;", minus1 - 6, 2, 0, minus1 - 2},
		{"rem.s32 %d, %a, %b;", minus1 - 6, 2, 0, minus1},
		{"div.u64 %dd, %da, %db;", 1 << 63, 10, 0, 922337203685477580},
		{"rem.u32 %d, %a, 7;", 100, 0, 0, 2},
		{"div.s16 %hd, %ha, %hb;", 0xfff9, 2, 0, 0xfffd},
		{"min.s32 %d, %a, %b;", minus1, 1, 0, minus1},
		{"min.u32 %d, %a, %b;", minus1, 1, 0, 1},
		{"max.s64 %dd, %da, %db;", minus1L, 1, 0, 1},
		{"max.u64 %dd, %da, %db;", minus1L, 1, 0, minus1L},
		{"max.s16 %hd, %ha, %hb;", 0xffff, 1, 0, 1},
		{"abs.s32 %d, %a;", minus1, 0, 0, 1},
		{"neg.s64 %dd, %da;", 1, 0, 0, minus1L},
		{"sad.s32 %d, %a, %b, %c;", minus1, 4, 1, 6},
		{"dp4a.u32.u32 %d, %a, %b, %c;", 0x01020304, 0x01010102, 100, 114},
		{"dp4a.s32.s32 %d, %a, %b, %c;", 0xff000000, 0x02000000, 1, minus1},
	})
}

func TestShiftsAndBits(t *testing.T) {
	runAll(t, []instruction{
		{"shl.b32 %d, %a, %b;", 1, 31, 0, 1 << 31},
		{"shl.b32 %d, %a, %b;", minus1, 32, 0, 0},
		{"shl.b32 %d, %a, %b;", minus1, minus1, 0, 0},
		{"shl.b64 %dd, %da, %b;", 1, 63, 0, 1 << 63},
		{"shl.b64 %dd, %da, %b;", 1, 64, 0, 0},
		{"shl.b16 %hd, %ha, %b;", 0x8001, 1, 0, 2},
		{"shr.u32 %d, %a, %b;", minus1, 32, 0, 0},
		{"shr.s32 %d, %a, %b;", 0x80000000, 40, 0, minus1},
		{"shr.s32 %d, %a, 4;", 0x80000000, 0, 0, 0xf8000000},
		{"shr.u64 %dd, %da, %b;", minus1L, 64, 0, 0},
		{"shr.s64 %dd, %da, %b;", 1 << 63, 100, 0, minus1L},
		{"shr.s16 %hd, %ha, %b;", 0x8000, 20, 0, 0xffff},
		{"shr.u16 %hd, %ha, %b;", 0x8000, 15, 0, 1},
		{"shf.l.wrap.b32 %d, %a, %b, %c;", 0x80000000, 1, 33, 3},
		{"shf.l.clamp.b32 %d, %a, %b, %c;", 0x80000000, 1, 33, 0x80000000},
		{"shf.r.wrap.b32 %d, %a, %b, %c;", 2, 1, 33, 0x80000001},
		{"shf.r.clamp.b32 %d, %a, %b, %c;", 2, 1, 33, 1},
		{"and.b32 %d, %a, %b;", 12, 10, 0, 8}, {"or.b64 %dd, %da, %db;", 12, 10, 0, 14},
		{"xor.b16 %hd, %ha, %hb;", 12, 10, 0, 6}, {"not.b32 %d, %a;", 1, 0, 0, 0xfffffffe},
		{"not.b16 %hd, %ha;", 1, 0, 0, 0xfffe}, {"cnot.b32 %d, %a;", 0, 0, 0, 1},
		{"lop3.b32 %d, %a, %b, %c, 0x96;", 12, 10, 1, 7},
		{"lop3.b32 %d, %a, %b, %c, 0xca;", 0xff00ff00, 0x11111111, 0x22222222, 0x11221122},
		{"popc.b32 %d, %a;", 0xf0f0, 0, 0, 8}, {"popc.b64 %d, %da;", minus1L, 0, 0, 64},
		{"clz.b32 %d, %a;", 0, 0, 0, 32}, {"clz.b64 %d, %da;", 1, 0, 0, 63},
		{"brev.b32 %d, %a;", 1, 0, 0, 1 << 31}, {"brev.b64 %dd, %da;", 1, 0, 0, 1 << 63},
		{"bfind.u32 %d, %a;", 0x800, 0, 0, 11}, {"bfind.s32 %d, %a;", minus1, 0, 0, minus1},
		{"bfind.s32 %d, %a;", 0xfffffff0, 0, 0, 3}, {"bfind.shiftamt.u32 %d, %a;", 1, 0, 0, 31}, {"bfind.u64 %d, %da;", 1 << 40, 0, 0, 40},
		{"bfe.u32 %d, %a, %b, %c;", 0xabcd1234, 8, 8, 0x12},
		{"bfe.u32 %d, %a, %b, %c;", 0xabcd1234, 28, 8, 0xa},
		{"bfe.u32 %d, %a, %b, %c;", 0xabcd1234, 32, 8, 0},
		{"bfe.u32 %d, %a, %b, %c;", 0xabcd1234, 0, 32, 0xabcd1234},
		{"bfe.u32 %d, %a, %b, %c;", 0xabcd1234, 4, 0, 0},
		{"bfe.s32 %d, %a, %b, %c;", 0xabcd1234, 28, 8, 0xfffffffa},
		{"bfe.s32 %d, %a, %b, %c;", 0x80, 4, 4, 0xfffffff8},
		{"bfe.s32 %d, %a, %b, %c;", 0x80000000, 40, 4, minus1},
		{"bfe.u64 %dd, %da, %b, %c;", 0xabcd << 40, 40, 8, 0xcd},
		{"bfe.s64 %dd, %da, %b, %c;", 0xabcd << 40, 40, 8, minus1L - 0x32},
		{"bfi.b32 %d, %a, %b, 8, 8;", 0x5, 0x11111111, 0, 0x11110511},
		{"bfi.b32 %d, %a, %b, %c, 8;", 0xff, 0, 28, 0xf0000000},
		{"bfi.b32 %d, %a, %b, 0, %c;", 0xff, 7, 0, 7},
		{"bfi.b32 %d, %a, %b, 32, 8;", 0xff, 7, 0, 7},
		{"bfi.b64 %dd, %da, %db, 60, 8;", 0xff, 7, 0, 0xf000000000000007},
		{"prmt.b32 %d, %a, %b, %c;", 0x33221100, 0x77665544, 0x7531, 0x77553311},
		{"prmt.b32 %d, %a, %b, %c;", 0x33228100, 0x77665544, 0x0009, 0x000000ff},
		{"prmt.b32 %d, %a, %b, 0x5410;", 0x33221100, 0x77665544, 0, 0x55441100},
		{"prmt.b32.f4e %d, %a, %b, %c;", 0x33221100, 0x77665544, 3, 0x66554433},
		{"prmt.b32.b4e %d, %a, %b, %c;", 0x33221100, 0x77665544, 1, 0x66770011},
		{"prmt.b32.rc8 %d, %a, %b, %c;", 0x33221100, 0x77665544, 2, 0x22222222},
		{"prmt.b32.ecl %d, %a, %b, %c;", 0x33221100, 0x77665544, 2, 0x33222222},
		{"prmt.b32.ecr %d, %a, %b, %c;", 0x33221100, 0x77665544, 2, 0x22221100},
		{"prmt.b32.rc16 %d, %a, %b, %c;", 0x33221100, 0x77665544, 1, 0x33223322},
	})
}

func TestFloats(t *testing.T) {
	runAll(t, []instruction{
		{"add.rn.f32 %d, %a, %b;", f32(1), f32(0x1p-24), 0, f32(1)},
		{"add.rn.f32 %d, %a, 0f3F800000;", f32(1), 0, 0, f32(2)},
		{"sub.f32 %d, %a, %b;", f32(1), f32(3), 0, f32(-2)},
		{"mul.rn.f32 %d, %a, %b;", f32(1.5), f32(-3), 0, f32(-4.5)},
		{"fma.rn.f32 %d, %a, %b, %c;", f32(1 + 0x1p-12), f32(1 + 0x1p-12), f32(-1 - 0x1p-11), f32(0x1p-24)},
		{"fma.rn.f32 %d, %a, %b, %c;", f32(0x1p-100), f32(0x1p-100), f32(1), f32(1)},
		{"fma.rn.f32 %d, %a, %b, %c;", f32(0x1p127), f32(2), f32(-0x1p127), f32(0x1p127)},
		{"add.sat.f32 %d, %a, %b;", f32(1), f32(2), 0, f32(1)},
		{"add.sat.f32 %d, %a, %b;", nan32, f32(2), 0, 0},
		{"div.rn.f32 %d, %a, %b;", f32(1), f32(3), 0, f32(1.0 / 3)},
		{"div.rn.f32 %d, %a, %b;", f32(1), minus0, 0, inf32 | minus0},
		{"min.f32 %d, %a, %b;", nan32, f32(2), 0, f32(2)},
		{"max.f32 %d, %a, %b;", f32(2), nan32, 0, f32(2)},
		{"max.f32 %d, %a, %b;", 0xffc00001, 0x7fc00001, 0, nan32},
		{"min.NaN.f32 %d, %a, %b;", nan32, f32(2), 0, nan32},
		{"min.f32 %d, %a, %b;", 0, minus0, 0, minus0},
		{"max.f32 %d, %a, %b;", minus0, 0, 0, 0},
		{"neg.f32 %d, %a;", 0, 0, 0, minus0},
		{"abs.f32 %d, %a;", f32(-2), 0, 0, f32(2)},
		{"copysign.f32 %d, %a, %b;", f32(-1), f32(2), 0, f32(-2)},
		{"sqrt.rn.f32 %d, %a;", f32(2), 0, 0, f32(math.Sqrt2)},
		{"rcp.rn.f32 %d, %a;", f32(3), 0, 0, f32(1.0 / 3)},
		{"ex2.approx.f32 %d, %a;", f32(-3), 0, 0, f32(0.125)},
		{"lg2.approx.f32 %d, %a;", f32(8), 0, 0, f32(3)},
		{"rsqrt.approx.f32 %d, %a;", f32(16), 0, 0, f32(0.25)},
		{"fma.rn.f64 %dd, %da, %db, %dc;", f64(1 + 0x1p-30), f64(1 + 0x1p-30), f64(-1 - 0x1p-29), f64(0x1p-60)},
		{"add.f64 %dd, %da, 0d3FF0000000000000;", f64(2), 0, 0, f64(3)},
		{"max.f64 %dd, %da, %db;", f64(math.NaN()), f64(-3), 0, f64(-3)},
		{"fma.rn.bf16 %hd, %ha, %hb, %hc;", 0x3f80, 0x4000, 0x3f80, 0x4040},
		{"fma.rn.bf16x2 %d, %a, %b, %c;", 0x3f804000, 0x40004000, 0x3f800000, 0x40404080},
		{"neg.bf16x2 %d, %a;", 0x3f80bf80, 0, 0, 0xbf803f80},
		{"abs.bf16 %hd, %ha;", 0xbf80, 0, 0, 0x3f80},
		{"max.bf16x2 %d, %a, %b;", 0x3f80bf80, 0x40000000, 0, 0x40000000},
	})
}

func TestConversions(t *testing.T) {
	runAll(t, []instruction{
		{"cvt.s64.s32 %dd, %a;", minus1, 0, 0, minus1L}, {"cvt.u64.u32 %dd, %a;", minus1, 0, 0, minus1},
		{"cvt.u32.u64 %d, %da;", 1<<40 | 5, 0, 0, 5}, {"cvt.u32.u16 %d, %ha;", 0x1ffff, 0, 0, 0xffff},
		{"cvt.s32.s16 %d, %ha;", 0xffff, 0, 0, minus1}, {"cvt.u16.u32 %hd, %a;", 0x12345, 0, 0, 0x2345},
		{"cvt.s32.s8 %d, %a;", 0x80, 0, 0, 0xffffff80}, {"cvt.u32.u8 %d, %a;", 0x1ff, 0, 0, 0xff},
		{"cvt.u16.u8 %hd, %ha;", 0x1ff, 0, 0, 0xff}, {"cvt.s64.s8 %dd, %da;", 0xff, 0, 0, minus1L},
		{"cvt.sat.u8.s32 %d, %a;", 300, 0, 0, 255}, {"cvt.sat.u8.s32 %d, %a;", minus1, 0, 0, 0},
		{"cvt.sat.s16.s32 %hd, %a;", 40000, 0, 0, 32767}, {"cvt.sat.u32.s32 %d, %a;", minus1, 0, 0, 0},
		{"cvt.rn.f32.s32 %d, %a;", 0x7fffffff, 0, 0, f32(0x1p31)}, {"cvt.rn.f32.u32 %d, %a;", minus1, 0, 0, f32(0x1p32)},
		{"cvt.rn.f32.s32 %d, %a;", 0x1000001, 0, 0, f32(0x1p24)}, {"cvt.rz.f32.u32 %d, %a;", minus1, 0, 0, 0x4f7fffff},
		{"cvt.rn.f32.u64 %d, %da;", minus1L, 0, 0, f32(0x1p64)}, {"cvt.rn.f32.u8 %d, %a;", 0x1ff, 0, 0, f32(255)},
		{"cvt.rn.f64.s32 %dd, %a;", minus1, 0, 0, f64(-1)}, {"cvt.f64.f32 %dd, %a;", f32(0.1), 0, 0, f64(float64(float32(0.1)))},
		{"cvt.rn.f32.f64 %d, %da;", f64(0.1), 0, 0, f32(0.1)},
		{"cvt.rzi.s32.f32 %d, %a;", f32(-1.9), 0, 0, minus1}, {"cvt.rni.s32.f32 %d, %a;", f32(2.5), 0, 0, 2},
		{"cvt.rmi.s32.f32 %d, %a;", f32(-1.1), 0, 0, minus1 - 1}, {"cvt.rpi.s32.f32 %d, %a;", f32(1.1), 0, 0, 2},
		{"cvt.rzi.s32.f32 %d, %a;", f32(1e20), 0, 0, 0x7fffffff}, {"cvt.rzi.s32.f32 %d, %a;", f32(-1e20), 0, 0, 0x80000000},
		{"cvt.rzi.u32.f32 %d, %a;", f32(-5), 0, 0, 0}, {"cvt.rzi.u32.f32 %d, %a;", f32(1e20), 0, 0, minus1},
		{"cvt.rzi.s32.f32 %d, %a;", nan32, 0, 0, 0}, {"cvt.rzi.u64.f32 %dd, %a;", f32(0x1p63), 0, 0, 1 << 63},
		{"cvt.rzi.s64.f64 %dd, %da;", f64(-1e300), 0, 0, 1 << 63}, {"cvt.rni.f32.f32 %d, %a;", f32(3.5), 0, 0, f32(4)},
		{"cvt.rmi.f32.f32 %d, %a;", f32(-0.5), 0, 0, f32(-1)}, {"cvt.rzi.f32.f32 %d, %a;", f32(-0.5), 0, 0, minus0},
		{"cvt.sat.f32.f32 %d, %a;", f32(7), 0, 0, f32(1)},
		{"cvt.rn.bf16.f32 %hd, %a;", 0x3f808000, 0, 0, 0x3f80}, {"cvt.rn.bf16.f32 %hd, %a;", 0x3f818000, 0, 0, 0x3f82},
		{"cvt.rn.bf16.f32 %hd, %a;", 0x3f808001, 0, 0, 0x3f81}, {"cvt.rn.bf16.f32 %hd, %a;", nan32, 0, 0, 0x7fff},
		{"cvt.rn.bf16.f32 %hd, %a;", 0x7f7fffff, 0, 0, 0x7f80},
		{"cvt.rn.bf16x2.f32 %d, %a, %b;", f32(1), f32(-2), 0, 0x3f80c000},
		{"cvt.f32.bf16 %d, %ha;", 0xc000, 0, 0, f32(-2)},
		{"cvt.rn.f16.f32 %hd, %a;", f32(1 + 0x1p-11), 0, 0, 0x3c00}, {"cvt.rn.f16.f32 %hd, %a;", f32(65520), 0, 0, 0x7c00},
		{"cvt.rn.f16.f32 %hd, %a;", f32(-0x1p-24), 0, 0, 0x8001}, {"cvt.f32.f16 %d, %ha;", 0x3e00, 0, 0, f32(1.5)},
		{"cvt.f32.f16 %d, %ha;", 1, 0, 0, f32(0x1p-24)},
		{"cvt.rna.tf32.f32 %d, %a;", 0x3f801000, 0, 0, 0x3f802000}, {"cvt.rna.tf32.f32 %d, %a;", 0x3f800fff, 0, 0, 0x3f800000},
		{"mov.b32 %d, {%ha, %hb};", 0x12345, 0x6789, 0, 0x67892345}, {"mov.b64 %dd, {%a, %b};", 1, 2, 0, 0x200000001},
		{"mov.b64 %dd, {%ha, %hb, %hc, %ha};", 1, 2, 3, 0x0001000300020001},
		{"{ .reg .b16 lo; mov.b32 {lo, %hd}, %a; }", 0x12345678, 0, 0, 0x1234}, {"mov.b64 {_, %d}, %da;", 5 << 32, 0, 0, 5},
		{"mov.b32 {%hd, _}, %a;", 0x12345678, 0, 0, 0x5678},
	})
}

func TestComparisons(t *testing.T) {
	pick := func(setp string) string { return setp + " selp.b32 %d, 1, 0, %q;" }
	var cases []instruction
	for _, e := range []struct {
		op   string
		a, b uint64
		want uint64
	}{
		{"lt.s32", minus1, 0, 1}, {"lt.u32", minus1, 0, 0}, {"le.s32", 3, 3, 1}, {"gt.s32", 4, 3, 1}, {"ge.u32", 2, 3, 0},
		{"eq.s32", 7, 7, 1}, {"ne.s32", 7, 7, 0}, {"lo.u32", 1, 2, 1}, {"hs.u32", 1, 2, 0},
		{"lt.f32", f32(1), f32(2), 1}, {"ltu.f32", nan32, f32(2), 1}, {"lt.f32", nan32, f32(2), 0}, {"ge.f32", 0, minus0, 1},
		{"eq.f32", nan32, nan32, 0}, {"equ.f32", nan32, nan32, 1}, {"equ.f32", f32(1), f32(2), 0}, {"ne.f32", nan32, f32(1), 0},
		{"neu.f32", nan32, f32(1), 1}, {"ne.f32", f32(2), f32(1), 1}, {"leu.f32", f32(2), f32(1), 0}, {"leu.f32", f32(2), nan32, 1},
		{"gtu.f32", f32(2), f32(1), 1}, {"gtu.f32", f32(2), f32(2), 0}, {"geu.f32", f32(2), f32(2), 1}, {"geu.f32", f32(1), nan32, 1},
		{"gt.f32", f32(2), f32(1), 1}, {"le.f32", f32(1), f32(1), 1}, {"num.f32", f32(1), nan32, 0}, {"nan.f32", f32(1), nan32, 1},
	} {
		cases = append(cases, instruction{pick("setp." + e.op + " %q, %a, %b;"), e.a, e.b, 0, e.want})
	}
	cases = append(cases, []instruction{
		{pick("setp.lt.s64 %q, %da, %db;"), minus1L, 0, 0, 1}, {pick("setp.gt.u64 %q, %da, %db;"), minus1L, 0, 0, 1},
		{pick("setp.lt.s16 %q, %ha, %hb;"), 0xffff, 0, 0, 1}, {pick("setp.eq.b16 %q, %ha, %hb;"), 0x10005, 5, 0, 1},
		{pick("setp.lt.f64 %q, %da, %db;"), f64(1), f64(2), 0, 1}, {pick("setp.lt.and.s32 %q, %a, %b, !%p;"), 1, 2, 0, 0},
		{pick("setp.lt.or.s32 %q, %a, %b, %p;"), 3, 2, 0, 1}, {pick("setp.lt.xor.s32 %q, %a, %b, %p;"), 1, 2, 0, 0},
		{pick("setp.lt.s32 %p|%q, %a, %b;"), 1, 2, 0, 0}, {pick("setp.lt.and.s32 %p|%q, %a, %b, %p;"), 3, 2, 0, 1},
		{pick("not.pred %q, %p;"), 0, 0, 0, 0}, {pick("and.pred %q, %p, %p;"), 0, 0, 0, 1}, {pick("xor.pred %q, %p, -1;"), 0, 0, 0, 0},
		{pick("mov.pred %q, -1;"), 0, 0, 0, 1}, {pick("mov.pred %q, 0;"), 0, 0, 0, 0}, {pick("mov.pred %q, %p;"), 0, 0, 0, 1},
		{"selp.b64 %dd, %da, %db, !%p;", 1, 2, 0, 2}, {"selp.b16 %hd, %ha, %hb, %p;", 1, 2, 0, 1},
		{"set.lt.u32.s32 %d, %a, %b;", 1, 2, 0, minus1}, {"set.lt.f32.f32 %d, %a, %b;", f32(1), f32(2), 0, f32(1)},
		{"slct.b32.s32 %d, %a, %b, %c;", 1, 2, minus1, 2}, {"slct.b32.f32 %d, %a, %b, %c;", 1, 2, minus0, 1},
		{"@%p setp.lt.s32 %p|%q, %a, %b; selp.b32 %d, 1, 0, %q;", 3, 2, 0, 1},
		{"@%p mov.b32 %d, 3;", 0, 0, 0, 3}, {"mov.b32 %d, 4; @!%p mov.b32 %d, 3;", 0, 0, 0, 4},
	}...)
	runAll(t, cases)
}
