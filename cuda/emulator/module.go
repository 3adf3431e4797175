package emulator

import (
	"fmt"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator/ptx"
)

// Limits of compute capability 8.0.
const (
	plainShared = 48 << 10  // bytes of shared memory of a block without asking
	maxShared   = 163 << 10 // with asking
	maxThreads  = 1024      // of a block
	maxGridYZ   = 65535
	maxGridX    = 1<<31 - 1
)

type module struct {
	device *device
	name   string
	ptx    *ptx.Module
}

// function is a kernel on a device.
type function struct {
	device *device
	name   string
	kernel *ptx.Kernel
	shared int // bytes of dynamic shared memory that were allowed
}

func (d *device) Load(name string, text []byte) (driver.Module, error) {
	const call = "cuModuleLoadDataEx"
	d.machine.mu.Lock()
	defer d.machine.mu.Unlock()
	if err := d.ready(call, name); err != nil {
		return nil, err
	}
	parsed, err := d.machine.parse(name, text)
	if err != nil {
		return nil, failed(call, invalidPTX, err.Error())
	}
	return &module{device: d, name: name, ptx: parsed}, nil
}

// parse parses a module once for all devices.
func (m *machine) parse(name string, text []byte) (*ptx.Module, error) {
	key := name + "\x00" + string(text)
	if parsed := m.modules[key]; parsed != nil {
		return parsed, nil
	}
	parsed, err := ptx.Parse(name, text)
	if err == nil {
		m.modules[key] = parsed
	}
	return parsed, err
}

func (m *module) Function(name string) (driver.Function, error) {
	k, err := m.ptx.Kernel(name)
	if err != nil {
		return nil, failed("cuModuleGetFunction", notFound, fmt.Sprintf("%s in %s", name, m.name))
	}
	return &function{device: m.device, name: name, kernel: k, shared: plainShared - k.Shared()}, nil
}

func (f *function) Name() string { return f.name }

func (f *function) AllowShared(bytes int) error {
	f.device.machine.mu.Lock()
	defer f.device.machine.mu.Unlock()
	if bytes < 0 || bytes > maxShared-f.kernel.Shared() {
		return failed("cuFuncSetAttribute", invalidValue, fmt.Sprintf("%s: %d bytes of dynamic shared memory beside %d of its own; at most %d in all",
			f.name, bytes, f.kernel.Shared(), maxShared))
	}
	f.shared = max(bytes, plainShared-f.kernel.Shared())
	return nil
}

// launchable says why a launch cannot be.
func (d *device) launchable(call string, l driver.Launch) (*function, error) {
	f, ok := l.Function.(*function)
	if !ok || f.device != d {
		name := "no function"
		if l.Function != nil {
			name = l.Function.Name()
		}
		return nil, failed(call, invalidHandle, fmt.Sprintf("%s is not a kernel of device %d", name, d.number))
	}
	wrong := ""
	threads := l.Block.X * l.Block.Y * l.Block.Z
	switch {
	case min(l.Grid.X, l.Grid.Y, l.Grid.Z) < 1 || l.Grid.X > maxGridX || max(l.Grid.Y, l.Grid.Z) > maxGridYZ:
		wrong = fmt.Sprintf("grid %s, which has to be from 1 to (%d,%d,%d)", extent(l.Grid), maxGridX, maxGridYZ, maxGridYZ)
	case min(l.Block.X, l.Block.Y, l.Block.Z) < 1 || max(l.Block.X, l.Block.Y) > maxThreads || l.Block.Z > 64 || threads > maxThreads:
		wrong = fmt.Sprintf("block %s, which has to be from 1 to (1024,1024,64) and %d threads", extent(l.Block), maxThreads)
	case threads > f.kernel.MaxThreads():
		wrong = fmt.Sprintf("block %s has %d threads, but the kernel was compiled for at most %d", extent(l.Block), threads, f.kernel.MaxThreads())
	case l.Shared < 0 || l.Shared > f.shared:
		wrong = fmt.Sprintf("%d bytes of dynamic shared memory, but the kernel may have %d beside %d of its own; AllowShared allows more",
			l.Shared, f.shared, f.kernel.Shared())
	case len(l.Params) != f.kernel.ParamBytes():
		wrong = fmt.Sprintf("%d bytes of parameters, but the kernel takes %d", len(l.Params), f.kernel.ParamBytes())
	}
	if wrong != "" {
		return nil, failed(call, invalidValue, f.name+": "+wrong)
	}
	return f, nil
}

func extent(d driver.Dim) string { return fmt.Sprintf("(%d,%d,%d)", d.X, d.Y, d.Z) }
