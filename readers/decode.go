package readers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	_ "image/png" // registers the decoder
	"io"
	"os"
)

// greatestPicture limits what a damaged or hostile header can make the decoder allocate.
const greatestPicture = 1 << 27 // pixels

// decode reads a JPEG or PNG file as a picture of c channels of 8 bits, 1 (gray) or 3 (red, green, blue). The rules:
//
//   - 16 bits a channel are rounded to 8;
//   - a palette is expanded;
//   - transparency is laid over black;
//   - CMYK becomes RGB as (1-C)(1-K) and so on;
//   - gray becomes RGB as three equal channels, color becomes gray by luma;
//   - an orientation that a camera noted (Exif) and a color profile are ignored.
func decode(path string, c int, buf *buffers) (picture, error) {
	if err := load(path, buf); err != nil {
		return picture{}, err
	}
	h, err := header(bytes.NewReader(buf.file.Bytes()))
	if err != nil {
		return picture{}, err
	}
	img, _, err := image.Decode(bytes.NewReader(buf.file.Bytes()))
	if err != nil {
		return picture{}, fmt.Errorf("decode a picture of %dx%d pixels: %w", h.Width, h.Height, cause(err))
	}
	return convert(img, c, buf), nil
}

// dimensions reads the width and height of a picture file from its header.
func dimensions(path string) ([2]int, error) {
	if err := regular(path); err != nil {
		return [2]int{}, cause(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return [2]int{}, cause(err)
	}
	defer f.Close()
	c, err := header(bufio.NewReader(f))
	return [2]int{c.Width, c.Height}, err
}

func load(path string, buf *buffers) error {
	if err := regular(path); err != nil {
		return cause(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return cause(err)
	}
	defer f.Close()
	buf.file.Reset()
	_, err = buf.file.ReadFrom(f)
	return cause(err)
}

func header(r io.Reader) (image.Config, error) {
	c, _, err := image.DecodeConfig(r)
	if err != nil {
		return c, cause(err)
	}
	if c.Width*c.Height > greatestPicture {
		return c, fmt.Errorf("%dx%d pixels: more than %d are not read", c.Width, c.Height, greatestPicture)
	}
	return c, nil
}

// cause turns what decoders and the file system say into what it means for a picture whose path stands before it.
func cause(err error) error {
	var path *os.PathError
	var format jpeg.FormatError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("the file ends too early")
	case errors.As(err, &format) && format == "short Huffman data": // how image/jpeg sees most truncated files
		return errors.New("the file ends too early")
	case errors.Is(err, image.ErrFormat):
		return errors.New("neither JPEG nor PNG")
	case errors.As(err, &path):
		return path.Err
	}
	return err
}

// convert makes a picture of c channels out of any image.
func convert(img image.Image, c int, buf *buffers) picture {
	b := img.Bounds()
	p := picture{h: b.Dy(), w: b.Dx()}
	if gray, ok := img.(*image.Gray); ok && c == 1 {
		p.row, p.step, p.pixels = gray.Stride, 1, gray.Pix
		return p
	}
	rgba := &image.RGBA{Pix: sized(&buf.decoded, p.h*p.w*4), Stride: p.w * 4, Rect: image.Rect(0, 0, p.w, p.h)}
	switch img.(type) {
	case *image.Gray16, *image.RGBA64, *image.NRGBA64:
		round(rgba, img)
	default:
		// Colors are multiplied by their alpha on the way, which is what laying them over black means.
		draw.Draw(rgba, rgba.Rect, img, b.Min, draw.Src)
	}
	for i := 0; i < len(rgba.Pix); i += 4 {
		q := rgba.Pix[i : i+4 : i+4]
		if c == 1 {
			q[0] = luma(q[0], q[1], q[2])
		}
		q[3] = 0xff
	}
	p.plane, p.row, p.step, p.pixels = 1, rgba.Stride, 4, rgba.Pix
	return p
}

// round copies an image of 16 bits a channel, each rounded to 8.
func round(dst *image.RGBA, src image.Image) {
	b := src.Bounds()
	to8 := func(v uint32) uint8 { return uint8((v*0xff + 0x7fff) / 0xffff) }
	for y := range b.Dy() {
		for x := range b.Dx() {
			r, g, bl, _ := src.At(b.Min.X+x, b.Min.Y+y).RGBA()
			dst.SetRGBA(x, y, color.RGBA{to8(r), to8(g), to8(bl), 0xff})
		}
	}
}
