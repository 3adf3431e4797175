package readers

import (
	"fmt"
	"math"

	"golang.org/x/image/draw"

	"gotrain/configs"
)

// transforms is a compiled list of transforms. A picture passes, in this order and each where asked for,
//
//	side crop -> scale, or scale -> side crop; padded crop; flip; a function of each value; minus a mean picture
//
// Color conversion happens before, where pictures are decoded or, for sets in memory, once when they are opened.
type transforms struct {
	c, h, w int // of the result

	side       *sideCrop
	scale      draw.Interpolator // nil: none
	scaleFirst bool
	sw, sh     int // what scale makes

	padding int
	flip    bool

	affine  []affine       // [C]
	table   [][256]float32 // [C]: affine of every byte
	outside []float32      // [C]: a padding pixel
	mean    []float32      // [C][H][W], subtracted last; or nil
}

// affine is the function v -> a*v + b.
type affine struct{ a, b float64 }

func (f affine) of(v float64) float32 { return float32(f.a*v + f.b) }

// sideCrop is CNTK's crop: a square whose side is a part of the picture's shorter side.
type sideCrop struct {
	least, greatest float64
	random          bool // where it lies and, between least and greatest, how large it is
}

// draw chooses the square in a picture of h rows of w pixels.
func (c *sideCrop) draw(h, w int, key uint64) (y, x, side int) {
	if !c.random {
		side = c.length(c.greatest, h, w)
		return (h - side) / 2, (w - side) / 2, side
	}
	r := random(key)
	side = c.length(c.least+(c.greatest-c.least)*r.float64(), h, w)
	y = r.intn(h - side + 1)
	x = r.intn(w - side + 1)
	return y, x, side
}

func (c *sideCrop) length(ratio float64, h, w int) int {
	return max(1, int(float64(min(h, w))*ratio))
}

// compile checks a list of transforms against a set and makes it ready. It converts the colors of a set in memory.
func compile(list []configs.Transform, split Split, s *set) (*transforms, error) {
	if err := convertColors(list, s); err != nil {
		return nil, err
	}
	t := &transforms{c: s.c, h: s.h, w: s.w, affine: make([]affine, s.c)}
	for c := range t.affine {
		t.affine[c].a = 1
	}
	seen := map[string]bool{}
	var meanFile *configs.Transform
	var meanScale []float64 // of each channel, from the mean picture on
	padded := make([]affine, s.c)
	var bad configs.Errors
	for i := range list {
		f := &list[i]
		if seen[f.Kind] && f.Kind != "mean" && f.Kind != "normalize" {
			bad = append(bad, fault(i, f, "a second %s: one is enough", f.Kind))
			continue
		}
		seen[f.Kind] = true
		if meanFile != nil && (f.Kind == "crop" || f.Kind == "scale" || f.Kind == "flip") {
			bad = append(bad, fault(i, f, "%s comes after the mean file: put mean last, as in CNTK", f.Kind))
			continue
		}
		var err error
		switch f.Kind {
		case "color":
		case "crop":
			err = t.addCrop(f, split, s)
			copy(padded, t.affine)
		case "scale":
			err = t.addScale(f, s)
		case "flip":
			t.flip = split == Train
		case "mean":
			if f.File != "" {
				if meanFile != nil {
					err = fmt.Errorf("a second mean file: one is enough")
				}
				meanFile = f
				meanScale = make([]float64, s.c)
				for c := range meanScale {
					meanScale[c] = 1
				}
				break
			}
			err = t.addAffine(f.Mean, nil, meanScale)
		case "normalize":
			err = t.addAffine(f.Mean, f.Std, meanScale)
		default:
			err = fmt.Errorf("no transform %q: use crop, flip, scale, mean, normalize or color", f.Kind)
		}
		if err != nil {
			bad = append(bad, fault(i, f, "%v", err))
		}
	}
	if len(bad) > 0 {
		return nil, bad
	}
	if t.h == 0 && s.h > 0 {
		return nil, wrong("reader.transforms", "randomSide crops of several sizes: add {scale: {width: W, height: H}} after it")
	}
	if t.h == 0 {
		return nil, fmt.Errorf("%s: pictures of several sizes: add {scale: {width: W, height: H}} to reader.transforms", s.path)
	}
	if meanFile != nil {
		m, note, err := readMean(meanFile.File, t.c, t.h, t.w)
		if err != nil {
			return nil, fmt.Errorf("reader.transforms: mean: %w", err)
		}
		if note != "" {
			s.notes = append(s.notes, note)
		}
		for c, plane := 0, t.h*t.w; c < t.c; c++ {
			for i := range plane {
				m[c*plane+i] *= float32(meanScale[c])
			}
		}
		t.mean = m
	}
	t.tabulate(padded)
	return t, nil
}

