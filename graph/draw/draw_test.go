package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotrain/graph"
)

var update = flag.Bool("update", false, "write the golden files of testdata")

// net compiles a small ResNet: stages of the given numbers of blocks, the first of each but the first stage's with a
// projection shortcut, built before the block so that its batch norm stays out of the main track.
func net(t *testing.T, o graph.Options, stages ...int) *graph.Plan {
	t.Helper()
	g := graph.New(graph.Float32)
	in := g.Inputs(4, 3, 8, 8)
	norm := graph.Norm{Epsilon: 1e-5, Update: 0.1, Inference: o.Inference}
	convNorm := func(name, conv, bn string, x *graph.Tensor, out, kernel, stride int) *graph.Tensor {
		return g.BatchNorm(name+bn, g.Conv(name+conv, x, out, kernel, stride, kernel/2), norm)
	}
	channels := 8
	x := g.ReLU("stem.relu", convNorm("stem.", "conv", "bn", in.Images, channels, 3, 1))
	for s, blocks := range stages {
		for b := range blocks {
			name, stride, shortcut := fmt.Sprintf("stage%d.%d.", s+1, b), 1, x
			if s > 0 && b == 0 {
				stride, channels = 2, 2*channels
				shortcut = convNorm(name+"shortcut.", "conv", "bn", x, channels, 1, stride)
			}
			y := g.ReLU(name+"relu1", convNorm(name, "conv1", "bn1", x, channels, 3, stride))
			y = convNorm(name, "conv2", "bn2", y, channels, 3, 1)
			x = g.ReLU(name+"relu", g.Add(name+"add", y, shortcut))
		}
	}
	g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", x), 10), in)
	p, err := graph.Compile(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func notes(p *graph.Plan) map[*graph.Op]string {
	m := map[*graph.Op]string{}
	for i, o := range p.Ops {
		m[o] = fmt.Sprintf("%d.5 ms", i)
	}
	return m
}

type drawer func(io.Writer, *graph.Plan, Options) error

func drawn(t *testing.T, draw drawer, p *graph.Plan, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := draw(&b, p, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGoldenDrawings(t *testing.T) {
	training := net(t, graph.Options{BucketBytes: 8 << 10}, 1, 1)
	for _, c := range []struct {
		file string
		draw drawer
		plan *graph.Plan
		o    Options
	}{
		{"training.txt", Text, training, Options{}},
		{"training.svg", SVG, training, Options{Title: "A small network"}},
		{"training.dot", DOT, training, Options{}},
		{"notes.txt", Text, training, Options{Notes: notes(training)}},
		{"inference.txt", Text, net(t, graph.Options{Inference: true}, 1, 1), Options{}},
	} {
		t.Run(c.file, func(t *testing.T) {
			got, file := drawn(t, c.draw, c.plan, c.o), filepath.Join("testdata", c.file)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			wants := strings.Split(string(want), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(wants) || line != wants[i] {
					t.Fatalf("the drawing is another than %s from line %d on; write it with -update, and look at it. The line is\n%s", file, i+1, line)
				}
			}
			if len(got) != len(want) {
				t.Errorf("the drawing ends before %s does", file)
			}
		})
	}
}

func TestEqualPlansGiveEqualBytes(t *testing.T) {
	for name, draw := range map[string]drawer{"text": Text, "svg": SVG, "dot": DOT} {
		o := graph.Options{BucketBytes: 8 << 10, NoFusion: true}
		want := drawn(t, draw, net(t, o, 2, 5), Options{})
		for range 10 {
			if got := drawn(t, draw, net(t, o, 2, 5), Options{}); got != want {
				t.Fatalf("%s: two drawings of one plan differ", name)
			}
		}
	}
}

func TestSVGIsWellFormedWhateverItsTexts(t *testing.T) {
	for _, o := range []graph.Options{{}, {Inference: true}, {NoFusion: true}, {BucketBytes: 1}} {
		p := net(t, o, 2, 2)
		svg := drawn(t, SVG, p, Options{Title: `<&>"'`, Notes: map[*graph.Op]string{p.Ops[0]: `<&>"'`}})
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%+v: the drawing has coordinates that are no numbers", o)
		}
	}
}

func TestSVGShowsEveryOperationAndNote(t *testing.T) {
	for _, o := range []graph.Options{{}, {Inference: true}, {NoFusion: true}, {BucketBytes: 1}} {
		p := net(t, o, 3, 2)
		svg := drawn(t, SVG, p, Options{Notes: notes(p)})
		for i, op := range p.Ops {
			if op.Phase != graph.Updating {
				title := fmt.Sprintf("<title>%s: %s (%s)\n", op.Name, escape(plain.operation(op)), op.Phase)
				if n := strings.Count(svg, title); n != 1 {
					t.Errorf("%+v: %s of %s is drawn %d times", o, op.Kind, op.Name, n)
				}
			}
			if !strings.Contains(svg, fmt.Sprintf(">%d.5 ms<", i)) {
				t.Errorf("%+v: the note of %s of %s is missing", o, op.Kind, op.Name)
			}
		}
	}
}

func TestDOTPassesGraphviz(t *testing.T) {
	dot, err := exec.LookPath("dot")
	if err != nil {
		t.Skip("Graphviz's dot is not installed")
	}
	for _, o := range []graph.Options{{}, {Inference: true}, {NoFusion: true}} {
		c := exec.Command(dot, "-Tsvg")
		c.Stdin = strings.NewReader(drawn(t, DOT, net(t, o, 1, 1), Options{Title: "back\\slash and \"quotes\""}))
		var out, fault bytes.Buffer
		c.Stdout, c.Stderr = &out, &fault
		if err := c.Run(); err != nil {
			t.Fatalf("%+v: %v: %s", o, err, fault.String())
		}
		if !strings.Contains(out.String(), `back\slash and &quot;quotes&quot;`) {
			t.Errorf("%+v: the title did not arrive in the picture", o)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrorsAreReturned(t *testing.T) {
	p := net(t, graph.Options{}, 1)
	for name, draw := range map[string]drawer{"text": Text, "svg": SVG, "dot": DOT} {
		if err := draw(broken{}, p, Options{}); err == nil || err.Error() != "no space left" {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestNumbersInWords(t *testing.T) {
	for n, want := range map[int]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 8388736: "8.0 MiB", 100 << 20: "100 MiB",
		1<<20 - 1: "1.0 MiB", 5 << 40: "5.0 TiB", 3 << 50: "3072 TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 FLOP", 999: "999 FLOP", 1000: "1.0 kFLOP", 603979776: "604 MFLOP", 999_999: "1.0 MFLOP"} {
		if got := arithmetic(n); got != want {
			t.Errorf("arithmetic(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 272474: "272,474", 1727962: "1,727,962"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestSynchronizedBatchNormsAreNamed(t *testing.T) {
	g := graph.New(graph.Float32)
	in := g.Inputs(4, 3, 8, 8)
	x := g.ReLU("relu", g.BatchNorm("bn", g.Conv("conv", in.Images, 8, 3, 1, 1), graph.Norm{Sync: true}))
	g.Loss(g.Dense("fc", g.GlobalAveragePool("pool", x), 10), in)
	p, err := graph.Compile(g, graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		draw            drawer
		forward, behind string
	}{
		{Text, "sync batch norm + relu ", "relu backward + sync batch norm backward "},
		{SVG, "sync batch norm + relu<", "relu ∂ + sync batch norm ∂<"},
		{DOT, `\nsync batch norm + relu\n`, `\nrelu backward + sync batch norm backward\n`},
	} {
		got := drawn(t, c.draw, p, Options{})
		if strings.Count(got, c.forward) != 1 || strings.Count(got, c.behind) != 1 {
			t.Errorf("the drawing lacks %q or %q:\n%s", c.forward, c.behind, got)
		}
	}
}
