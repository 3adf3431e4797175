package graph

import (
	"fmt"
	"slices"
)

// Options steer the compiler.
type Options struct {
	Inference   bool // forward pass only
	NoFusion    bool // leave operations as they are, to test that fusion changes nothing
	BucketBytes int  // of gradients at least in a bucket; 0: all in one

	// Aggregation names how gradients are aggregated over workers, as the step's Exchange does it; empty: there is one worker.
	Aggregation string
}

// Bucket is a contiguous range of the gradient arena that becomes final at one point of the backward pass.
type Bucket struct {
	Begin, End int // values in the arena, padding included
	Ready      int // the operations before this index have to have run
}

// Plan is a compiled step for one number of samples: operations in order, and where every tensor lives. Plans of one
// network for several numbers of samples have the same arenas.
type Plan struct {
	Batch      int // samples
	Inference  bool
	Precision  DType // of activations
	Ops        []*Op
	Tensors    []*Tensor
	Forward    int      // Ops[:Forward] are the forward pass
	Backward   int      // Ops[Forward:Backward] are the backward pass, the rest the update
	Parameters Layout   // of parameters, gradients and moments, in the order in which the backward pass finishes gradients
	Statistics Layout   // in forward order
	Buckets    []Bucket // in order; empty in inference
	Memory     Memory   // of intermediates and outputs
	Inputs     Inputs
	Logits     *Tensor // [N][classes] float32
	Loss       *Tensor // scalars, float64, see SoftmaxCrossEntropy
	Errors     *Tensor
}

// Compile turns a forward graph that ends in a loss into a plan: it fuses, differentiates, drops what is dead, and lays
// out arenas and memory. The graph is consumed.
func Compile(g *Graph, o Options) (*Plan, error) {
	if g.err != nil {
		return nil, g.err
	}
	loss, err := g.find(SoftmaxCrossEntropy)
	if err != nil {
		return nil, err
	}
	if !o.NoFusion {
		g.fuseForward()
	}
	p := &Plan{Batch: loss.In[0].Shape[0], Inference: o.Inference, Precision: g.Precision, Inputs: g.inputs, Logits: loss.In[0],
		Loss: loss.Out[0], Errors: loss.Out[1]}
	if !o.Inference {
		if err := g.differentiate(); err != nil {
			return nil, err
		}
		if !o.NoFusion {
			g.fuseGradientSums()
		}
	}
	g.dropDead()
	if !o.Inference {
		g.appendUpdate(o.Aggregation)
	}
	p.Ops, p.Tensors = g.Ops, g.Tensors
	phase := func(from Phase) int {
		if i := slices.IndexFunc(p.Ops, func(o *Op) bool { return o.Phase >= from }); i >= 0 {
			return i
		}
		return len(p.Ops)
	}
	p.Forward, p.Backward = phase(Backward), phase(Updating)
	if err := p.layOut(o.BucketBytes); err != nil {
		return nil, err
	}
	p.Memory = g.planMemory()
	return p, nil
}

// Fits says what is wrong with a batch that the plan is to run on: its lengths, or a label that is no class. An executor asks
// before its kernels index memory by what is in the batch.
func (p *Plan) Fits(b *Batch) error {
	images := p.Inputs.Images.Shape
	if b.N != p.Batch || len(b.Images) != images.Values() || len(b.Labels) != b.N || len(b.Weights) != b.N {
		return fmt.Errorf("the batch has %d values, %d labels and %d weights for images %s", len(b.Images), len(b.Labels), len(b.Weights), images)
	}
	return p.labelsFit(b)
}

// FitsResident is Fits for an executor that makes images from the sample plan of a batch and a resident set of so many samples.
func (p *Plan) FitsResident(b *Batch, set int) error {
	if b.N != p.Batch || len(b.Plan) != b.N || len(b.Labels) != b.N || len(b.Weights) != b.N {
		return fmt.Errorf("the batch has a plan of %d samples, %d labels and %d weights for images %s", len(b.Plan), len(b.Labels), len(b.Weights), p.Inputs.Images.Shape)
	}
	for i, s := range b.Plan {
		if s.Index < 0 || int(s.Index) >= set {
			return fmt.Errorf("sample %d of the batch is number %d of a set of %d", i, s.Index, set)
		}
	}
	return p.labelsFit(b)
}

func (p *Plan) labelsFit(b *Batch) error {
	classes := p.Logits.Shape[1]
	for i, l := range b.Labels {
		if l < 0 || int(l) >= classes {
			return fmt.Errorf("sample %d of the batch has label %d: labels go from 0 to %d", i, l, classes-1)
		}
	}
	return nil
}

// appendUpdate ends the step with the aggregation, where there is one, and the learner's update of all parameters.
func (g *Graph) appendUpdate(aggregation string) {
	var gradients []*Tensor
	for _, t := range g.Tensors {
		if t.Role == ParameterGradient {
			gradients = append(gradients, t)
		}
	}
	if aggregation != "" {
		g.add(&Op{Kind: Aggregate, Name: aggregation, Phase: Updating, In: gradients})
	}
	g.add(&Op{Kind: Apply, Name: "update", Phase: Updating, In: gradients})
}

// layOut orders the arenas. Without a backward pass the order of the parameters cannot be seen, so that an inference plan
// has none; its executor takes the training plan's.
func (p *Plan) layOut(bucketBytes int) error {
	for _, t := range p.Tensors {
		if t.Role == Statistic {
			p.Statistics.add(t)
		}
	}
	begin := 0
	for i, o := range p.Ops {
		for _, t := range o.Out {
			if t.Role == ParameterGradient {
				p.Parameters.add(t.Of)
			}
		}
		if end := p.Parameters.Size; end > begin && bucketBytes > 0 && (end-begin)*4 >= bucketBytes {
			p.Buckets = append(p.Buckets, Bucket{Begin: begin, End: end, Ready: i + 1})
			begin = end
		}
	}
	if end := p.Parameters.Size; end > begin {
		p.Buckets = append(p.Buckets, Bucket{Begin: begin, End: end, Ready: p.Backward})
	}
	if p.Inference {
		return nil
	}
	for _, t := range p.Tensors {
		if t.Role == Parameter {
			if _, ok := p.Parameters.Find(t.Name); !ok {
				return fmt.Errorf("%s: the loss does not depend on this parameter", t.Name)
			}
		}
	}
	return nil
}
