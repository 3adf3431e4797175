package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

func TestSumSquares(t *testing.T) {
	for _, n := range []int{16, 1040, 4096, 50000} {
		d, r := open(t), rand.New(rand.NewPCG(11, uint64(n)))
		v := random(r, graph.Float32, graph.Shape{n})
		want := 0.0
		for _, x := range v {
			want += x * x
		}
		scratch, ticket, result := d.room(kernels.SumSquaresScratch(n)), d.zeros(1), d.zeros(kernels.ResultBytes/4)
		x := d.floats(narrow(v))
		sum := func() float64 {
			d.run(d.SumSquares(n, x, scratch, ticket, result))
			return kernels.GetResult(d.get(result, kernels.ResultBytes)).Squares
		}
		if got := sum(); math.Abs(got-want) > 1e-12*want {
			t.Errorf("%d values: %v, want %v", n, got, want)
		}
		for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
			v[n-1] = bad
			x = d.floats(narrow(v))
			if got := sum(); got-got == 0 {
				t.Errorf("%d values, one of them %v: %v", n, bad, got)
			}
		}
	}
}

// updated is graph.Update in float64.
func updated(u graph.Update, scale float64, w, g, m, v []float64) {
	rate, momentum, beta1, beta2 := float64(u.Rate), float64(u.Momentum), float64(u.Beta1), float64(u.Beta2)
	for i := range w {
		d := (g[i]*scale + float64(u.L2)*w[i]) * float64(u.Gain)
		switch u.Rule {
		case graph.SGD:
			w[i] -= rate * d
		case graph.Momentum:
			m[i] = momentum*m[i] + d
			if u.Nesterov {
				d += momentum * m[i]
			} else {
				d = m[i]
			}
			w[i] -= rate * d
		case graph.Adam:
			m[i], v[i] = beta1*m[i]+(1-beta1)*d, beta2*v[i]+(1-beta2)*d*d
			w[i] -= rate * (m[i] / (1 - math.Pow(beta1, float64(u.Step)))) / (math.Sqrt(v[i]/(1-math.Pow(beta2, float64(u.Step)))) + float64(u.Epsilon))
		}
	}
}

func TestUpdateFollowsTheRules(t *testing.T) {
	shared := open(t)
	const n = 5008
	for _, u := range []graph.Update{
		{Rule: graph.SGD, Rate: 0.1, Gain: 1, L2: 0.01},
		{Rule: graph.SGD, Rate: 0.1, Gain: 1, Clip: 1e9},
		{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 0.1, L2: 0.01, Clip: 5},
		{Rule: graph.Momentum, Rate: 0.1, Momentum: 0.9, Gain: 1, Nesterov: true},
		{Rule: graph.Adam, Rate: 0.01, Gain: 1, L2: 0.01, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Step: 3, Clip: 3},
	} {
		t.Run(fmt.Sprintf("%+v", u), func(t *testing.T) {
			d, r := shared.in(t), rand.New(rand.NewPCG(12, 12))
			arena := func() ([]float64, driver.Pointer) {
				v := random(r, graph.Float32, graph.Shape{n})
				return v, d.floats(narrow(v))
			}
			w, pw := arena()
			g, pg := arena()
			m, pm := arena()
			v, pv := arena()
			for i := range v {
				v[i] = math.Abs(v[i])
			}
			pv = d.floats(narrow(v))
			squares := 0.0
			for _, x := range g {
				squares += x * x
			}
			parameters := make([]byte, kernels.UpdateBytes)
			kernels.PutUpdate(parameters, u)
			before := d.get(pw, 4*n)
			before = append([]byte(nil), before...)
			result := func(loss float64) driver.Pointer {
				b := make([]byte, kernels.ResultBytes)
				binary.LittleEndian.PutUint64(b, math.Float64bits(loss))
				return d.put(b)
			}
			launch := func(loss float64, gradients driver.Pointer) kernels.Result {
				p, second := result(loss), pm
				if u.Rule == graph.SGD {
					second = 0
				}
				third := pv
				if u.Rule != graph.Adam {
					third = 0
				}
				d.run(d.SumSquares(n, gradients, d.room(kernels.SumSquaresScratch(n)), d.zeros(1), p), d.Update(n, d.put(parameters), p, pw, gradients, second, third))
				return kernels.GetResult(d.get(p, kernels.ResultBytes))
			}
			spoiled := narrow(g)
			spoiled[77] = float32(math.Inf(1))
			for _, res := range []kernels.Result{launch(math.NaN(), pg), launch(math.Inf(1), pg), launch(1, d.floats(spoiled))} {
				if res.Updated || string(d.get(pw, 4*n)) != string(before) {
					t.Fatalf("updated by %+v", res)
				}
			}
			if res := launch(1, pg); !res.Updated {
				t.Fatalf("not updated by %+v", res)
			}
			updated(u, float64(u.Scale(math.Sqrt(squares))), w, g, m, v)
			near(t, "parameters", d.getFloats(pw, n), w, 1e-6)
			if u.Rule != graph.SGD {
				near(t, "first moment", d.getFloats(pm, n), m, 1e-6)
			}
			if u.Rule == graph.Adam {
				near(t, "second moment", d.getFloats(pv, n), v, 1e-6)
			}
		})
	}
}

func TestMetricsOfWorkersAdd(t *testing.T) {
	d := open(t)
	var table []byte
	want := graph.Metrics{}
	for i := range 3 {
		b := make([]byte, kernels.ResultBytes)
		m := graph.Metrics{Loss: 1.5 * float64(i+1), Errors: float64(i), Count: 8}
		for k, v := range []float64{m.Loss, m.Errors, m.Count} {
			binary.LittleEndian.PutUint64(b[8*k:], math.Float64bits(v))
		}
		want.Add(m)
		table = binary.LittleEndian.AppendUint64(table, uint64(d.put(b)))
	}
	result := d.zeros(kernels.ResultBytes / 4)
	d.run(d.AddResults(d.put(table), 3, result))
	if got := kernels.GetResult(d.get(result, kernels.ResultBytes)); got.Metrics != want {
		t.Errorf("%+v, want %+v", got.Metrics, want)
	}
}
