package driver

/*
#include "api.h"
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
)

// The oldest that runs the kernels, which are PTX 7.8 for sm_80: CUDA 11.8 came with the drivers 520.
const (
	minVersion       = 11080
	minMajor         = 8
	minVersionText   = "CUDA 11.8, which is version 520 of the driver"
	minMajorText     = "8.0, which NVIDIA's cards have since Ampere"
	orCPU            = "; or train with device: cpu"
	installsDriver   = "install NVIDIA's driver (Debian: nvidia-driver, Ubuntu: ubuntu-drivers install); a container is given the host's by --gpus all"
	updatesDriver    = "install a newer driver of NVIDIA"
	libraryOverrides = "GOTRAIN_LIBCUDA" // the environment variable that names another library, for tests
	libraryName      = "libcuda.so.1"
)

// Reason is why CUDA cannot be used.
type Reason int

// The reasons.
const (
	NoLibrary    Reason = iota // there is no driver
	BadLibrary                 // there is a library, which does not load, or is not the driver
	OldDriver                  // the driver does not know what the kernels need
	NoDevice                   // there is no GPU, or it is hidden
	OldDevice                  // the kernels do not run on the GPU
	DriverFailed               // the driver does not start
)

// Unavailable is the error of Open where CUDA cannot be used on this machine: where device: auto takes the CPU.
type Unavailable struct {
	Reason Reason
	Text   string // what was found
	Remedy string // what to do about it
}

func (u *Unavailable) Error() string { return u.Text + ": " + u.Remedy + orCPU }

// unloaded explains why a library was not loaded, from what the loader says, or which function it lacks.
func unloaded(name string, status C.int, text string) *Unavailable {
	switch {
	case status == C.GOTRAIN_CUDA_NO_FUNCTION:
		return &Unavailable{BadLibrary, fmt.Sprintf("%s has no %s, so it is no driver of CUDA 11.8 or newer", name, text), updatesDriver}
	case strings.HasPrefix(text, name+": cannot open shared object file: No such file"):
		return &Unavailable{NoLibrary, "there is no NVIDIA driver here: no " + name, installsDriver}
	}
	return &Unavailable{BadLibrary, "NVIDIA's driver does not load: " + text, "mend that, or " + installsDriver}
}

// unstarted explains why cuInit has failed.
func unstarted(e *Error) *Unavailable {
	u := &Unavailable{Reason: DriverFailed, Text: "NVIDIA's driver does not start: " + e.Error()}
	switch e.Code {
	case C.CUDA_ERROR_NO_DEVICE:
		u.Reason, u.Text = NoDevice, "NVIDIA's driver finds no GPU"
		u.Remedy = "see what nvidia-smi lists; a container is given GPUs by --gpus all"
		if visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
			u.Text += fmt.Sprintf(", where CUDA_VISIBLE_DEVICES is %q", visible)
			u.Remedy = "unset CUDA_VISIBLE_DEVICES, or let it name GPUs that nvidia-smi lists"
		}
	case C.CUDA_ERROR_STUB_LIBRARY:
		u.Reason, u.Text = BadLibrary, "the "+libraryName+" that was found is the stub of the CUDA toolkit, and not NVIDIA's driver"
		u.Remedy = "take the folder stubs out of LD_LIBRARY_PATH, or " + installsDriver
	case C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
		u.Remedy = "the kernel's module and the library are of different versions: restart the machine after an update of the driver"
	case C.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		u.Remedy = "a library of CUDA's compatibility package was found, which this GPU does not take: take its folder (compat) out of LD_LIBRARY_PATH"
	case C.CUDA_ERROR_SYSTEM_NOT_READY:
		u.Remedy = "a service that the GPUs need is not running: systemctl start nvidia-fabricmanager"
	case C.CUDA_ERROR_UNKNOWN:
		u.Remedy = "run nvidia-smi and nvidia-modprobe -u -c=0 as root, or restart the machine"
	default:
		u.Remedy = "see what nvidia-smi says"
	}
	return u
}

// Supported tells whether the kernels run on the device. The error is *Unavailable.
func (i Info) Supported() error {
	if i.Major >= minMajor {
		return nil
	}
	return &Unavailable{OldDevice,
		fmt.Sprintf("%s has compute capability %d.%d, and the kernels need %s", i.Name, i.Major, i.Minor, minMajorText),
		"let CUDA_VISIBLE_DEVICES name newer ones"}
}
