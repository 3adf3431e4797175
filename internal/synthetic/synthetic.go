// Package synthetic writes data sets of made-up pictures in the formats of real ones, for tests and measurements where the
// real ones are not at hand. A class is a color and a direction of stripes, under noise, so that networks learn them. Equal
// arguments give equal bytes.
package synthetic

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// picture calls set with the color of every pixel of a picture of a class.
func picture(r *rand.Rand, class, size int, set func(x, y int, c [3]byte)) {
	angle := float64(class) * math.Pi / 10
	dx, dy, phase := math.Cos(angle), math.Sin(angle), r.Float64()*2*math.Pi
	for y := range size {
		for x := range size {
			stripe := math.Sin((float64(x)*dx+float64(y)*dy)*20/float64(size) + phase)
			var c [3]byte
			for i := range c {
				tint := math.Sin(float64(class+1) * float64(i+2))
				c[i] = byte(min(max(128+50*stripe+30*tint+25*r.NormFloat64(), 0), 255))
			}
			set(x, y, c)
		}
	}
}

// CIFAR10 writes the files of cifar-10-batches-bin into a folder, with so many records in each.
func CIFAR10(dir string, records int) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for n, name := range []string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"} {
		r := rand.New(rand.NewPCG(10, uint64(n)))
		var b bytes.Buffer
		for range records {
			record := make([]byte, 1+3*32*32)
			record[0] = byte(r.IntN(10))
			picture(r, int(record[0]), 32, func(x, y int, c [3]byte) {
				for i, v := range c {
					record[1+i*1024+y*32+x] = v
				}
			})
			b.Write(record)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".bin"), b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// Images writes a folder for each class into dir, with so many PNG files of size pixels square in each.
func Images(dir string, classes []string, each, size int) error {
	for class, name := range classes {
		folder := filepath.Join(dir, name)
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(11, uint64(class)))
		for n := range each {
			img := image.NewRGBA(image.Rect(0, 0, size, size))
			picture(r, class, size, func(x, y int, c [3]byte) { img.SetRGBA(x, y, color.RGBA{c[0], c[1], c[2], 255}) })
			var b bytes.Buffer
			if err := png.Encode(&b, img); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%04d.png", n)), b.Bytes(), 0o666); err != nil {
				return err
			}
		}
	}
	return nil
}
