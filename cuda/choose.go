package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gotrain/cuda/cudnn"
	"gotrain/cuda/driver"
	"gotrain/graph"
)

// Choices are the convolutions that a provider computes, since it was the faster when a run started. Who computes what changes the
// last bits of results, so that they belong to a run's record.
type Choices struct {
	Provider        string   `json:"provider,omitempty"` // that package kernels was compared with; "": there was none
	All             int      `json:"all,omitempty"`      // convolutions and gradients of the plan
	Forward         []string `json:"forward,omitempty"`  // the layers whose convolution the provider computes
	BackwardData    []string `json:"backwardData,omitempty"`
	BackwardWeights []string `json:"backwardWeights,omitempty"`

	lines []string
}

// of lists the layers of a pass.
func (c *Choices) of(p cudnn.Pass) *[]string {
	return [...]*[]string{&c.Forward, &c.BackwardData, &c.BackwardWeights}[p]
}

func (c *Choices) has(p cudnn.Pass, layer string) bool { return slices.Contains(*c.of(p), layer) }

// Provided is how many convolutions and gradients the provider computes.
func (c *Choices) Provided() int {
	return len(c.Forward) + len(c.BackwardData) + len(c.BackwardWeights)
}

// String says how many.
func (c *Choices) String() string {
	if c.Provider == "" {
		return "Convolutions: all by gotrain's kernels"
	}
	return fmt.Sprintf("Convolutions: %d of %d by %s, the others by gotrain's kernels: the faster in each, as measured when the run began", c.Provided(), c.All, c.Provider)
}

// Lines say for each layer what was measured, where that was now.
func (c *Choices) Lines() []string { return c.lines }

// ProviderError is that of a provider which does not start: package kernels computes without it.
type ProviderError struct{ Err error }

func (e *ProviderError) Error() string { return e.Err.Error() }
func (e *ProviderError) Unwrap() error { return e.Err }

// ChooseConvolutions measures each convolution of a training plan and its gradients on a device, by package kernels and by a provider,
// and takes the faster. It opens the device for itself. The error is *ProviderError where there is nothing to choose from.
func ChooseConvolutions(d driver.Driver, number int, plan *graph.Plan, tf32 bool, p Provider) (c *Choices, err error) {
	v, err := openDevice(d, number, nil)
	if v != nil {
		defer func() { err = errors.Join(err, v.Close()) }()
	}
	if err != nil {
		return nil, err
	}
	if err := v.startProvider(p); err != nil {
		return nil, &ProviderError{err}
	}
	m := &matches{device: v, runs: measuredRuns, length: runLength, found: map[matchKey]*match{}}
	if d.Emulated() {
		m.runs, m.length = 3, 1
	}
	defer func() { err = errors.Join(err, m.free()) }()
	c = &Choices{Provider: p.String()}
	var order []string
	said := map[string][]string{}
	if err := m.prepare(plan, tf32); err != nil {
		return nil, err
	}
	for _, o := range plan.Ops[:plan.Backward] {
		x, ok := productOf(plan, o, tf32)
		if !ok {
			continue
		}
		f := m.found[keyOf(&x)]
		if !f.measured {
			if err := m.measure(f); err != nil {
				return nil, fmt.Errorf("measuring %s: %s: %w", o.Name, o.Kind, err)
			}
		}
		c.All++
		if f.wins() {
			of := c.of(x.pass)
			*of = append(*of, o.Name)
		}
		if said[o.Name] == nil {
			order = append(order, o.Name)
		}
		said[o.Name] = append(said[o.Name], f.String(p))
	}
	for _, name := range order {
		c.lines = append(c.lines, name+": "+strings.Join(said[name], "; "))
	}
	return c, nil
}
