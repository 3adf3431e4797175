// Package draw shows a compiled plan to people: as a table of operations (Text), as input for Graphviz (DOT), and as a
// drawing with a layout of its own (SVG 1.1; no other program is needed, and equal plans give equal bytes).
//
// It is made for chains with shortcuts, which ResNets are: one column of operations with side branches beside it. It
// draws any plan, but will not untangle graphs that are wilder than that.
package draw

import (
	"fmt"
	"strings"

	"gotrain/graph"
)

// Options say what a drawing shows beside the plan itself.
type Options struct {
	Title string               // of the drawing; empty: the kind of step
	Notes map[*graph.Op]string // a few characters for each operation, such as a measured time or a device; may be nil
}

func (o Options) title(p *graph.Plan) string {
	switch {
	case o.Title != "":
		return o.Title
	case p.Inference:
		return "inference step"
	}
	return "training step"
}

// summary lists what a plan amounts to, as pairs of a name and a value.
func summary(p *graph.Plan) [][2]string {
	parameters, forward, backward := 0, 0, 0
	for _, t := range p.Tensors {
		if t.Role == graph.Parameter {
			parameters += t.Shape.Values()
		}
	}
	for _, o := range p.Ops {
		switch o.Phase {
		case graph.Forward:
			forward += o.FLOPs()
		case graph.Backward:
			backward += o.FLOPs()
		}
	}
	s := [][2]string{
		{"samples", fmt.Sprint(p.Batch)},
		{"activations", p.Precision.String()},
		{"parameters", fmt.Sprintf("%s (%s)", thousands(parameters), size(4*parameters))},
		{"forward", arithmetic(forward)},
	}
	if !p.Inference {
		s = append(s, [2]string{"backward", arithmetic(backward)})
	}
	return append(s,
		[2]string{"memory peak", size(p.Memory.Peak)},
		[2]string{"least possible", size(p.Memory.Live)},
		[2]string{"without reuse", size(p.Memory.Total)})
}

// arenas lists the blocks of float32 that outlive a step, with their bytes. An inference plan does not know the order of
// its parameters, and so only their statistics.
func arenas(p *graph.Plan) [][2]string {
	statistics := [2]string{graph.Statistics.String(), size(4 * p.Statistics.Size)}
	if p.Inference {
		return [][2]string{statistics}
	}
	each := size(4 * p.Parameters.Size)
	return [][2]string{{graph.Parameters.String(), each}, {graph.Gradients.String(), each},
		{"each moment", each}, statistics}
}

// labels words operations; the drawing and the table differ in their signs.
type labels struct{ times, arrow, byData, byWeights, backward string }

var (
	plain   = labels{times: "x", arrow: "->", byData: " backward data", byWeights: " backward weights", backward: " backward"}
	symbols = labels{times: "×", arrow: "→", byData: " ∂x", byWeights: " ∂w", backward: " ∂"}
)

// operation says what an operation computes, what was fused into it included, in the order of computation.
func (l labels) operation(o *graph.Op) string {
	window := func(name string) string {
		s := fmt.Sprintf("%s %d%s%d", name, o.Attr.Kernel, l.times, o.Attr.Kernel)
		if o.Attr.Stride > 1 {
			s += fmt.Sprintf("/%d", o.Attr.Stride)
		}
		return s
	}
	norm := "batch norm"
	if o.Attr.Sync {
		norm = "sync batch norm"
	}
	switch o.Kind {
	case graph.Conv:
		w := o.In[1].Shape
		return fmt.Sprintf("%s %d%s%d", window("conv"), w[1], l.arrow, w[0])
	case graph.ConvBackwardData:
		return window("conv") + l.byData
	case graph.ConvBackwardWeights:
		return window("conv") + l.byWeights
	case graph.BatchNorm, graph.BatchNormInference:
		s := norm
		if o.Attr.Addend {
			s += " + add"
		}
		if o.Attr.ReLU {
			s += " + relu"
		}
		return s
	case graph.BatchNormBackward:
		s := norm + l.backward
		if o.Attr.ReLU {
			s = "relu" + l.backward + " + " + s
		}
		if len(o.BatchNormBackward().DY) > 1 {
			s = "add + " + s
		}
		return s
	case graph.MaxPool:
		return window("max pool")
	case graph.MaxPoolBackward:
		return window("max pool") + l.backward
	case graph.Subsample:
		return fmt.Sprintf("subsample/%d %d%s%d", o.Attr.Stride, o.In[0].Shape[1], l.arrow, o.Out[0].Shape[1])
	case graph.Dense:
		return fmt.Sprintf("dense %d%s%d", o.In[1].Shape[1], l.arrow, o.In[1].Shape[0])
	case graph.DenseBackwardData:
		return "dense" + l.byData
	case graph.DenseBackwardWeights:
		return "dense" + l.byWeights
	case graph.ReLUBackward:
		return "relu" + l.backward
	case graph.SubsampleBackward:
		return "subsample" + l.backward
	case graph.GlobalAveragePoolBackward:
		return "average pool" + l.backward
	}
	return o.Kind.String()
}

func (l labels) shape(s graph.Shape) string {
	if len(s) == 0 {
		return "scalar"
	}
	t := make([]string, len(s))
	for i, e := range s {
		t[i] = fmt.Sprint(e)
	}
	return strings.Join(t, l.times)
}

// written is the bytes of all results of an operation.
func written(o *graph.Op) int {
	n := 0
	for _, t := range o.Out {
		n += t.Bytes()
	}
	return n
}

// size words a number of bytes in three digits or so.
func size(bytes int) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(bytes), 0
	for v >= 1023.5 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if u == 0 || v >= 99.95 {
		return fmt.Sprintf("%.0f %s", v, units[u])
	}
	return fmt.Sprintf("%.1f %s", v, units[u])
}

// arithmetic words a number of floating-point operations.
func arithmetic(n int) string {
	units := []string{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"}
	v, u := float64(n), 0
	for v >= 999.5 && u < len(units)-1 {
		v, u = v/1000, u+1
	}
	if u == 0 || v >= 99.95 {
		return fmt.Sprintf("%.0f %s", v, units[u])
	}
	return fmt.Sprintf("%.1f %s", v, units[u])
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
