package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"gorgonia.org/tensor"

	"gotrain/graph"
	"gotrain/internal/safetensors"
)

// The parts of a checkpoint.
const (
	modelPart     = "model.safetensors"     // parameters and statistics
	optimizerPart = "optimizer.safetensors" // moments
	statePart     = "state.json"
)

// State says where training stands. It counts samples as planned: a skipped record keeps its place.
type State struct {
	Epoch   int           `json:"epoch"`   // finished epochs
	Batch   int           `json:"batch"`   // finished minibatches of the next epoch
	Step    int64         `json:"step"`    // updates
	Samples int64         `json:"samples"` // of all epochs
	Sums    graph.Metrics `json:"sums"`    // over the finished minibatches of the epoch that runs
	Shown   graph.Metrics `json:"shown"`   // what of Sums the lines within the epoch have shown
	Seconds float64       `json:"seconds"` // spent on the epoch that runs

	Trained []int64           `json:"trained,omitempty"` // samples by worker
	Pending *pendingAggregate `json:"pending,omitempty"` // double buffering: the aggregate that waits for its update
	Block   int64             `json:"block,omitempty"`   // block momentum: samples since the models were exchanged

	Rule      string `json:"rule"`      // of the updates, whose moments the checkpoint has
	RuleSince int64  `json:"ruleSince"` // the step at which the moments were zero
}

// tensors are host views of an arena, by the names of its slots.
func tensors(into map[string]*tensor.Dense, prefix string, l *graph.Layout, values []float32) {
	for _, s := range l.Slots {
		into[prefix+s.Name] = view(s, values)
	}
}

// view is a slot of an arena as a host tensor.
func view(s graph.Slot, values []float32) *tensor.Dense {
	return tensor.New(tensor.WithShape(s.Shape...), tensor.WithBacking(values[s.Offset:s.End():s.End()]))
}

// modelTensors are the parameters of an executor, and statistics, which may be its own or those of all workers.
func modelTensors(e graph.Executor, merged []float32) map[string]*tensor.Dense {
	parameters, statistics := e.Layouts()
	t := map[string]*tensor.Dense{}
	tensors(t, "", parameters, e.Arena(graph.Parameters))
	tensors(t, "", statistics, merged)
	return t
}

// moments are the arenas that an update rule keeps, by the prefix of their names in a checkpoint.
func moments(rule graph.Rule) map[string]graph.Arena {
	switch rule {
	case graph.Momentum:
		return map[string]graph.Arena{"momentum/": graph.FirstMoment}
	case graph.Adam:
		return map[string]graph.Arena{"m/": graph.FirstMoment, "v/": graph.SecondMoment}
	}
	return nil
}

// parts are what a checkpoint holds of the model and its learner. Pulling the arenas is done by the caller.
func parts(e graph.Executor, merged []float32, rule graph.Rule, s State) []Part {
	p := []Part{tensorsPart(modelPart, modelTensors(e, merged)), jsonPart(statePart, s)}
	if t := momentTensors(e, rule); len(t) > 0 {
		p = append(p, tensorsPart(optimizerPart, t))
	}
	return p
}

// momentTensors are the moments of an executor that an update rule keeps.
func momentTensors(e graph.Executor, rule graph.Rule) map[string]*tensor.Dense {
	t := map[string]*tensor.Dense{}
	parameters, _ := e.Layouts()
	for prefix, arena := range moments(rule) {
		tensors(t, prefix, parameters, e.Arena(arena))
	}
	return t
}

// misfit is a tensor that a file and a network do not have in common.
type misfit struct{ error }

// readTensors fills tensors from a file that must have these and no others.
func readTensors(f *safetensors.File, into map[string]*tensor.Dense) error {
	names := slices.Sorted(maps.Keys(into))
	for _, name := range names {
		shape, _, ok := f.Shape(name)
		if !ok {
			return misfit{fmt.Errorf("%s is missing: the file is of another network", name)}
		}
		if want := graph.Shape(into[name].Shape()); !want.Equal(shape) {
			return misfit{fmt.Errorf("%s is %s, and the network's is %s", name, graph.Shape(shape), want)}
		}
	}
	for _, name := range f.Names() {
		if into[name] == nil {
			return misfit{fmt.Errorf("%s is not in the network: the file is of another one", name)}
		}
	}
	for _, name := range names {
		if err := f.ReadInto(name, into[name]); err != nil {
			return err
		}
	}
	return nil
}

// readModel fills parameters and statistics.
func readModel(f *safetensors.File, e graph.Executor) error {
	return readTensors(f, modelTensors(e, e.Arena(graph.Statistics)))
}

// restore brings an executor to where a checkpoint was written, and warns where it has no moments for the rule: they then
// start at zero.
func restore(c *Checkpoint, e graph.Executor, rule graph.Rule) (s State, warning string, err error) {
	if err := c.JSON(statePart, &s); err != nil {
		return s, "", err
	}
	if err := c.Tensors(modelPart, func(f *safetensors.File) error { return readModel(f, e) }); err != nil {
		return s, "", err
	}
	needed := moments(rule)
	if s.Rule != rule.String() {
		if len(needed) > 0 {
			warning = fmt.Sprintf("%s: the updates before it followed the rule %s, and %s goes on from moments of zero", c.Dir, s.Rule, rule)
		}
		s.Rule, s.RuleSince = rule.String(), s.Step
	} else if len(needed) > 0 {
		if err := c.Tensors(optimizerPart, func(f *safetensors.File) error { return readTensors(f, momentTensors(e, rule)) }); err != nil {
			return s, "", fmt.Errorf("the moments of the rule %s: %w", rule, err)
		}
	}
	return s, warning, nil
}

// pull and push carry all that a checkpoint holds between a device and its mirror.
func pull(e graph.Executor) error { return eachArena(e.Pull) }
func push(e graph.Executor) error { return eachArena(e.Push) }

// keptArenas are those that outlive a process.
var keptArenas = []graph.Arena{graph.Parameters, graph.FirstMoment, graph.SecondMoment, graph.Statistics}

func eachArena(f func(graph.Arena) error) error {
	for _, a := range keptArenas {
		if err := f(a); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	return nil
}
