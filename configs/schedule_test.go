package configs

import (
	"reflect"
	"testing"
)

func TestSchedulesHoldByEpochAndTheLastValueRepeats(t *testing.T) {
	p, err := ParsePerEpoch("1.0*80:0.1*40:0.01")
	if err != nil {
		t.Fatal(err)
	}
	for epoch, want := range map[int]float64{0: 1, 79: 1, 80: 0.1, 119: 0.1, 120: 0.01, 159: 0.01, 100000: 0.01} {
		if got := p.At(epoch); got != want {
			t.Errorf("epoch %d: %v, not %v", epoch, got, want)
		}
	}
	if p, _ := ParsePerEpoch("0.5"); p.At(0) != 0.5 || p.At(7) != 0.5 {
		t.Error(p)
	}
	if p, _ := ParsePerEpoch("3:2:1"); p.At(0) != 3 || p.At(1) != 2 || p.At(2) != 1 || p.At(3) != 1 {
		t.Error(p)
	}
	if (PerEpoch{}).At(3) != 0 || (PerEpoch{}).Set() {
		t.Error("the empty schedule is not 0")
	}
	if b, _ := parseBits("32*1:1"); b.At(0) != 32 || b.At(1) != 1 || b.At(9) != 1 {
		t.Error(b)
	}
	if b, _ := parseBits("auto"); !b.Auto || b.At(0) != 0 {
		t.Error(b)
	}
}

func TestTheTextOfAScheduleGivesTheSameSchedule(t *testing.T) {
	for text, want := range map[string]string{
		"1.0*80:0.1*40:0.01": "1*80:0.1*40:0.01",
		"0.1*1:1.0*80:0.1":   "0.1:1*80:0.1",
		"1e-4*2:.5":          "0.0001*2:0.5",
		"0.00001":            "1e-05",
		"3*5":                "3*5",
	} {
		p, err := ParsePerEpoch(text)
		if err != nil || p.String() != want {
			t.Errorf("%s gives %s (%v), not %s", text, p, err, want)
		}
		if q, err := ParsePerEpoch(p.String()); err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%s: %v, %v", text, q, err)
		}
	}
}

func TestTextThatIsNoScheduleSaysWhichPart(t *testing.T) {
	for text, want := range map[string]string{
		"":              `"" is not a number`,
		"1:":            `"" is not a number`,
		"1*0":           `"0" is not a number of epochs`,
		"1*-2":          `"-2" is not a number of epochs`,
		"1*2*3":         `"2*3" is not a number of epochs`,
		"1*":            `"" is not a number of epochs`,
		"a*2":           `"a" is not a number`,
		"1 : 2":         `"1 " is not a number`,
		"inf":           `"inf" is not a number`,
		".inf":          `".inf" is not a finite number`,
		"1e400":         `"1e400" is not a finite number`,
		"1*99999999999": `"99999999999" is not a number of epochs`,
	} {
		if _, err := ParsePerEpoch(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}
