package ptx

import (
	"math/rand"
	"testing"
	"unsafe"
)

// TestVectorsComputeWhatPlainCodeDoes compares the vector functions with those that they replace, on numbers at the edges.
func TestVectorsComputeWhatPlainCodeDoes(t *testing.T) {
	if !vectors {
		t.Skip("this processor has no AVX2 with FMA")
	}
	plain := map[string]laneOp{}
	integerOps(plain)
	floatOps(plain)
	plainQuick := map[string]laneFunc{"u64.u32": convert[uint32, uint32, uint64, uint64], "s64.s32": convert[int32, uint32, int64, uint64]}
	plainRelations := map[string][3]compareFunc{
		"s32": {equal[int32, uint32], less[int32, uint32], lessEqual[int32, uint32]},
		"f32": {equal[float32, float32], less[float32, float32], lessEqual[float32, float32]},
	}
	rng := rand.New(rand.NewSource(5))
	edges := []uint64{0, 1, 31, 32, 33, 63, 64, 1 << 31, 1<<32 - 1, 1 << 63, 1<<64 - 1, 0x7f7fffff, 0x00800000, 0x3f8000013f800001, 0xff800000}
	random := func(v *[32]uint64) {
		for i := range v {
			if v[i] = rng.Uint64(); rng.Intn(3) == 0 {
				v[i] = edges[rng.Intn(len(edges))]<<32 | edges[rng.Intn(len(edges))]
			}
		}
	}
	isNaN := func(v uint32) bool { return v&0x7fffffff > 0x7f800000 }
	var a, b, c, x, y [32]uint64
	for range 200 {
		random(&a)
		random(&b)
		random(&c)
		check := func(name string, fast, slow laneFunc, wide, float bool) {
			fast(unsafe.Pointer(&x), unsafe.Pointer(&a), unsafe.Pointer(&b), unsafe.Pointer(&c))
			slow(unsafe.Pointer(&y), unsafe.Pointer(&a), unsafe.Pointer(&b), unsafe.Pointer(&c))
			words := 32
			if wide {
				words = 64
			}
			X, Y := (*[64]uint32)(unsafe.Pointer(&x)), (*[64]uint32)(unsafe.Pointer(&y))
			for i := range words {
				if X[i] != Y[i] && !(float && isNaN(X[i]) && isNaN(Y[i])) {
					t.Fatalf("%s: word %d is %#x, and %#x in plain code", name, i, X[i], Y[i])
				}
			}
		}
		for name, op := range plain {
			if fast := laneOps[name]; len(op.widths) > 0 {
				float := name[len(name)-3:] == "f32"
				if float || name[len(name)-2:] == "32" || name[len(name)-2:] == "64" {
					check(name, fast.f, op.f, op.widths[0] == 64, float || name[len(name)-3:] == "f64")
				}
			}
		}
		for name, f := range plainQuick {
			check(name, quick[name], f, true, false)
		}
		for name, fs := range plainRelations {
			for i, f := range fs {
				if got, want := relations[name][i](unsafe.Pointer(&a), unsafe.Pointer(&b)), f(unsafe.Pointer(&a), unsafe.Pointer(&b)); got != want {
					t.Fatalf("relation %d of %s: %#x, and %#x in plain code", i, name, got, want)
				}
			}
		}
	}
}

func TestAddedAddressesAreChecked(t *testing.T) {
	if !vectors {
		t.Skip("this processor has no AVX2 with FMA")
	}
	for _, e := range []struct {
		odd  uint64
		fine bool
	}{{96, true}, {100, false}, {97, false}, {sharedWindow, false}, {1 << 63, false}, {1<<64 - 16, true}, {1<<64 - 20, false}} {
		for l := range 32 {
			var base [32]uint64
			var where [32]uint32
			base[l] = e.odd
			if got := addAddresses(&where, unsafe.Pointer(&base), 16, 3, 112); got != e.fine {
				t.Fatalf("lane %d at %#x: %t", l, e.odd, got)
			}
			if e.fine && (where[l] != uint32(e.odd+16) || where[(l+1)%32] != 16) {
				t.Fatalf("lane %d at %#x: %v", l, e.odd, where)
			}
		}
	}
}
