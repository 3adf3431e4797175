package readers

import (
	"math"
	"slices"
	"testing"

	"gotrain/configs"
)

// numberSet is a set in memory whose pixel i has the value i+1.
func numberSet(c, h, w int) *set {
	s := &set{path: "numbers", c: c, h: h, w: w, labels: []int32{0}, classes: []string{"a"}}
	for i := range c * h * w {
		s.pixels = append(s.pixels, byte(i+1))
	}
	return s
}

func transformed(t *testing.T, s *set, split Split, sample Sample, list ...configs.Transform) []float32 {
	t.Helper()
	tr, err := compile(list, split, s)
	if err != nil {
		t.Fatal(err)
	}
	return get(t, &dataset{set: s, t: tr, split: split}, sample).Images
}

func TestPaddedCropAndFlip(t *testing.T) {
	crop := configs.Transform{Kind: "crop", CropType: "padded", Padding: 2}
	flip := configs.Transform{Kind: "flip", Flip: "horizontal"}
	tests := []struct {
		name   string
		sample Sample
		list   []configs.Transform
		want   []float32
	}{
		{"in the middle", Sample{}, []configs.Transform{crop},
			[]float32{1, 2, 3, 4, 5, 6}},
		{"below and right", Sample{Y: 1, X: 1}, []configs.Transform{crop},
			[]float32{5, 6, 0, 0, 0, 0}},
		{"above and left", Sample{Y: -1, X: -2}, []configs.Transform{crop},
			[]float32{0, 0, 0, 0, 0, 1}},
		{"outside", Sample{Y: 2}, []configs.Transform{crop},
			[]float32{0, 0, 0, 0, 0, 0}},
		{"flipped after the crop", Sample{Y: 1, X: 1, Flip: true}, []configs.Transform{crop, flip},
			[]float32{0, 6, 5, 0, 0, 0}},
		{"padding is raw black before normalize", Sample{X: 2}, []configs.Transform{crop,
			{Kind: "normalize", Mean: []float64{1}, Std: []float64{2}}},
			[]float32{1, -0.5, -0.5, 2.5, -0.5, -0.5}},
		{"padding is zero after normalize", Sample{X: 2}, []configs.Transform{
			{Kind: "normalize", Mean: []float64{1}, Std: []float64{2}}, crop},
			[]float32{1, 0, 0, 2.5, 0, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bytes := numberSet(1, 2, 3)
			if got := transformed(t, bytes, Train, test.sample, test.list...); !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
			numbers := numberSet(1, 2, 3)
			for _, p := range numbers.pixels {
				numbers.values = append(numbers.values, float32(p))
			}
			numbers.pixels = nil
			if got := transformed(t, numbers, Train, test.sample, test.list...); !slices.Equal(got, test.want) {
				t.Errorf("as numbers: %v, want %v", got, test.want)
			}
		})
	}
}

func TestPaddingLargerThanThePicture(t *testing.T) {
	crop := configs.Transform{Kind: "crop", CropType: "padded", Padding: 9}
	for _, x := range []int16{-9, 9, 4, -4} {
		if got := transformed(t, numberSet(1, 2, 3), Train, Sample{X: x}, crop); !slices.Equal(got, make([]float32, 6)) {
			t.Errorf("moved by %d: %v, want nothing of the picture", x, got)
		}
	}
}

func TestPlanStaysWithinThePadding(t *testing.T) {
	s := numberSet(1, 2, 3)
	tr, err := compile(cifarTransforms[:2], Train, s)
	if err != nil {
		t.Fatal(err)
	}
	ds := &dataset{set: s, t: tr}
	seen := map[[2]int16]int{}
	for sweep := range int64(5000) {
		p := ds.Plan(1, sweep, 0)
		seen[[2]int16{p.Y, p.X}]++
	}
	if len(seen) != 81 {
		t.Errorf("%d offsets, want 81", len(seen))
	}
	for at := range seen {
		if at[0] < -4 || at[0] > 4 || at[1] < -4 || at[1] > 4 {
			t.Errorf("offset %v", at)
		}
	}
	if ds.Plan(1, 0, 0) != ds.Plan(1, 0, 0) || ds.Plan(1, 0, 0) == ds.Plan(2, 0, 0) || ds.Plan(1, 0, 0) == ds.Plan(1, 0, 1) {
		t.Error("a plan is not given by seed, sweep and sample")
	}
}

func TestTestSplitIsNotAugmented(t *testing.T) {
	s := numberSet(1, 2, 3)
	tr, err := compile(cifarTransforms[:2], Test, s)
	if err != nil {
		t.Fatal(err)
	}
	ds := &dataset{set: s, t: tr, split: Test}
	for sweep := range int64(50) {
		if p := ds.Plan(1, sweep, 0); p.X != 0 || p.Y != 0 || p.Flip {
			t.Fatalf("plan %v", p)
		}
	}
}

