package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gotrain/cuda/kernels"
	"gotrain/graph"
)

func TestGatherMakesImagesByThePlan(t *testing.T) {
	shared := open(t)
	for _, dtype := range types {
		for _, s := range []graph.Shape{{1, 1, 1, 1}, {3, 3, 5, 7}, {2, 9, 8, 3}, {5, 4, 16, 16}} {
			t.Run(fmt.Sprint(dtype, s), func(t *testing.T) {
				d, r := shared.in(t), rand.New(rand.NewPCG(1, uint64(s.Values())))
				n, c, h, w := s[0], s[1], s[2], s[3]
				set := n + 2
				pixels, labels := make([]byte, set*c*h*w), make([]int32, set)
				for i := range pixels {
					pixels[i] = byte(r.IntN(256))
				}
				for i := range labels {
					labels[i] = int32(r.IntN(100))
				}
				table, fill := make([]float32, c*256), make([]float32, c)
				for i := range table {
					table[i] = float32(round(dtype, r.NormFloat64()))
				}
				for i := range fill {
					fill[i] = float32(round(dtype, r.NormFloat64()))
				}
				plan := make([]graph.Sample, n)
				for i := range plan {
					plan[i] = graph.Sample{Key: r.Uint64(), Index: int32(r.IntN(set)), Y: int16(r.IntN(9) - 4), X: int16(r.IntN(9) - 4), Flip: r.IntN(2) == 0}
				}
				laid := make([]byte, n*kernels.SampleBytes)
				kernels.PutSamples(laid, plan)
				images, got := d.room(kernels.ActivationBytes(s, dtype)), d.room(4*n)
				resident := kernels.Resident{Pixels: d.put(pixels), Labels: d.put(words(labels)), Table: d.floats(table), Fill: d.floats(fill)}
				d.run(d.Gather(dtype, s, resident, d.put(laid), images, got))

				var wantImages []float64
				var wantLabels []int32
				for _, p := range plan {
					wantLabels = append(wantLabels, labels[p.Index])
					for i := range c * h * w {
						k, y, x := i/(h*w), i/w%h, i%w
						if p.Flip {
							x = w - 1 - x
						}
						y, x = y+int(p.Y), x+int(p.X)
						v := fill[k]
						if y >= 0 && y < h && x >= 0 && x < w {
							v = table[k*256+int(pixels[((int(p.Index)*c+k)*h+y)*w+x])]
						}
						wantImages = append(wantImages, float64(v))
					}
				}
				near(t, "images", d.getActivation(dtype, s, images), wantImages, 0)
				if l := d.get(got, 4*n); string(l) != string(words(wantLabels)) {
					t.Errorf("labels %v, want %v", l, words(wantLabels))
				}
			})
		}
	}
}

func TestInterleavePutsChannelsBesideEachOther(t *testing.T) {
	for _, dtype := range types {
		for _, s := range []graph.Shape{{1, 1, 1, 1}, {3, 3, 5, 7}, {2, 13, 9, 9}} {
			d, r := open(t), rand.New(rand.NewPCG(2, uint64(s.Values())))
			v := random(r, dtype, s)
			images := d.room(kernels.ActivationBytes(s, dtype))
			d.run(d.Interleave(dtype, s, d.floats(narrow(v)), images))
			near(t, fmt.Sprint(dtype, s), d.getActivation(dtype, s, images), v, 0)
		}
	}
}
