package kernels_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"gotrain/cuda/cudatest"
	"gotrain/cuda/driver"
	"gotrain/cuda/emulator"
	"gotrain/cuda/kernels"
	"gotrain/graph"
)

// device is an emulated device with the kernels and one stream. It fails the test where the emulator objects.
type device struct {
	*kernels.Set
	t      *testing.T
	device driver.Device
	stream driver.Stream
}

func open(t *testing.T) *device {
	t.Helper()
	return openOf(t, cudatest.Driver(t, emulator.Options{Workers: 2}), 0)
}

// openOf opens one of several devices: they share what they know of the kernels, but not what goes wrong.
func openOf(t *testing.T, all driver.Driver, number int) *device {
	t.Helper()
	d, err := all.Open(number)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	set, err := kernels.Load(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	return &device{Set: set, t: t, device: d, stream: s}
}

// in is the same device for a subtest.
func (d *device) in(t *testing.T) *device {
	e := *d
	e.t = t
	return &e
}

func (d *device) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// room is memory that nothing has written.
func (d *device) room(bytes int) driver.Pointer {
	d.t.Helper()
	p, err := d.device.Allocate(max(bytes, 1), "test")
	d.check(err)
	return p
}

func (d *device) host(bytes int) driver.Host {
	d.t.Helper()
	h, err := d.device.AllocateHost(max(bytes, 1), "test")
	d.check(err)
	return h
}

func (d *device) put(b []byte) driver.Pointer {
	d.t.Helper()
	h, p := d.host(len(b)), d.room(len(b))
	copy(h.Bytes, b)
	d.check(d.stream.Copy(p, h.Pointer, len(b)))
	d.check(d.stream.Synchronize())
	return p
}

func (d *device) get(p driver.Pointer, bytes int) []byte {
	d.t.Helper()
	h := d.host(bytes)
	d.check(d.stream.Copy(h.Pointer, p, bytes))
	d.check(d.stream.Synchronize())
	return h.Bytes[:bytes]
}

func (d *device) run(launches ...driver.Launch) {
	d.t.Helper()
	d.check(d.stream.Launch(launches...))
	d.check(d.stream.Synchronize())
}

// zeros are so many words of zero, as tickets need them.
func (d *device) zeros(words int) driver.Pointer { return d.put(make([]byte, 4*words)) }

func (d *device) floats(v []float32) driver.Pointer {
	d.t.Helper()
	return d.put(words(v))
}

func (d *device) getFloats(p driver.Pointer, n int) []float32 {
	d.t.Helper()
	v := make([]float32, n)
	for i, b := 0, d.get(p, 4*n); i < n; i++ {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// words are values as they lie in memory.
func words[T float32 | int32 | uint32](values []T) (b []byte) {
	for _, v := range values {
		switch v := any(v).(type) {
		case float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		case int32:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	return b
}

// round rounds to what a type can hold.
func round(t graph.DType, v float64) float64 {
	b := math.Float32bits(float32(v))
	if t == graph.BFloat16 {
		b = (b + 0x7fff + b>>16&1) &^ 0xffff
	}
	return float64(math.Float32frombits(b))
}

// random are values that a type can hold.
func random(r *rand.Rand, t graph.DType, s graph.Shape) []float64 {
	v := make([]float64, s.Values())
	for i := range v {
		v[i] = round(t, r.NormFloat64())
	}
	return v
}

// activation puts values [N][C][H][W] on the device as the kernels have them.
func (d *device) activation(t graph.DType, s graph.Shape, values []float64) driver.Pointer {
	d.t.Helper()
	padded, b := kernels.Padded(s[1]), make([]byte, kernels.ActivationBytes(s, t))
	for i, v := range values {
		n, c, p := i/(s[1]*s[2]*s[3]), i/(s[2]*s[3])%s[1], i%(s[2]*s[3])
		at, bits := (n*s[2]*s[3]+p)*padded+c, math.Float32bits(float32(v))
		if t == graph.BFloat16 {
			binary.LittleEndian.PutUint16(b[2*at:], uint16(bits>>16))
		} else {
			binary.LittleEndian.PutUint32(b[4*at:], bits)
		}
	}
	return d.put(b)
}

// getActivation gets [N][C][H][W] back, and checks that padding is zero.
func (d *device) getActivation(t graph.DType, s graph.Shape, p driver.Pointer) []float64 {
	d.t.Helper()
	padded, b := kernels.Padded(s[1]), d.get(p, kernels.ActivationBytes(s, t))
	values := make([]float64, s.Values())
	area := s[2] * s[3]
	for i := range s[0] * area * padded {
		var bits uint32
		if t == graph.BFloat16 {
			bits = uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16
		} else {
			bits = binary.LittleEndian.Uint32(b[4*i:])
		}
		v := math.Float32frombits(bits)
		c, pixel := i%padded, i/padded
		if c < s[1] {
			values[(pixel/area*s[1]+c)*area+pixel%area] = float64(v)
		} else if v != 0 {
			d.t.Fatalf("channel %d of pixel %d is padding, and is %v", c, pixel, v)
		}
	}
	return values
}

// tolerance is what results of a type may differ by, relative to the largest.
func tolerance(t graph.DType) float64 {
	if t == graph.BFloat16 {
		return 1e-2
	}
	return 1e-5
}

// near checks values against their definition.
func near[T float32 | float64](t *testing.T, what string, got []T, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	largest := 0.0
	for _, v := range want {
		largest = max(largest, math.Abs(v))
	}
	for i, v := range got {
		if !(math.Abs(float64(v)-want[i]) <= tolerance*largest) {
			t.Fatalf("%s: value %d is %v, want %v (the largest is %v)", what, i, v, want[i], largest)
		}
	}
}

func narrow(v []float64) []float32 {
	f := make([]float32, len(v))
	for i := range v {
		f[i] = float32(v[i])
	}
	return f
}

func tensor(t graph.DType, extents ...int) *graph.Tensor {
	return &graph.Tensor{Shape: extents, DType: t}
}

// randomShapes are activations of several images, with any number of channels.
func randomShapes(count int) (all []graph.Shape) {
	r := rand.New(rand.NewPCG(19, 19))
	for range count {
		all = append(all, graph.Shape{2 + r.IntN(3), 1 + r.IntN(150), 3 + r.IntN(9), 3 + r.IntN(9)})
	}
	return all
}

// types are the storage types of activations.
var types = []graph.DType{graph.Float32, graph.BFloat16}