func TestNormalizeGivesEachChannelItsOwn(t *testing.T) {
	got := transformed(t, numberSet(3, 1, 2), Train, Sample{},
		configs.Transform{Kind: "mean", Mean: []float64{1}},
		configs.Transform{Kind: "normalize", Mean: []float64{0, 1, 2}, Std: []float64{1, 2, 4}})
	if want := []float32{0, 1, 0.5, 1, 0.5, 0.75}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestSideCrop(t *testing.T) {
	center := configs.Transform{Kind: "crop", CropType: "center", SideRatio: [2]float64{0.5, 0.5}}
	got := transformed(t, numberSet(1, 4, 6), Train, Sample{}, center)
	if want := []float32{9, 10, 15, 16}; !slices.Equal(got, want) {
		t.Errorf("center: %v, want %v", got, want)
	}
	random := configs.Transform{Kind: "crop", CropType: "randomSide", SideRatio: [2]float64{0.5, 0.5}, Jitter: "uniRatio"}
	got = transformed(t, numberSet(1, 4, 6), Test, Sample{Key: 5}, random)
	if want := []float32{9, 10, 15, 16}; !slices.Equal(got, want) {
		t.Errorf("random side of the test set: %v, want the center %v", got, want)
	}
	first := map[float32]bool{}
	for key := range uint64(500) {
		got = transformed(t, numberSet(1, 4, 6), Train, Sample{Key: key}, random)
		if got[1] != got[0]+1 || got[2] != got[0]+6 {
			t.Fatalf("%v is not a part of the picture", got)
		}
		first[got[0]] = true
	}
	if len(first) != 3*5 {
		t.Errorf("%d places, want 15", len(first))
	}
}

func TestRandomSideDrawsTheSide(t *testing.T) {
	c := sideCrop{least: 0.25, greatest: 1, random: true}
	count := map[int]int{}
	for key := range uint64(4000) {
		y, x, side := c.draw(8, 12, key)
		if y < 0 || x < 0 || y+side > 8 || x+side > 12 {
			t.Fatalf("square of %d at (%d, %d)", side, y, x)
		}
		count[side]++
	}
	for side := 2; side < 8; side++ { // each is a sixth
		if n := count[side]; n < 560 || n > 775 {
			t.Errorf("side %d drawn %d times of 4000", side, n)
		}
	}
}

func TestScale(t *testing.T) {
	s := &set{path: "x", c: 3, h: 2, w: 2, labels: []int32{0}, classes: []string{"a"},
		pixels: []byte{0, 100, 0, 100, 10, 10, 30, 30, 7, 7, 7, 7}}
	near := transformed(t, s, Train, Sample{}, configs.Transform{Kind: "scale", Width: 4, Height: 2, Interpolation: "nearest"})
	want := []float32{0, 0, 100, 100, 0, 0, 100, 100, 10, 10, 10, 10, 30, 30, 30, 30, 7, 7, 7, 7, 7, 7, 7, 7}
	if !slices.Equal(near, want) {
		t.Errorf("nearest: %v, want %v", near, want)
	}
	for _, how := range []string{"linear", "cubic"} {
		got := transformed(t, s, Train, Sample{}, configs.Transform{Kind: "scale", Width: 4, Height: 2, Interpolation: how})
		if !(got[0] <= got[1] && got[1] < got[2] && got[2] <= got[3]) || got[1]+got[2] < 98 || got[1]+got[2] > 101 {
			t.Errorf("%s: row %v does not rise evenly from 0 to 100", how, got[:4])
		}
		if got[8] > got[12] || !slices.Equal(got[16:], []float32{7, 7, 7, 7, 7, 7, 7, 7}) {
			t.Errorf("%s: channels are mixed: %v", how, got)
		}
	}
}

func TestScaleAndSideCropInBothOrders(t *testing.T) {
	scale := configs.Transform{Kind: "scale", Width: 4, Height: 4, Interpolation: "nearest"}
	center := configs.Transform{Kind: "crop", CropType: "center", SideRatio: [2]float64{0.5, 0.5}}
	s := numberSet(1, 4, 4)
	if got, want := transformed(t, s, Train, Sample{}, center, scale),
		[]float32{6, 6, 7, 7, 6, 6, 7, 7, 10, 10, 11, 11, 10, 10, 11, 11}; !slices.Equal(got, want) {
		t.Errorf("crop, scale: %v, want %v", got, want)
	}
	scale.Width, scale.Height = 8, 8
	if got, want := transformed(t, s, Train, Sample{}, scale, center),
		[]float32{6, 6, 7, 7, 6, 6, 7, 7, 10, 10, 11, 11, 10, 10, 11, 11}; !slices.Equal(got, want) {
		t.Errorf("scale, crop: %v, want %v", got, want)
	}
}

func TestColorOfASetInMemory(t *testing.T) {
	s := &set{path: "x", c: 3, h: 1, w: 2, labels: []int32{0}, classes: []string{"a"}, pixels: []byte{255, 10, 0, 10, 0, 10}}
	if got := transformed(t, s, Train, Sample{}, configs.Transform{Kind: "color", Color: "gray"}); !slices.Equal(got, []float32{76, 10}) {
		t.Errorf("gray: %v, want 0.299*255 and 10", got)
	}
	if got := transformed(t, s, Train, Sample{}, configs.Transform{Kind: "color", Color: "rgb"}); !slices.Equal(got, []float32{76, 10, 76, 10, 76, 10}) {
		t.Errorf("rgb: %v", got)
	}
}

func TestResidentSetGivesWhatFillGives(t *testing.T) {
	ds := open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 3), Transforms: cifarTransforms}, Train)
	r, ok := ds.Resident()
	if !ok {
		t.Fatal("not resident")
	}
	for index := range int32(ds.Len()) {
		p := ds.Plan(1, 0, index)
		got := get(t, ds, p)
		if got.Labels[0] != r.Labels[index] {
			t.Errorf("sample %d: label %d and %d", index, got.Labels[0], r.Labels[index])
		}
		for i, v := range got.Images {
			c, y, x := i/1024, i/32%32, i%32
			if p.Flip {
				x = 31 - x
			}
			y, x = y+int(p.Y), x+int(p.X)
			want := r.Fill[c]
			if y >= 0 && y < 32 && x >= 0 && x < 32 {
				want = r.Table[c][r.Pixels[int(index)*3072+c*1024+y*32+x]]
			}
			if math.Float32bits(v) != math.Float32bits(want) {
				t.Fatalf("sample %d, value %d: %v, by hand %v", index, i, v, want)
			}
		}
	}
	for _, f := range []configs.Transform{
		{Kind: "scale", Width: 8, Height: 8},
		{Kind: "crop", CropType: "center", SideRatio: [2]float64{0.5, 0.5}},
	} {
		ds := open(t, configs.Reader{Type: "cifar10", Path: cifarFolder(t, 1), Transforms: []configs.Transform{f}}, Train)
		if _, ok := ds.Resident(); ok {
			t.Errorf("resident with %s", f.Kind)
		}
	}
}

