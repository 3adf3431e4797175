package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// A mutant is a kernel with one instruction less: a barrier, or the test by which a source line leaves the kernel.
type mutant struct {
	kernel string
	head   string
	lines  []string // of this kernel only
	tail   string
	what   string // such as norm.cu:72: bar.sync 0;
	source string // such as norm.cu:72
}

func (m mutant) ptx() []byte {
	return []byte(m.head + "\n" + strings.Join(m.lines, "\n") + "\n" + m.tail + "\n")
}

var (
	tiled    = regexp.MustCompile(`_\d+x\d+$`)
	header   = regexp.MustCompile(`(?s)\A.*?\.address_size 64\n`)
	fileLine = regexp.MustCompile(`(?m)^\s*\.file\s.*$`)
	location = regexp.MustCompile(`^\s*\.loc\s+(\d+) (\d+) `)
	fileOf   = regexp.MustCompile(`^\s*\.file\s+(\d+) "([^"]*)"`)
	forward  = regexp.MustCompile(`^\s*@!?%p\d+ bra\s+(\$\w+);`)
)

// mutants makes all mutants of a file.
func mutants(s kernels.Source) (all []mutant) {
	text := string(s.PTX)
	head := header.FindString(text)
	files := map[string]string{}
	for _, f := range fileLine.FindAllString(text, -1) {
		if m := fileOf.FindStringSubmatch(f); m != nil {
			files[m[1]] = m[2][strings.LastIndexByte(m[2], '/')+1:]
		}
	}
	declared := strings.Join(regexp.MustCompile(`(?m)^\.(extern|global|const|shared).*;$`).FindAllString(text, -1), "\n")
	for _, name := range s.Kernels {
		if tile := tiled.FindString(name); tile != "" && !slices.Contains([]string{"_128x16", "_64x64", "_16x64"}, tile) {
			continue // of the convolutions' tiles, which are templates, one that sums parts and one that does not
		}
		start := strings.Index(text, ".visible .entry "+name+"(")
		length := strings.Index(text[start:], "\n}\n") + 3
		lines := strings.Split(text[start:start+length], "\n")
		branches := map[string]int{} // the mutant that lacks a source line's branches: unrolled, a bounds test is several
		source := ""
		for i, line := range lines {
			if m := location.FindStringSubmatch(line); m != nil && m[2] != "0" {
				source = files[m[1]] + ":" + m[2]
			}
			barrier := strings.Contains(line, "bar.sync")
			if !barrier && !leaves(lines, i) {
				continue
			}
			if at, ok := branches[source]; ok && !barrier {
				silence(all[at].lines, line)
				continue
			}
			without := slices.Clone(lines)
			if without[i] = "// " + line; !barrier {
				silence(without, line)
				branches[source] = len(all)
			}
			all = append(all, mutant{name, head + declared, without, strings.Join(fileLine.FindAllString(text, -1), "\n"), source + ": " + strings.TrimSpace(line), source})
		}
	}
	return all
}

// silence takes all branches by the predicate of one away: a test that was made once may serve several times.
func silence(lines []string, branch string) {
	predicate := strings.Fields(branch)[0]
	for i, line := range lines {
		if f := strings.Fields(line); len(f) > 1 && f[0] == predicate && f[1] == "bra" {
			lines[i] = "// " + line
		}
	}
}

// leaves says whether a line is a branch that leaves the kernel, as what is outside of it does.
func leaves(lines []string, i int) bool {
	m := forward.FindStringSubmatch(lines[i])
	if m == nil {
		return false
	}
	for k := range lines {
		if lines[k] != m[1]+":" {
			continue
		}
		for k++; k < len(lines); k++ {
			l := strings.TrimSpace(lines[k])
			if l == "" || strings.HasPrefix(l, "//") || strings.HasPrefix(l, ".loc") || strings.HasPrefix(l, "$L__tmp") {
				continue
			}
			return l == "ret;"
		}
	}
	return false
}

// convolutions makes launches that run a kernel of the convolutions, and what it needs before.
func convolutions(d *device, kernel string) (all []driver.Launch) {
	c, m := kernels.ConvShape{N: 2, H: 9, W: 8, C: 20, K: 70, Kernel: 3, Stride: 2, Pad: 1}, kernels.FFMA
	for _, other := range maths {
		if strings.Contains(kernel, "_"+other.String()) {
			m = other
		}
	}
	k := newConvCase(d, c, m)
	k.packed = d.room(c.PackedBytes(m))
	convs := []kernels.PackedConv{{Shape: c, Weights: k.operands["weight"], Packed: k.packed}}
	all = append(all, d.PackWeights(m, convs, d.put(kernels.PackTable(convs))))
	x, dy := k.operands["x"], k.operands["dy"]
	switch {
	case strings.HasPrefix(kernel, "conv_forward"):
		all = append(all, d.ConvForwards(c, m, x, k.packed, d.room(kernels.ActivationBytes(k.ys, graph.Float32)))...)
	case strings.HasPrefix(kernel, "conv_backward_data"):
		all = append(all, d.ConvBackwardDatas(c, m, dy, k.packed, d.room(kernels.ActivationBytes(k.xs, k.x)))...)
	case !strings.HasPrefix(kernel, "conv_pack"):
		for _, l := range d.SplitWeights(c, m, x, dy, d.room(4*len(k.dw)), d.room(c.SplitScratch())) {
			all = append(all, l...)
		}
	}
	return all
}

