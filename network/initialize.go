package network

import (
	"hash/fnv"
	"math"
	"strings"

	"gotrain/graph"
	"gotrain/internal/splitmix"
)

// Initialize writes the first values of all tensors of a layout, of parameters or of statistics, into its arena; padding
// becomes zero. With a tensor's shape [out][in][kh][kw] or [out][in], they are
//
//	convolution weights   normal, mean 0, variance 2 / (out kh kw): He et al., "Delving Deep into Rectifiers" (2015), fan-out
//	dense weight, bias    uniform in ±1/sqrt(in)
//	gamma, runningVar     1
//	beta, runningMean     0
//
// A tensor's values depend on the seed and its name only, not on what else the layout holds.
func Initialize(layout *graph.Layout, seed int64, arena []float32) {
	clear(arena)
	for _, s := range layout.Slots {
		values := arena[s.Offset:s.End()]
		r := newRandom(seed, s.Name)
		layer, kind := s.Name, ""
		if dot := strings.LastIndexByte(s.Name, '.'); dot >= 0 {
			layer, kind = s.Name[:dot], s.Name[dot+1:]
		}
		switch {
		case kind == "weight" && len(s.Shape) == 4:
			fanOut := s.Shape[0] * s.Shape[2] * s.Shape[3]
			r.normal(values, math.Sqrt(2/float64(fanOut)))
		case kind == "weight":
			r.uniform(values, 1/math.Sqrt(float64(s.Shape[1])))
		case kind == "bias":
			if w, ok := layout.Find(layer + ".weight"); ok {
				r.uniform(values, 1/math.Sqrt(float64(w.Shape[1])))
			}
		case kind == "gamma" || kind == "runningVar":
			for i := range values {
				values[i] = 1
			}
		}
	}
}

// random draws the values of one tensor.
type random struct{ splitmix.Source }

// newRandom starts at the FNV-1a hash of the name plus the mixed seed.
func newRandom(seed int64, name string) *random {
	mixed := splitmix.Source(seed)
	h := fnv.New64a()
	h.Write([]byte(name))
	return &random{splitmix.Source(h.Sum64() + mixed.Next())}
}

// unit is uniform in (0, 1): the middles of 2^52 equal parts, of which there is none at 0 for a logarithm to fall on.
func (r *random) unit() float64 { return (float64(r.Next()>>12) + 0.5) / (1 << 52) }

// uniform fills values from (-bound, bound).
func (r *random) uniform(values []float32, bound float64) {
	for i := range values {
		values[i] = float32((2*r.unit() - 1) * bound)
	}
}

// normal fills values with the transform of Box and Muller, "A Note on the Generation of Random Normal Deviates" (1958),
// two at a time.
func (r *random) normal(values []float32, deviation float64) {
	for i := 0; i < len(values); i += 2 {
		radius := deviation * math.Sqrt(-2*math.Log(r.unit()))
		sin, cos := math.Sincos(2 * math.Pi * r.unit())
		values[i] = float32(radius * cos)
		if i+1 < len(values) {
			values[i+1] = float32(radius * sin)
		}
	}
}
