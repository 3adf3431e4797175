package readers

import (
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotrain/configs"
)

// one wraps a single pixel as an image of 2x1 pixels, both of that color.
func one(m interface {
	image.Image
	Set(x, y int, c color.Color)
}, c color.Color) image.Image {
	m.Set(0, 0, c)
	m.Set(1, 0, c)
	return m
}

func TestColorRulesOfPictures(t *testing.T) {
	r := image.Rect(0, 0, 2, 1)
	palette := color.Palette{color.Black, color.RGBA{10, 20, 30, 255}}
	tests := []struct {
		name    string
		content []byte
		rgb     [3]float32
		gray    float32
	}{
		{"8 bits", encoded(t, one(image.NewRGBA(r), color.RGBA{10, 20, 30, 255})), [3]float32{10, 20, 30}, 18},
		{"palette", encoded(t, one(image.NewPaletted(r, palette), palette[1])), [3]float32{10, 20, 30}, 18},
		{"gray", encoded(t, one(image.NewGray(r), color.Gray{77})), [3]float32{77, 77, 77}, 77},
		// 0x7f80 is 127.5 of 257ths of 16 bits, 0x80ff 128.5 and more: rounded, not cut off
		{"16 bits", encoded(t, one(image.NewRGBA64(r), color.RGBA64{0x7fff, 0x80ff, 0x80ff, 0xffff})), [3]float32{127, 128, 128}, 128},
		{"16 bits, above a half", encoded(t, one(image.NewRGBA64(r), color.RGBA64{0x80ff, 0x0081, 0xffff, 0xffff})), [3]float32{128, 1, 255}, 68},
		{"16-bit gray", encoded(t, one(image.NewGray16(r), color.Gray16{0x81ff})), [3]float32{129, 129, 129}, 129},
		{"transparent, over black", encoded(t, one(image.NewNRGBA(r), color.NRGBA{200, 100, 50, 128})), [3]float32{100, 50, 25}, 62},
		{"wholly transparent", encoded(t, one(image.NewNRGBA(r), color.NRGBA{200, 100, 50, 0})), [3]float32{0, 0, 0}, 0},
		{"16 bits and transparent", encoded(t, one(image.NewNRGBA64(r), color.NRGBA64{0xffff, 0x8000, 0, 0x8000})), [3]float32{128, 64, 0}, 76},
		{"CMYK JPEG", cmyk(t), [3]float32{191, 128, 64}, 139},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a/1.png"), test.content) // what a file is, its content says
			near := func(got, want float32) bool {
				if test.name == "CMYK JPEG" {
					return got >= want-2 && got <= want+2
				}
				return got == want
			}
			got := get(t, open(t, configs.Reader{Type: "images", Path: dir}, Train), Sample{}).Images
			plane := len(got) / 3
			for c := range 3 {
				if !near(got[c*plane], test.rgb[c]) {
					t.Errorf("channel %d: %v, want %v", c, got[c*plane], test.rgb[c])
				}
			}
			toGray := configs.Transform{Kind: "color", Color: "gray"}
			got = get(t, open(t, configs.Reader{Type: "images", Path: dir, Transforms: []configs.Transform{toGray}}, Train), Sample{}).Images
			if len(got) != plane || !near(got[0], test.gray) {
				t.Errorf("gray: %v of %d values, want %v", got[0], len(got), test.gray)
			}
			scale := configs.Transform{Kind: "scale", Width: 3, Height: 2}
			scaled := get(t, open(t, configs.Reader{Type: "images", Path: dir, Transforms: []configs.Transform{toGray, scale}}, Train), Sample{}).Images
			if len(scaled) != 6 || slices.ContainsFunc(scaled, func(v float32) bool { return !near(v, test.gray) }) {
				t.Errorf("gray and scaled: %v, want 6 times %v", scaled, test.gray)
			}
		})
	}
}

// cmyk is a JPEG of 8x8 pixels, C 64, M 128, Y 191, K 0, in Adobe's inverted form, made with Pillow:
//
//	Image.new("CMYK", (8, 8), (64, 128, 191, 0)).save("cmyk.jpg", quality=95)
func cmyk(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/cmyk.jpg")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPictureWithAnAbsurdHeaderIsRefused(t *testing.T) {
	dir := t.TempDir()
	content := encoded(t, image.NewGray(image.Rect(0, 0, 2, 2)))
	// width and height stand at 16 and 20 of a PNG file, the header's checksum at 29
	copy(content[16:], []byte{0, 0x10, 0, 0, 0, 0x10, 0, 0})
	binary.BigEndian.PutUint32(content[29:], crc32.ChecksumIEEE(content[12:29]))
	write(t, filepath.Join(dir, "a/1.png"), content)
	scale := configs.Transform{Kind: "scale", Width: 2, Height: 2}
	ds := open(t, configs.Reader{Type: "images", Path: dir, Transforms: []configs.Transform{scale}}, Train)
	b := newBatch(ds, 1)
	fails(t, ds.Fill([]Sample{{}}, &b), dir, "DIR/a/1.png: 1048576x1048576 pixels: more than 134217728 are not read: "+
		"mend or remove it, or set reader.onError: skip")
}