// scenario makes launches that run a kernel and those that it needs before, on sizes that leave blocks half full.
func scenario(d *device, file, kernel string) []driver.Launch {
	if strings.HasPrefix(kernel, "conv") {
		var some []driver.Launch
		for _, l := range convolutions(d, kernel) {
			if n := l.Function.Name(); n == kernel || strings.HasPrefix(n, "conv_pack") || kernel == "conv_weights_sum" {
				some = append(some, l)
			}
		}
		return some
	}
	r := rand.New(rand.NewPCG(18, 18))
	var all []driver.Launch
	add := func(l ...driver.Launch) { all = append(all, l...) }
	s := graph.Shape{5, 24, 9, 9}
	image := func(t graph.DType) driver.Pointer { return d.activation(t, s, random(r, t, s)) }
	out := func(t graph.DType) driver.Pointer { return d.room(kernels.ActivationBytes(s, t)) }
	vector := func(n int) driver.Pointer { return d.floats(normal(r, n)) }
	switch file {
	case "gather.ptx":
		plan := make([]byte, 5*kernels.SampleBytes)
		kernels.PutSamples(plan, make([]graph.Sample, 5))
		set := kernels.Resident{Pixels: d.put(make([]byte, s.Values())), Labels: d.zeros(5), Table: vector(24 * 256), Fill: vector(24)}
		planes := vector(s.Values())
		for _, t := range types {
			add(d.Gather(t, s, set, d.put(plan), out(t), d.room(20)), d.Interleave(t, s, planes, out(t)))
		}
	case "elementwise.ptx":
		for _, t := range types {
			a, b := image(t), image(t)
			add(d.ReLU(t, s, a, out(t)), d.ReLUBackward(t, s, a, b, out(t)), d.Add(t, s, a, b, out(t)))
		}
	case "norm.ptx":
		for _, t := range types {
			n := &kernels.Norm{T: t, Shape: s, X: image(graph.Float32), Gamma: vector(24), Beta: vector(24), Mean: d.room(96), InvStd: d.room(96),
				RunningMean: vector(24), RunningVar: d.floats(ones(24)), ReLU: true, Epsilon: 1e-5, Update: 0.1, Y: out(t), Addend: image(t),
				DY: []driver.Pointer{image(t), image(t)}, DX: out(t), DAddend: out(t), DGamma: d.room(96), DBeta: d.room(96),
				Scratch: d.room(kernels.NormScratch(s)), Tickets: d.zeros(kernels.NormTickets(s))}
			add(d.NormInference(n))
			f1, f2 := d.NormForward(n)
			b1, b2 := d.NormBackward(n)
			add(f1, f2, b1, b2)
			share := make([]byte, kernels.NormShare(s))
			binary.LittleEndian.PutUint64(share, math.Float64bits(2))
			n.Share = d.put(share)
			add(d.MergeMoments(n, n.Share, 1), d.MergeSums(n, n.Share, 1))
		}
	case "pool.ptx":
		pool, half := graph.Attr{Kernel: 3, Stride: 2, Pad: 1}, graph.Attr{Stride: 2}
		small, wide := graph.Shape{5, 24, 5, 5}, graph.Shape{5, 40, 5, 5}
		for _, t := range types {
			x, y, w := image(t), d.activation(t, small, random(r, t, small)), d.activation(t, wide, random(r, t, wide))
			means := vector(5 * 24)
			add(d.Subsample(t, s, wide, half, x, d.room(kernels.ActivationBytes(wide, t))), d.SubsampleBackward(t, s, wide, half, w, out(t)),
				d.MaxPool(t, s, small, pool, x, d.room(kernels.ActivationBytes(small, t))), d.MaxPoolBackward(t, s, small, pool, x, y, y, out(t)),
				d.AveragePool(t, s, x, d.room(4*5*24)), d.AveragePoolBackward(t, s, means, out(t)))
		}
	case "dense.ptx":
		x, w, b, dy := vector(33*70), vector(35*70), vector(35), vector(33*35)
		add(d.Dense(33, 70, 35, x, w, b, d.room(4*33*35)), d.DenseBackwardData(33, 70, 35, w, dy, d.room(4*33*70)),
			d.DenseBackwardWeights(33, 70, 35, x, dy, d.room(4*35*70), d.room(4*35)))
	case "loss.ptx":
		result := d.zeros(kernels.ResultBytes / 4)
		add(d.CrossEntropy(19, 33, vector(19*33), d.zeros(19), vector(19), vector(1), d.room(4*19*33), d.room(kernels.CrossEntropyScratch(19)), d.zeros(1), result))
		add(d.AddResults(d.put(binary.LittleEndian.AppendUint64(nil, uint64(result))), 1, d.room(kernels.ResultBytes)))
	case "update.ptx":
		const n = 10*1024 - 16
		result, w, g, m, v := d.zeros(kernels.ResultBytes/4), vector(n), vector(n), vector(n), vector(n)
		add(d.SumSquares(n, g, d.room(kernels.SumSquaresScratch(n)), d.zeros(1), result))
		for _, rule := range []graph.Rule{graph.SGD, graph.Momentum, graph.Adam} {
			u := make([]byte, kernels.UpdateBytes)
			kernels.PutUpdate(u, graph.Update{Rule: rule, Rate: 1, Gain: 1, Clip: 1, Step: 1})
			add(d.Update(n, d.put(u), result, w, g, m, v))
		}
	case "quantize.ptx":
		columns, size := allColumns()
		for _, f := range formats {
			e := newEncoder(d, f, columns, size)
			e.bad = d.put(words([]int32{-1}))
			add(d.Encode(f, e.table, e.entries, vector(size), vector(size), e.next, e.wire, e.bad))
			add(d.Decode(f, e.table, e.entries, d.put(binary.LittleEndian.AppendUint64(nil, uint64(e.wire))), 1, d.zeros(size)))
		}
		add(d.PutHeaders(d.zeros(8), d.zeros(1), d.zeros(1), d.zeros(1), 1, d.room(32)))
	}
	return all
}