// fault is something wrong with a transform, at the place where it was written.
func fault(i int, f *configs.Transform, format string, args ...any) *configs.Error {
	return &configs.Error{Pos: f.Origin, Key: fmt.Sprintf("reader.transforms[%d].%s", i, f.Kind), Message: fmt.Sprintf(format, args...)}
}

func (t *transforms) addCrop(f *configs.Transform, split Split, s *set) error {
	switch f.CropType {
	case "padded", "":
		if f.Padding < 0 || f.Padding > 1000 {
			return fmt.Errorf("padding %d: give 0 to 1000 pixels", f.Padding)
		}
		if split == Train {
			t.padding = f.Padding
		}
		return nil
	case "randomSide", "center":
		least, greatest := f.SideRatio[0], f.SideRatio[1]
		if greatest == 0 {
			greatest = least
		}
		if least <= 0 || greatest > 1 || least > greatest {
			return fmt.Errorf("sideRatio %v to %v: give ratios above 0 and at most 1, the lesser first", least, greatest)
		}
		if s.values != nil {
			return fmt.Errorf("%s: samples of a text file are cropped with padding only", f.CropType)
		}
		t.side = &sideCrop{least, greatest, f.CropType == "randomSide" && split == Train}
		if f.Jitter == "none" {
			t.side.least = greatest
		}
		t.scaleFirst = t.scale != nil
		side := 0
		if t.h > 0 && (!t.side.random || t.side.least == greatest) {
			side = t.side.length(greatest, t.h, t.w)
		}
		t.h, t.w = side, side
		return nil
	}
	return fmt.Errorf("no crop type %q: use padded, randomSide or center", f.CropType)
}

func (t *transforms) addScale(f *configs.Transform, s *set) error {
	if s.values != nil {
		return fmt.Errorf("samples of a text file cannot be scaled")
	}
	if t.padding > 0 {
		return fmt.Errorf("scale comes after a padded crop: put scale first")
	}
	if f.Width < 1 || f.Height < 1 || f.Width > 1<<14 || f.Height > 1<<14 {
		return fmt.Errorf("width %d, height %d: give 1 to 16384 pixels", f.Width, f.Height)
	}
	switch f.Interpolation {
	case "nearest":
		t.scale = draw.NearestNeighbor
	case "linear", "":
		t.scale = draw.ApproxBiLinear
	case "cubic":
		t.scale = draw.CatmullRom
	default:
		return fmt.Errorf("no interpolation %q: use nearest, linear or cubic", f.Interpolation)
	}
	t.sw, t.sh = f.Width, f.Height
	t.h, t.w = f.Height, f.Width
	return nil
}

// addAffine appends (v - mean) / std to each channel's function, and its slope to after, where that is not nil.
func (t *transforms) addAffine(mean, std, after []float64) error {
	at := func(name string, list []float64, c int, none float64) (float64, error) {
		switch len(list) {
		case 0:
			return none, nil
		case 1:
			return list[0], nil
		case t.c:
			return list[c], nil
		}
		return 0, fmt.Errorf("%d values of %s for %d channels: give one, or one a channel", len(list), name, t.c)
	}
	for c := range t.affine {
		m, err := at("mean", mean, c, 0)
		if err != nil {
			return err
		}
		d, err := at("std", std, c, 1)
		if err != nil {
			return err
		}
		if !(d > 0) || math.IsInf(d, 0) || math.IsNaN(m) || math.IsInf(m, 0) {
			return fmt.Errorf("mean %v, std %v: give finite numbers, and std above 0", m, d)
		}
		t.affine[c].a /= d
		t.affine[c].b = (t.affine[c].b - m) / d
		if after != nil {
			after[c] /= d
		}
	}
	return nil
}

// tabulate computes what every byte becomes. before are the functions as they were when the picture was padded: the
// padding is 0 at that place of the list, so that with the usual order (crop, then normalize) it is raw black.
func (t *transforms) tabulate(before []affine) {
	t.table = make([][256]float32, t.c)
	t.outside = make([]float32, t.c)
	for c, f := range t.affine {
		for v := range t.table[c] {
			t.table[c][v] = f.of(float64(v))
		}
		raw := 0.0
		if before[c].a != 0 {
			raw = -before[c].b / before[c].a
		}
		t.outside[c] = f.of(raw)
	}
}

// tabular reports whether a padded crop, a flip and the table are all there is.
func (t *transforms) tabular() bool { return t.side == nil && t.scale == nil && t.mean == nil }
