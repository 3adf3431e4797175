package emulator

import (
	"errors"
	"testing"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator/ptx"
)

// BenchmarkAccess measures what the checks of one warp's access cost, without the interpreter.
func BenchmarkAccess(b *testing.B) {
	for _, bench := range []struct {
		name   string
		kind   ptx.AccessKind
		size   int
		stride uint64
		loose  bool
	}{
		{"loose", ptx.Read, 4, 4, true},
		{"read", ptx.Read, 4, 4, false},
		{"write", ptx.Write, 4, 4, false},
		{"read16", ptx.Read, 16, 16, false},
		{"gather", ptx.Read, 4, 64, false},
		{"broadcast", ptx.Read, 4, 0, false},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m := New(Options{Loose: bench.loose}).(*machine)
			d, _ := m.Open(0)
			p, _ := d.Allocate(1<<20, "p")
			s, _ := d.NewStream("s")
			_ = s.Fill(p, 0, 1<<18)
			_ = s.Synchronize()
			o := &op{work: &work{kind: kernel, device: m.devices[0], function: &function{name: "k"}}, chain: s.(*stream).chain}
			m.order.add(o)
			v := m.view(o)
			v.blocks = make([]blockState, 1)
			b.SetBytes(32 * int64(bench.size))
			i := uint64(0)
			for b.Loop() {
				x := ptx.Access{Kind: bench.kind, Size: bench.size, Mask: 1<<32 - 1}
				for l := range x.Address {
					x.Address[l] = uint64(p) + (i*32*uint64(bench.size)+uint64(l)*bench.stride)&(1<<20-1)
				}
				i++
				if err := v.Access(&x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLaunch measures a kernel that does little else than read and write memory, with checks and without: the worst case for
// their cost.
func BenchmarkLaunch(b *testing.B) {
	for name, o := range map[string]Options{"checked": {}, "loose": {Loose: true}} {
		b.Run(name, func(b *testing.B) {
			const blocks = 1 << 10
			d, err := New(o).Open(0)
			if err != nil {
				b.Fatal(err)
			}
			p, _ := d.Allocate(4*64*blocks, "p")
			s, _ := d.NewStream("s")
			m, err := d.Load("test.ptx", []byte(testKernels))
			if err != nil {
				b.Fatal(err)
			}
			f, _ := m.Function("increment")
			l := driver.Launch{Function: f, Grid: driver.Dim{X: blocks, Y: 1, Z: 1}, Block: driver.Dim{X: 64, Y: 1, Z: 1}, Params: params(p, p)}
			if err := s.Fill(p, 0, 64*blocks); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(2 * 4 * 64 * blocks)
			for b.Loop() {
				if err := errors.Join(s.Launch(l), s.Synchronize()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