func ones(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// needless are instructions that a kernel runs without, and why: nobody could see them missing.
var needless = []struct {
	file, text string // of a source line
	above      int    // the instruction is of the line so many lines above it
	why        string
}{
	{"gt.h", "if (THREAD == 0) ticket =", 1, "the warp that takes the ticket has also written all that the block leaves, in these kernels"},
	{"update.cu", "if (!take) return;", 0, "it bounds nothing"},
	{"norm.cu", "if (count == 0) return;", 0, "it bounds nothing"},
	{"conv.cu", "if (m0 >= pixels) return;", 0, "it spares a block work: without it, it would copy zeros and write nothing"},
	{"gemm.h", "#pragma unroll\n\t\tfor (int half = SPLIT / 2;", 1, "in some tiles the sums take the place of stages that have been read before the last barrier"},
}

// reason says why a place is needless; empty if it is not.
func reason(t *testing.T, source string) string {
	t.Helper()
	for _, n := range needless {
		text, err := os.ReadFile(n.file)
		if err != nil {
			t.Fatal(err)
		}
		before, _, found := strings.Cut(string(text), n.text)
		if !found {
			t.Fatalf("%s has no line %q", n.file, n.text)
		}
		if fmt.Sprint(n.file, ":", strings.Count(before, "\n")+1-n.above) == source {
			return n.why
		}
	}
	return ""
}

// Barriers and bounds tests of the kernels are needed, and the emulator sees it where one is missing.
func TestTheEmulatorObjectsToKernelsWithoutABarrierOrABoundsTest(t *testing.T) {
	if testing.Short() {
		t.Skip("runs each kernel many times")
	}
	for _, s := range kernels.Sources() {
		all := mutants(s)
		devices := emulator.New(emulator.Options{Devices: max(1, len(all)), Workers: 2})
		for i, m := range all {
			d := openOf(t, devices, i)
			launches := scenario(d, s.Name, m.kernel)
			module, err := d.device.Load(s.Name, m.ptx())
			if err != nil {
				t.Fatalf("%s: %v", m.what, err)
			}
			f, err := module.Function(m.kernel)
			d.check(err)
			ran := false
			for _, l := range launches {
				if l.Function.Name() == m.kernel {
					l.Function, ran = f, true
				}
				if err = d.stream.Launch(l); err == nil {
					err = d.stream.Synchronize()
				}
				if err != nil {
					break
				}
			}
			if !ran {
				t.Errorf("%s is not run", m.kernel)
			}
			if err == nil {
				if why := reason(t, m.source); why == "" {
					t.Errorf("%s runs without %s", m.kernel, m.what)
				} else {
					t.Logf("%s runs without %s: %s", m.kernel, m.what, why)
				}
			}
		}
		t.Logf("%s: %d mutants", s.Name, len(all))
	}
}
