package draw

import (
	"strings"
	"testing"
)

// twoDevices exchange a gradient that one of them has made.
var twoDevices = []Work{
	{0, 0, "exchange", "flags", nil},
	{0, 0, "compute", "fc: dense <backward>", nil},
	{1, 1, "compute", "fc: dense", nil},
	{0, 0, "exchange", "bucket 0: encode", []int{0, 1}},
	{1, 1, "exchange", "bucket 0: decode", []int{3, 2}},
}

func TestStreamsAsATable(t *testing.T) {
	var b strings.Builder
	if err := StreamsText(&b, twoDevices); err != nil {
		t.Fatal(err)
	}
	want := `work  device  worker  stream    what                  waits for
   0       0       0  exchange  flags
   1       0       0  compute   fc: dense <backward>
   2       1       1  compute   fc: dense
   3       0       0  exchange  bucket 0: encode      1
   4       1       1  exchange  bucket 0: decode      3 2
`
	if b.String() != want {
		t.Errorf("is\n%s, want\n%s", b.String(), want)
	}
}

func TestStreamsForGraphviz(t *testing.T) {
	var b strings.Builder
	if err := StreamsDOT(&b, twoDevices); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`label="device 0, worker 0, compute"`, `label="device 1, worker 1, exchange"`, `op3 -> op4;`, `op1 -> op3;`} {
		if strings.Count(b.String(), part) != 1 {
			t.Errorf("%s is not in it once:\n%s", part, b.String())
		}
	}
}

func TestStreamsAsAPicture(t *testing.T) {
	var b strings.Builder
	if err := StreamsSVG(&b, twoDevices, "a & b"); err != nil {
		t.Fatal(err)
	}
	for part, times := range map[string]int{"<rect": 1 + 5, "<line": 3, "a &amp; b": 1, "fc: dense &lt;backward&gt;": 2,
		`<text x="16" y="48" font-weight="bold">device 0, worker 0, compute</text>`: 1} {
		if n := strings.Count(b.String(), part); n != times {
			t.Errorf("%s is in it %d times, want %d:\n%s", part, n, times, b.String())
		}
	}
}
