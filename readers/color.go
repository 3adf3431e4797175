package readers

import (
	"gotrain/configs"
)

// luma is the gray value of a color by ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B, rounded.
func luma(r, g, b uint8) uint8 {
	return uint8((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 1<<15) >> 16)
}

// convertColors carries out the color transform of a list: of a set in memory now, of files when they are decoded.
func convertColors(list []configs.Transform, s *set) error {
	for i := range list {
		f := &list[i]
		if f.Kind != "color" {
			continue
		}
		want := map[string]int{"gray": 1, "rgb": 3}[f.Color]
		switch {
		case want == 0:
			return configs.Errors{fault(i, f, "no color %q: use gray or rgb", f.Color)}
		case want == s.c:
		case s.files != nil:
			s.c = want
		case s.pixels == nil || s.c != 1 && s.c != 3:
			return configs.Errors{fault(i, f, "samples of %d channels of numbers have no rule that makes them %s", s.c, f.Color)}
		case want == 1:
			s.toGray()
		default:
			s.toRGB()
		}
	}
	return nil
}

func (s *set) toGray() {
	plane := s.h * s.w
	gray := make([]byte, len(s.pixels)/3)
	for n := range s.labels {
		in, out := s.pixels[n*3*plane:(n+1)*3*plane], gray[n*plane:(n+1)*plane]
		for i := range out {
			out[i] = luma(in[i], in[plane+i], in[2*plane+i])
		}
	}
	s.pixels, s.c = gray, 1
}

func (s *set) toRGB() {
	plane := s.h * s.w
	rgb := make([]byte, 0, len(s.pixels)*3)
	for n := range s.labels {
		gray := s.pixels[n*plane : (n+1)*plane]
		rgb = append(append(append(rgb, gray...), gray...), gray...)
	}
	s.pixels, s.c = rgb, 3
}
