package graph

import "testing"

// The figures are worked out by hand from the shapes, for 2 samples.
func TestFLOPsCountMultiplyAddsAsTwo(t *testing.T) {
	g := New(Float32)
	in := g.Inputs(2, 3, 8, 8)
	x := g.Conv("conv0", in.Images, 4, 3, 1, 1)                     // 2x4x8x8 = 512 values, 27 products each
	x = g.ReLU("relu0", g.BatchNorm("bn0", x, Norm{Epsilon: 1e-5})) // fused
	y := g.BatchNorm("bn1", g.Conv("conv1", x, 4, 3, 1, 1), Norm{}) // 512 values, 36 products each
	x = g.ReLU("relu1", g.Add("add1", y, x))                        // fused into bn1
	x = g.MaxPool("max", x, 3, 2, 1)                                // 2x4x4x4 = 128 values
	x = g.Subsample("half", x, 6, 2)                                // 2x6x2x2 = 48 values
	g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", x), 5), in)    // 2x6 -> 2x5
	p, err := Compile(g, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, o := range p.Ops {
		got[o.Name+" "+o.Kind.String()] = o.FLOPs()
	}
	parameters := 4*27 + 4*36 + 4*4 + 30 + 5
	want := map[string]int{
		"conv0 conv":                  2 * 512 * 27,
		"conv0 conv backward weights": 2 * 512 * 27,
		"bn0 batch norm":              7 * 512,
		"bn0 batch norm backward":     (8 + 1 + 1) * 512,
		"conv1 conv":                  2 * 512 * 36,
		"conv1 conv backward weights": 2 * 512 * 36,
		"conv1 conv backward data":    2 * 512 * 36,
		"bn1 batch norm":              8 * 512,
		"bn1 batch norm backward":     9 * 512,
		"max max pool":                128 * 9,
		"max max pool backward":       128,
		"half subsample":              0,
		"half subsample backward":     0,
		"pool average pool":           48,
		"pool average pool backward":  48,
		"fc dense":                    2*2*6*5 + 2*5,
		"fc dense backward weights":   2*2*6*5 + 2*5,
		"fc dense backward data":      2 * 2 * 6 * 5,
		"loss softmax cross-entropy":  5 * 10,
		"update update":               6 * parameters,
	}
	for op, n := range want {
		if got[op] != n {
			t.Errorf("%s: %d FLOPs, want %d", op, got[op], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the plan has %d operations, want %d", len(got), len(want))
	}
}