func TestTransformsThatDoNotFit(t *testing.T) {
	crop := configs.Transform{Kind: "crop", CropType: "padded", Padding: 4}
	tests := []struct {
		name string
		list []configs.Transform
		want string
	}{
		{"means for other channels", []configs.Transform{{Kind: "normalize", Mean: []float64{1, 2}, Std: []float64{1}, Origin: "a.yaml:3:5"}},
			"a.yaml:3:5: reader.transforms[0].normalize: 2 values of mean for 3 channels: give one, or one a channel"},
		{"std of zero", []configs.Transform{{Kind: "normalize", Mean: []float64{1}, Std: []float64{0}}},
			"reader.transforms[0].normalize: mean 1, std 0: give finite numbers, and std above 0"},
		{"two crops", []configs.Transform{crop, crop},
			"reader.transforms[1].crop: a second crop: one is enough"},
		{"scale after padding", []configs.Transform{crop, {Kind: "scale", Width: 2, Height: 2}},
			"reader.transforms[1].scale: scale comes after a padded crop: put scale first"},
		{"flip after a mean file", []configs.Transform{{Kind: "mean", File: "m.xml"}, {Kind: "flip"}},
			"reader.transforms[1].flip: flip comes after the mean file: put mean last, as in CNTK"},
		{"unknown", []configs.Transform{{Kind: "rotate"}, {Kind: "scale", Width: 0, Height: 3}},
			"reader.transforms[0].rotate: no transform \"rotate\": use crop, flip, scale, mean, normalize or color\n" +
				"reader.transforms[1].scale: width 0, height 3: give 1 to 16384 pixels"},
		{"ratio", []configs.Transform{{Kind: "crop", CropType: "center", SideRatio: [2]float64{0.5, 1.5}}},
			"reader.transforms[0].crop: sideRatio 0.5 to 1.5: give ratios above 0 and at most 1, the lesser first"},
		{"side of many sizes", []configs.Transform{{Kind: "crop", CropType: "randomSide", SideRatio: [2]float64{0.5, 1}}},
			"reader.transforms: randomSide crops of several sizes: add {scale: {width: W, height: H}} after it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := compile(test.list, Train, numberSet(3, 2, 2))
			fails(t, err, "", test.want)
		})
	}
}
