package network

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gotrain/graph"
)

// initialized is a network's first parameters and statistics.
func initialized(t *testing.T, s Spec, seed int64) (layouts [2]*graph.Layout, arenas [2][]float32) {
	t.Helper()
	p, err := s.Compile(2, graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	layouts = [2]*graph.Layout{&p.Parameters, &p.Statistics}
	for i, l := range layouts {
		arenas[i] = make([]float32, l.Size)
		for j := range arenas[i] {
			arenas[i][j] = 9 // left from before
		}
		Initialize(l, seed, arenas[i])
	}
	return layouts, arenas
}

func TestInitialValuesHaveTheirDistributions(t *testing.T) {
	layouts, arenas := initialized(t, spec("cifar", 20, "B"), 1)
	for i, l := range layouts {
		padding := slices.Clone(arenas[i])
		for _, s := range l.Slots {
			values := arenas[i][s.Offset:s.End()]
			clear(padding[s.Offset:s.End()])
			n := float64(len(values))
			var mean, square, largest float64
			for _, v := range values {
				mean += float64(v) / n
				square += float64(v) * float64(v) / n
				largest = max(largest, math.Abs(float64(v)))
			}
			constant := func(want float32) {
				if slices.ContainsFunc(values, func(v float32) bool { return v != want }) {
					t.Errorf("%s is not %v throughout", s.Name, want)
				}
			}
			switch {
			case strings.HasSuffix(s.Name, "conv.weight"), strings.Contains(s.Name, "conv") && strings.HasSuffix(s.Name, ".weight"):
				variance := 2 / float64(s.Shape[0]*s.Shape[2]*s.Shape[3])
				if math.Abs(mean) > 4*math.Sqrt(variance/n) {
					t.Errorf("%s has the mean %v", s.Name, mean)
				}
				if math.Abs(square/variance-1) > 4*math.Sqrt(2/n) { // a normal's squares have twice the variance squared
					t.Errorf("%s has the variance %v, want %v", s.Name, square, variance)
				}
				if limit := 5 * math.Sqrt(variance); largest > limit || largest < math.Sqrt(variance) {
					t.Errorf("%s has values up to %v", s.Name, largest)
				}
			case s.Name == "fc.weight":
				bound := 1.0 / 8 // 64 inputs
				if largest > bound || largest < 0.95*bound || math.Abs(square/(bound*bound/3)-1) > 0.2 {
					t.Errorf("%s has values up to %v and the variance %v, want uniform values up to %v", s.Name, largest, square, bound)
				}
			case s.Name == "fc.bias":
				if largest > 1.0/8 || largest == 0 {
					t.Errorf("%s has values up to %v", s.Name, largest)
				}
			case strings.HasSuffix(s.Name, ".gamma"), strings.HasSuffix(s.Name, ".runningVar"):
				constant(1)
			case strings.HasSuffix(s.Name, ".beta"), strings.HasSuffix(s.Name, ".runningMean"):
				constant(0)
			default:
				t.Errorf("%s is not expected", s.Name)
			}
		}
		if slices.ContainsFunc(padding, func(v float32) bool { return v != 0 }) {
			t.Error("padding is not zero")
		}
	}
}

// A tensor of one name and shape begins alike in networks of different depths, and differs by seed and by name.
func TestInitialValuesDependOnSeedAndNameOnly(t *testing.T) {
	values := func(depth int, seed int64, name string) []float32 {
		layouts, arenas := initialized(t, spec("cifar", depth, "B"), seed)
		s, ok := layouts[0].Find(name)
		if !ok {
			t.Fatalf("no parameter %s", name)
		}
		return arenas[0][s.Offset:s.End()]
	}
	a := values(20, 1, "stage1.0.conv1.weight")
	if !slices.Equal(a, values(32, 1, "stage1.0.conv1.weight")) {
		t.Error("a tensor depends on the network's depth")
	}
	if slices.Equal(a, values(20, 2, "stage1.0.conv1.weight")) {
		t.Error("a tensor does not depend on the seed")
	}
	if slices.Equal(a, values(20, 1, "stage1.0.conv2.weight")) {
		t.Error("a tensor does not depend on its name")
	}
}

// What a seed means is fixed: these figures must never change.
func TestInitialValuesAreStable(t *testing.T) {
	layout := &graph.Layout{Slots: []graph.Slot{
		{Name: "stem.conv.weight", Shape: graph.Shape{2, 1, 1, 2}, Offset: 0},
		{Name: "fc.weight", Shape: graph.Shape{2, 2}, Offset: 16},
		{Name: "fc.bias", Shape: graph.Shape{2}, Offset: 32},
	}, Size: 48}
	arena := make([]float32, layout.Size)
	Initialize(layout, 1, arena)
	for _, c := range []struct {
		at   int
		want []float32
	}{
		{0, []float32{0.30367655, 1.0300536, -0.26723576, 0.21058644}},
		{16, []float32{0.54602253, 0.49900532, 0.60509056, -0.35187528}},
		{32, []float32{-0.33418807, -0.45832714}},
	} {
		for i, want := range c.want {
			if got := arena[c.at+i]; math.Abs(float64(got-want)) > 1e-7 {
				t.Errorf("value %d is %v, want %v", c.at+i, got, want)
			}
		}
	}
}
