package emulator

import (
	"testing"

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
