package sweep

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Tree-structured Parzen estimators (Bergstra, Bardenet, Bengio and Kégl, "Algorithms for hyper-parameter optimization", NIPS 2011,
// section 4): of the trials so far the best quarter gives a density l of good values, the others g of bad ones, for each parameter by
// itself; of some values drawn from l, that with the greatest l/g is proposed.
const (
	tpeStartup    = 10   // trials that are drawn at random
	tpeGood       = 0.25 // share of the trials that count as good
	tpeCandidates = 24
)

// observation is a trial that has ended.
type observation struct {
	values []string
	loss   float64 // less is better; +Inf: no result
}

// tpe proposes the value of the parameter with an index.
func (p Parameter) tpe(k int, seen []observation, r *rand.Rand) Value {
	seen = slices.Clone(seen)
	slices.SortStableFunc(seen, func(a, b observation) int { return cmp.Compare(a.loss, b.loss) })
	n := int(math.Ceil(tpeGood * float64(len(seen))))
	good, bad := p.density(k, seen[:n]), p.density(k, seen[n:])
	best, most := 0.0, math.Inf(-1)
	for range tpeCandidates {
		x := good.draw(r)
		if ratio := math.Log(good.at(x)) - math.Log(bad.at(x)); ratio > most {
			best, most = x, ratio
		}
	}
	if p.Scale == "" {
		return p.Values[int(best)]
	}
	return p.at(best)
}

// density is that of a parameter's values: of the indices of a list's, or of shares of a range, from 0 to 1.
type density interface {
	at(x float64) float64
	draw(r *rand.Rand) float64
}

func (p Parameter) density(k int, seen []observation) density {
	if p.Scale == "" {
		weights := slices.Repeat(categories{1}, len(p.Values)) // the prior: one of each
		for _, o := range seen {
			if i := slices.IndexFunc(p.Values, func(v Value) bool { return v.Text == o.values[k] }); i >= 0 {
				weights[i]++
			}
		}
		return weights
	}
	var centers []float64
	for _, o := range seen {
		if v, err := strconv.ParseFloat(o.values[k], 64); err == nil {
			centers = append(centers, p.share(v))
		}
	}
	slices.Sort(centers)
	d := parzen{{0.5, 1}} // the prior: wide, in the middle
	for i, c := range centers {
		left, right := 0.0, 1.0
		if i > 0 {
			left = centers[i-1]
		}
		if i+1 < len(centers) {
			right = centers[i+1]
		}
		width := max(c-left, right-c)
		d = append(d, bell{c, min(max(width, 1/float64(1+len(centers))), 1)})
	}
	return d
}

// share is where a value lies in a range, from 0 to 1.
func (p Parameter) share(v float64) float64 {
	low, high := p.Low, p.High
	switch p.Scale {
	case "logUniform":
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	case "int":
		high, v = high+1, v+0.5 // the middle of the values that are cut down to it
	}
	return min(max((v-low)/(high-low), 0), 1)
}

// categories are weights of indices.
type categories []float64

func (c categories) sum() (s float64) {
	for _, w := range c {
		s += w
	}
	return s
}

func (c categories) at(x float64) float64 { return c[int(x)] / c.sum() }

func (c categories) draw(r *rand.Rand) float64 {
	x := r.Float64() * c.sum()
	for i, w := range c {
		if x -= w; x < 0 {
			return float64(i)
		}
	}
	return float64(len(c) - 1)
}

// parzen is a mixture of normal distributions, each cut to the range from 0 to 1.
type parzen []bell

type bell struct{ center, width float64 }

// below is the share of a normal distribution below x.
func (b bell) below(x float64) float64 {
	return 0.5 * math.Erfc(-(x-b.center)/(b.width*math.Sqrt2))
}

func (p parzen) at(x float64) (s float64) {
	for _, b := range p {
		z := (x - b.center) / b.width
		s += math.Exp(-z*z/2) / (b.width * math.Sqrt(2*math.Pi)) / (b.below(1) - b.below(0))
	}
	return s / float64(len(p))
}

func (p parzen) draw(r *rand.Rand) float64 {
	b := p[r.IntN(len(p))]
	for {
		if x := b.center + b.width*r.NormFloat64(); x >= 0 && x <= 1 {
			return x
		}
	}
}
