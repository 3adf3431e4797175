package pipeline

import (
	"errors"
	"fmt"

	"gotrain/configs"
	"gotrain/cuda"
	"gotrain/cuda/cudnn"
)

// openProvider finds cuDNN, which computes convolutions on GPUs where the configuration lets it.
func (d *device) openProvider(cfg *configs.Config) error {
	if cfg.Network.Convolution == "own" || d.gpus == nil || d.gpus.Emulated() {
		return nil
	}
	l, err := cudnn.Open()
	switch {
	case err == nil:
		d.provider = cuda.CuDNN(l)
	case cfg.Network.Convolution == "cudnn":
		return usage("%s: network.convolution: cudnn: %w", cfg.Origin("network.convolution"), err)
	default:
		d.note = fmt.Sprintf("network.convolution: auto: gotrain's kernels alone: %v", err)
	}
	return nil
}

// settle takes what has been chosen; nil: nothing. A provider that has nothing to compute changes no bit, and is forgotten.
func (d *device) settle(c *cuda.Choices) {
	if d.chosen = c; c == nil || c.Provided() == 0 {
		d.provider = nil
	}
}

// deviceFor opens the device of a configuration, see chooseDevice.
func (s Settings) deviceFor(cfg *configs.Config, workers, before int) (device, error) {
	d, err := chooseDevice(cfg, workers, before)
	if s.provider != nil {
		d.provider = s.provider
	}
	return d, err
}

// chooseConvolutions settles who computes which convolutions, where the configuration leaves it to measurements and the run's record
// has not settled it already. The leading process measures for all.
func (r *run) chooseConvolutions() error {
	emulated := r.device.gpus != nil && r.device.gpus.Emulated()
	if r.cfg.Network.Convolution != "auto" || r.device.gpus == nil || emulated && r.device.provider == nil {
		return nil
	}
	if r.Record.Convolutions == nil {
		if err := r.team.agree(&r.Record.Convolutions, func() (err error) {
			r.Record.Convolutions, err = r.measureConvolutions()
			return err
		}); err != nil {
			return err
		}
	}
	r.device.settle(r.Record.Convolutions)
	return nil
}

// measureConvolutions compares gotrain's kernels with the provider; where there is none, and so nothing to choose, that is the choice.
func (r *run) measureConvolutions() (*cuda.Choices, error) {
	if r.device.provider == nil {
		return &cuda.Choices{}, nil
	}
	source, batch := r.network()
	plan, err := source(batch, false)
	if err != nil {
		return nil, err
	}
	d := r.device
	c, err := cuda.ChooseConvolutions(d.gpus, d.first%d.gpus.Devices(), plan, r.cfg.Precision == "tf32", d.provider)
	if failed := (*cuda.ProviderError)(nil); errors.As(err, &failed) {
		r.say.printf("warning: network.convolution: auto: gotrain's kernels alone: %v", failed)
		return &cuda.Choices{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("measuring to choose who computes convolutions: %w: network.convolution: own does without", err)
	}
	return c, nil
}

// sayConvolutions says what was chosen, and in the log what was measured of each layer.
func (r *run) sayConvolutions() {
	c := r.Record.Convolutions
	switch {
	case c == nil || c.Provider == "":
	case c.Provided() > 0 && r.device.provider == nil:
		r.say.printf("warning: this run has computed %d of %d convolutions with %s, which is not in use here: gotrain's kernels compute all", c.Provided(), c.All, c.Provider)
	default:
		r.say.printf("%s", c)
		for _, line := range c.Lines() {
			r.say.note("    " + line)
		}
	}
}
