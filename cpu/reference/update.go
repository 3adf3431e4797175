package reference

import (
	"math"

	"gotrain/graph"
)

// apply is graph.Update, on arenas of one layout, with the factor that clipping makes. m and v are the moments, which some rules leave alone.
func apply(u graph.Update, scale float64, w, g, m, v []float32) {
	rate, momentum := float64(u.Rate), float64(u.Momentum)
	beta1, beta2 := float64(u.Beta1), float64(u.Beta2)
	for i := range w {
		p := float64(w[i])
		d := (float64(g[i])*scale + float64(u.L2)*p) * float64(u.Gain)
		switch u.Rule {
		case graph.SGD:
			p -= rate * d
		case graph.Momentum:
			mi := momentum*float64(m[i]) + d
			m[i] = float32(mi)
			if u.Nesterov {
				mi = d + momentum*mi
			}
			p -= rate * mi
		case graph.Adam:
			mi := beta1*float64(m[i]) + (1-beta1)*d
			vi := beta2*float64(v[i]) + (1-beta2)*d*d
			m[i], v[i] = float32(mi), float32(vi)
			mi /= 1 - math.Pow(beta1, float64(u.Step))
			vi /= 1 - math.Pow(beta2, float64(u.Step))
			p -= rate * mi / (math.Sqrt(vi) + float64(u.Epsilon))
		}
		w[i] = float32(p)
	}
}
