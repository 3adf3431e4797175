package ptx

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// runBody runs a kernel with parameters p (an allocation of 64 words, the first 32 written) and n, in one block.
func runBody(t *testing.T, body string, threads int, change func(*Config)) ([]uint32, error) {
	t.Helper()
	text := header + ".visible .entry k(.param .u64 p, .param .u32 n) {\n" +
		"\t.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<19>; .reg .b64 %rd<9>;\n" +
		"\t.shared .align 16 .b8 buffer[1024];\n" +
		"\tmov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; mov.u64 %rd2, buffer; add.u64 %rd2, %rd2, %rd1;\n" +
		"\tld.param.u64 %rd3, [p]; add.u64 %rd4, %rd3, %rd1; ld.param.u32 %r9, [n];\n" +
		body + "\n}\n"
	m, err := Parse("k.ptx", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	mem := &memory{}
	p := mem.allocate(4 * 64)
	c := Config{Grid: Dim{1, 1, 1}, Block: Dim{threads, 1, 1}, Params: pack(p, 32), Memory: mem, Limit: 3 << 20}
	if change != nil {
		change(&c)
	}
	_, err = m.kernels[0].Run(c)
	return mem.getWords(p), err
}

func TestFaultsNameWhatIsWrong(t *testing.T) {
	for name, e := range map[string]struct {
		body    string
		threads int
		want    string // of the fault, without the place
	}{
		"global out of bounds": {"ld.global.u32 %r2, [%rd4+1024]; ret;", 32,
			"k: block (0,0,0), thread (0,0,0): 4 bytes at 0x100000400 are outside of every allocation: k.ptx:9: ld.global.u32 %r2, [%rd4+1024]"},
		"global misaligned": {"st.global.u32 [%rd4+2], %r1; ret;", 32,
			"k: block (0,0,0), thread (0,0,0): global address 0x100000002 is not aligned to 4 bytes: k.ptx:9: st.global.u32 [%rd4+2], %r1"},
		"vector misaligned": {"ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%rd4]; ret;", 32,
			"thread (1,0,0): global address 0x100000004 is not aligned to 16 bytes: k.ptx:9"},
		"shared out of bounds": {"st.shared.u32 [%rd2+1000], %r1; ret;", 32,
			"thread (6,0,0): 4 bytes at shared address 0x400 are outside of the block's 1024: k.ptx:9"},
		"shared misaligned": {"st.shared.u32 [%rd2+1], %r1; ret;", 32, "thread (0,0,0): shared address 0x1 is not aligned to 4 bytes"},
		"shared through the generic space": {"cvta.shared.u64 %rd2, %rd2; st.u32 [%rd2+1024], %r1; ret;", 32,
			"thread (0,0,0): 4 bytes at shared address 0x400 are outside of the block's 1024"},
		"shared not written": {"st.shared.u32 [%rd2], %r1; bar.sync 0; ld.shared.u32 %r2, [%rd2+4]; ret;", 32,
			"thread (31,0,0): shared byte 0x80 is read, and nothing has written it: k.ptx:9: ld.shared.u32 %r2, [%rd2+4]"},
		"shared race of a read": {"st.shared.u32 [%rd2], %r1; xor.b32 %r3, %r1, 32; shl.b32 %r3, %r3, 2; setp.gt.u32 %p1, %r1, 31; @%p1 ld.shared.u32 %r2, [%r3]; ret;", 64,
			"thread (32,0,0): race: shared byte 0x0 is read, and thread (0,0,0) has written it with no barrier between"},
		"shared race in a warp": {"st.shared.u32 [%rd2], %r1; xor.b32 %r3, %r1, 1; shl.b32 %r3, %r3, 2; ld.shared.u32 %r2, [%r3]; ret;", 32,
			"thread (0,0,0): race: shared byte 0x4 is read, and thread (1,0,0) has written it with no barrier between"},
		"shared race of a write": {"st.shared.u32 [0], %r1; ret;", 32,
			"thread (1,0,0): race: shared byte 0x0 is written, and thread (0,0,0) has written it with no barrier between"},
		"shared race of a write after a read": {"st.shared.u32 [%rd2], %r1; bar.sync 0; xor.b32 %r3, %r1, 32; shl.b32 %r3, %r3, 2;" +
			"ld.shared.u32 %r2, [%r3]; st.shared.u32 [%rd2], %r2; ret;", 64,
			"thread (0,0,0): race: shared byte 0x80 is read, and thread (32,0,0) has written it with no barrier between"},
		"shared race after several reads": {"st.shared.u32 [%rd2], %r1; bar.sync 0; ld.shared.u32 %r2, [0]; setp.eq.u32 %p1, %r1, 33; @%p1 st.shared.u32 [0], %r2; ret;", 64,
			"thread (33,0,0): race: shared byte 0x0 is written, and several threads of warp 1 have read it with no barrier between"},
		"atomic beside a write": {"setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [0], %r1; atom.shared.add.u32 %r2, [0], 1; ret;", 32,
			"thread (1,0,0): race: shared byte 0x0 is written, and thread (0,0,0) has written it with no barrier between"},
		"exit before a barrier": {"setp.eq.u32 %p1, %r1, 40; @%p1 ret; bar.sync 0; ret;", 64,
			"k: block (0,0,0), thread (0,0,0): divergent barrier: 63 of 64 threads wait here, and thread (40,0,0) has exited: k.ptx:9: bar.sync 0"},
		"two barriers": {"setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; ret; A: bar.sync 0; ret;", 32,
			"divergent barrier: thread (16,0,0) waits at another one, k.ptx:9: bar.sync 0"},
		"one waits at a vote": {"setp.eq.u32 %p1, %r1, 3; @%p1 bra A; bar.warp.sync -1; ret; A: bar.sync 0; ret;", 32,
			"thread (0,0,0): deadlock: lanes 0xfffffff7 wait for lane 3, which waits at k.ptx:9: bar.sync 0: k.ptx:9: bar.warp.sync -1"},
		"lane not in its mask": {"vote.sync.ballot.b32 %r2, 1, 0xff; ret;", 32, "thread (8,0,0): lane 8 is not in its member mask 0xff"},
		"lane of the mask gone": {"setp.eq.u32 %p1, %r1, 5; @%p1 ret; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; ret;", 32,
			"thread (0,0,0): lane 5 of the member mask 0xffffffff has exited"},
		"shfl from outside of the mask": {"setp.gt.u32 %p1, %r1, 7; @%p1 ret; shfl.sync.idx.b32 %r2, %r1, 9, 31, 0xff; ret;", 32,
			"thread (0,0,0): shfl reads lane 9, which is not in the member mask or does not exist"},
		"barrier for half a warp":    {"bar.sync 1, 48; ret;", 64, "barrier 1 for 48 threads: the number has to be a multiple of 32"},
		"barrier with a high number": {"bar.sync 16; ret;", 64, "barrier 16: there are barriers 0 to 15"},
		"division by zero":           {"div.u32 %r2, %r9, %r1; ret;", 32, "thread (0,0,0): integer division by zero: k.ptx:9: div.u32 %r2, %r9, %r1"},
		"endless loop":               {"L: bra L;", 32, "instructions executed, and no end: an endless loop, or Config.Limit is too small: k.ptx:9: bra L"},
		"trap":                       {"trap;", 32, "thread (0,0,0): trap: k.ptx:9: trap"},
		"copy not waited for": {"cp.async.ca.shared.global [%rd2], [%rd4], 4; ld.shared.u32 %r2, [%rd2]; ret;", 32,
			"thread (0,0,0): shared byte 0x0 is read while a cp.async of thread (0,0,0) to it is not waited for"},
		"copy waited for too late": {"cp.async.ca.shared.global [%rd2], [%rd4], 4; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r2, [%rd2]; ret;", 32,
			"shared byte 0x0 is read while a cp.async of thread (0,0,0) to it is not waited for"},
		"copy without a barrier": {"cp.async.ca.shared.global [%rd2], [%rd4], 4; cp.async.wait_all; xor.b32 %r3, %r1, 1; shl.b32 %r3, %r3, 2; ld.shared.u32 %r2, [%r3]; ret;", 32,
			"race: shared byte 0x4 is read, and thread (1,0,0) has written it with no barrier between"},
		"copy over a buffer in use": {"st.shared.u32 [%rd2], %r1; bar.sync 0; xor.b32 %r3, %r1, 1; shl.b32 %r3, %r3, 2; ld.shared.u32 %r2, [%r3]; cp.async.ca.shared.global [%rd2], [%rd4], 4; ret;", 32,
			"race: shared byte 0x0 is written, and thread (1,0,0) has read it with no barrier between"},
		"write to parameters": {"mov.u64 %rd5, p; cvta.param.u64 %rd5, %rd5; st.u32 [%rd5], %r1; ret;", 32, "parameter memory cannot be written"},
		"global address out of shared memory": {"cvta.shared.u64 %rd2, %rd2; ld.global.u32 %r2, [%rd2]; ret;", 32,
			"0xf100000000000000 is not a global address"},
		"atomic on parameters": {"mov.u64 %rd5, p; cvta.param.u64 %rd5, %rd5; atom.add.u32 %r2, [%rd5], 1; ret;", 32,
			"an atomic works on global and shared memory"},
	} {
		_, err := runBody(t, e.body, e.threads, nil)
		var f *Fault
		if !errors.As(err, &f) {
			t.Errorf("%s: %v is no fault", name, err)
		} else if !strings.Contains(err.Error(), e.want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, e.want)
		}
	}
}

