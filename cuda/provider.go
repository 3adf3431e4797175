package cuda

import (
	"gotrain/cuda/cudnn"
	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
)

// Provider computes convolutions where package kernels would: CuDNN's, or one of a test's, which runs on the emulator.
type Provider interface {
	// String names it and its version.
	String() string

	// Start makes it ready on a device.
	Start(driver.Device) (Convolver, error)
}

// Convolver is a provider on a device. Its methods, and those of its convolutions, can be called from any goroutine.
type Convolver interface {
	// Plan prepares a convolution or a gradient of one, with at most so many bytes of workspace. The error is cudnn.ErrUnsupported,
	// wrapped, where the provider cannot do it.
	Plan(p cudnn.Pass, s kernels.ConvShape, m kernels.Math, workspace int) (Convolution, error)

	// Close ends it, when all convolutions are freed.
	Close() error
}

// Convolution is prepared. Package cudnn says how its tensors lie, see cudnn.Pass.
type Convolution interface {
	Workspace() int // bytes

	// Run gives it to a stream, which may capture: the convolution outlives the graph.
	Run(s driver.Stream, x, w, y, workspace driver.Pointer) error

	Free() error
}

// CuDNN makes a provider of a loaded cuDNN.
func CuDNN(l *cudnn.Library) Provider { return library{l} }

type library struct{ *cudnn.Library }

func (l library) Start(d driver.Device) (Convolver, error) {
	h, err := l.New(d)
	if err != nil { // and no pointer to nothing
		return nil, err
	}
	return handle{h}, nil
}

type handle struct{ *cudnn.Handle }

func (h handle) Plan(p cudnn.Pass, s kernels.ConvShape, m kernels.Math, workspace int) (Convolution, error) {
	plan, err := h.Handle.Plan(p, s, m, workspace)
	if err != nil {
		return nil, err
	}
	return plan, nil
}