func TestWhatIsInOrderIsNoFault(t *testing.T) {
	for name, e := range map[string]struct {
		body    string
		threads int
	}{
		"in place":                      {"st.shared.u32 [%rd2], %r1; ld.shared.u32 %r2, [%rd2]; st.shared.u32 [%rd2], %r2; ret;", 64},
		"bar.warp.sync within a warp":   {"st.shared.u32 [%rd2], %r1; bar.warp.sync -1; xor.b32 %r3, %r1, 1; shl.b32 %r3, %r3, 2; ld.shared.u32 %r2, [%r3]; ret;", 32},
		"atomics":                       {"setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [0], %r1; bar.sync 0; atom.shared.add.u32 %r2, [0], 1; red.shared.max.u32 [0], 3; ret;", 64},
		"halves of a word":              {"mul.wide.u32 %rd5, %r1, 2; cvt.u16.u32 %h1, %r1; st.shared.u16 [%rd5], %h1; ret;", 64},
		"half a warp at a vote":         {"setp.lt.u32 %p1, %r1, 16; @%p1 bra A; vote.sync.ballot.b32 %r2, 1, 0xffff0000; ret; A: vote.sync.ballot.b32 %r2, 1, 0xffff; ret;", 32},
		"masks by half":                 {"and.b32 %r3, %r1, 16; mov.b32 %r4, 0xffff; shl.b32 %r4, %r4, %r3; shfl.sync.bfly.b32 %r2, %r1, 1, 31, %r4; ret;", 32},
		"a lane that comes later":       {"setp.ne.u32 %p1, %r1, 3; @%p1 bra A; add.u32 %r2, %r1, 1; A: bar.warp.sync -1; ret;", 32},
		"named barriers":                {"setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 2, 64; ret; A: bar.sync 2, 64; ret;", 64},
		"arrive":                        {"setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.arrive 1, 64; ret; A: bar.sync 1, 64; ret;", 64},
		"copy of nothing from anywhere": {"mov.u64 %rd5, 0; cp.async.ca.shared.global [%rd2], [%rd5], 4, 0; cp.async.wait_all; ld.shared.u32 %r2, [%rd2]; ret;", 32},
		"waiting for another warp's word": {"setp.lt.u32 %p1, %r1, 32; @%p1 bra A; mov.u32 %r2, 1; atom.global.exch.b32 %r3, [%rd3], %r2; ret;" +
			"A: atom.global.or.b32 %r3, [%rd3], 0; setp.eq.u32 %p2, %r3, 0; @%p2 bra A; ret;", 64},
		"waiting for another lane's word": {"setp.eq.u32 %p1, %r1, 7; @!%p1 bra A; bra B; A: atom.global.or.b32 %r3, [%rd3], 0; setp.eq.u32 %p2, %r3, 0; @%p2 bra A; ret;" +
			"B: mov.u32 %r2, 1; atom.global.exch.b32 %r3, [%rd3], %r2; ret;", 32},
	} {
		if _, err := runBody(t, e.body, e.threads, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFaultNamesTheSourceLine(t *testing.T) {
	m := load(t, "testdata/conv.ptx")
	k := kernel(t, m, "conv3x3_fwd")
	mem := &memory{}
	x, y := mem.allocate(64), mem.allocate(64)
	_, err := k.Run(Config{Grid: Dim{2, 1, 1}, Block: Dim{256, 1, 1}, Memory: mem, Params: pack(x, x, y, 1, 8, 8, 16, 16, 8, 8, 1, 1)})
	var f *Fault
	if !errors.As(err, &f) {
		t.Fatal(err)
	}
	if f.Kernel != "conv3x3_fwd" || f.File != "testdata/conv.ptx" || f.Source != "./conv.cu:20" || !strings.HasPrefix(f.Text, "ld.global") && !strings.Contains(f.Text, " ld.global") {
		t.Errorf("%+v", *f)
	}
}

func TestWrongLaunches(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"k: a grid of (0,1,1) blocks of (32,1,1) threads is empty":        func(c *Config) { c.Grid.X = 0 },
		"k: blocks of 2048 threads, and it was compiled for 1024 at most": func(c *Config) { c.Block.X = 2048 },
		"k: 8 bytes of parameters, and it has 12":                         func(c *Config) { c.Params = c.Params[:8] },
		"k: -1 bytes of dynamic shared memory":                            func(c *Config) { c.Shared = -1 },
		"k: no memory":                                                    func(c *Config) { c.Memory = nil },
	} {
		if _, err := runBody(t, "ret;", 32, change); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	body := func(s string) string {
		return header + ".visible .entry k(.param .u32 n) {\n.reg .b32 %r<4>; .reg .pred %p<2>; .reg .b64 %rd<2>;\n" + s + "\n}\n"
	}
	for text, want := range map[string]string{
		body("frobnicate.b32 %r1, %r2;"):       "m.ptx:6: instruction frobnicate.b32 is not known: frobnicate.b32 %r1, %r2;",
		body("add.ftz.f32 %r1, %r2, %r3;"):     "m.ptx:6: instruction add.ftz.f32 is not known: add.ftz.f32 %r1, %r2, %r3;",
		body("@%p1 call foo;"):                 "m.ptx:6: instruction call is not known: @%p1 call foo;",
		body("add.s32 %r1, %r9, %r3;"):         "m.ptx:6: %r9 is not declared",
		body("add.s32 %rd1, %r1, %r3;"):        "m.ptx:6: %rd1 is not a register of 32 bits",
		body("add.s32 %r1, %r2;"):              "m.ptx:6: 3 operands are wanted: add.s32 %r1, %r2",
		body("bra L;"):                         "m.ptx:6: label L is not there",
		body("L: L: ret;"):                     "m.ptx:6: label L is there twice",
		body("ret"):                            "m.ptx:6: \";\" is missing",
		body("ld.param.u32 %r1, [m];"):         "m.ptx:6: [m] is not an address",
		body("st.param.u32 [n], %r1;"):         "m.ptx:6: instruction st.param.u32 is not known: st.param.u32 [n], %r1",
		body("@%r1 ret;"):                      "m.ptx:6: %r1 is not a predicate",
		body("ld.global.v2.u32 %r1, [%rd1];"):  "m.ptx:6: %r1 is not a vector of 2 registers",
		header + ".func f() { ret; }":          "m.ptx:4: functions are not supported: have them inlined (__forceinline__)",
		header + ".global .u32 counter;":       "m.ptx:4: counter is a global variable that a kernel could write: pass memory as a parameter",
		header + ".visible .entry k() {\nret;": "m.ptx:4: the body of entry k does not end",
		"hello":                                "m.ptx:1: \"hello\" is not a directive of a module",
	} {
		_, err := Parse("m.ptx", []byte(text))
		var s *SyntaxError
		if !errors.As(err, &s) || strings.TrimSuffix(err.Error(), ";") != strings.TrimSuffix(want, ";") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	m, err := Parse("m.ptx", []byte(body("ret;")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Kernel("other"); err == nil || err.Error() != `m.ptx: no kernel "other" among its 1` {
		t.Error(err)
	}
}

// TestRemovedBarriersAreFound takes each barrier out of the prototype's kernels.
func TestRemovedBarriersAreFound(t *testing.T) {
	for _, e := range []struct {
		file, name string
		config     func() Config
	}{
		{"testdata/onebit.ptx", "onebit_quant", func() Config {
			m := &memory{}
			return Config{Grid: Dim{1, 1, 1}, Block: Dim{256, 1, 1}, Memory: m,
				Params: pack(m.allocate(4*500), m.allocate(4*500), m.allocate(4*16), m.allocate(8), 500)}
		}},
		{"testdata/conv.ptx", "conv3x3_fwd", func() Config {
			m := &memory{}
			x, w, y := m.allocate(4*64*16), m.allocate(4*9*16*16), m.allocate(4*64*16)
			return Config{Grid: Dim{1, 1, 1}, Block: Dim{256, 1, 1}, Memory: m, Params: pack(x, w, y, 1, 8, 8, 16, 16, 8, 8, 1, 1)}
		}},
	} {
		text, err := os.ReadFile(e.file)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(text), "bar.sync \t0;")
		if len(parts) < 3 {
			t.Fatalf("%s has %d barriers", e.file, len(parts)-1)
		}
		for i := range len(parts) {
			mutant := ""
			for j, p := range parts {
				mutant += p
				if j < len(parts)-1 && j != i {
					mutant += "bar.sync 0;"
				}
			}
			m, err := Parse(e.file, []byte(mutant))
			if err != nil {
				t.Fatal(err)
			}
			_, err = kernel(t, m, e.name).Run(e.config())
			whole := i == len(parts)-1
			if whole && err != nil || !whole && (err == nil || !strings.Contains(err.Error(), "race: ")) && !(err != nil && strings.Contains(err.Error(), "nothing has written")) {
				t.Errorf("%s without barrier %d: %v", e.name, i, err)
			}
		}
	}
}
