package emulator

import (
	"errors"
	"testing"

	"gotrain/cuda/driver"
)

func TestMemoryIsCopiedAndFilledInStreamOrder(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.memory(0, 16, "a"), r.memory(0, 16, "b")
	s := r.stream(0, "compute")
	r.must(s.Fill(a, 7, 4))
	r.must(s.Copy(b, a, 16))
	r.must(s.Fill(a, 8, 2))
	r.must(s.Copy(b+12, a, 4))
	r.must(s.Synchronize())
	r.wantWords(0, a, 8, 8, 7, 7)
	r.wantWords(0, b, 7, 7, 7, 8)
}

func TestHostMemoryIsReadWhenTheCopyRuns(t *testing.T) {
	r := newRig(t, Options{})
	a, h := r.memory(0, 4, "a"), r.host(4, "ring")
	s := r.stream(0, "copy")
	h.Bytes[0] = 1
	r.must(s.Copy(a, h.Pointer, 4))
	h.Bytes[0] = 2 // too early: nobody has waited
	r.must(s.Synchronize())
	r.wantWords(0, a, 2)
}

func TestMemoryErrors(t *testing.T) {
	tests := []struct {
		name string
		do   func(r *rig) error
		want string
	}{
		{"out of memory", func(r *rig) error {
			r.memory(0, 700, "weights")
			_, err := r.devices[0].Allocate(400, "activations")
			return err
		}, "activations: 400 bytes, where device 0 has 256 of 1024 left: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"},
		{"no bytes", func(r *rig) error {
			_, err := r.devices[0].Allocate(0, "nothing")
			return err
		}, "nothing: 0 bytes: cuMemAlloc_v2: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"freed twice", func(r *rig) error {
			p := r.memory(0, 16, "weights")
			r.must(r.devices[0].Free(p))
			return r.devices[0].Free(p)
		}, "weights (16 bytes of device 0) was freed before: cuMemFree_v2: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"freed in the middle", func(r *rig) error {
			return r.devices[0].Free(r.memory(0, 16, "weights") + 4)
		}, "0x18000000004 is not the start of an allocation of device 0: cuMemFree_v2: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"freed on another device", func(r *rig) error {
			return r.devices[1].Free(r.memory(0, 16, "weights"))
		}, "0x18000000000 is not the start of an allocation of device 1: cuMemFree_v2: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"copy beyond the end", func(r *rig) error {
			return r.stream(0, "copy").Copy(r.memory(0, 16, "weights")+8, r.memory(0, 16, "source"), 12)
		}, "stream copy of device 0: copy of 12 bytes writes bytes 8 to 19 of weights (16 bytes of device 0): " +
			"cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"copy before the start", func(r *rig) error {
			return r.stream(0, "copy").Copy(r.memory(0, 16, "weights"), r.memory(0, 16, "source")-4, 8)
		}, "stream copy of device 0: copy of 8 bytes reads bytes -4 to 3 of source (16 bytes of device 0): " +
			"cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"copy of nothing known", func(r *rig) error {
			return r.stream(0, "copy").Copy(r.memory(0, 16, "weights"), 12345, 8)
		}, "stream copy of device 0: copy of 8 bytes reads 8 bytes at 0x3039, which no allocation has: " +
			"cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"copy that overlaps", func(r *rig) error {
			p := r.memory(0, 16, "weights")
			return r.stream(0, "copy").Copy(p, p+4, 8)
		}, "stream copy of device 0: copy of 8 bytes copies between places that overlap: " +
			"cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"fill between words", func(r *rig) error {
			return r.stream(0, "copy").Fill(r.memory(0, 16, "weights")+2, 0, 1)
		}, "stream copy of device 0: fill of 4 bytes begins at byte 2 of weights (16 bytes of device 0), which is not a multiple of 4: " +
			"cuMemsetD32Async: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"host memory freed twice", func(r *rig) error {
			h := r.host(16, "ring")
			r.must(r.devices[1].FreeHost(h))
			return r.devices[0].FreeHost(h)
		}, "ring (16 bytes of host memory) was freed before: cuMemFreeHost: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
		{"no such device", func(r *rig) error {
			_, err := r.driver.Open(2)
			return err
		}, "device 2 of 2: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (101): invalid device ordinal"},
		{"closed", func(r *rig) error {
			r.must(r.devices[0].Close())
			_, err := r.devices[0].Allocate(4, "weights")
			return err
		}, "weights: device 0 is closed: cuMemAlloc_v2: CUDA_ERROR_INVALID_CONTEXT (201): invalid device context"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, test.do(newRig(t, Options{Devices: 2, Memory: 1024})), test.want)
		})
	}
}

func TestMemoryThatNothingWroteStopsTheDevice(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.memory(0, 32, "a"), r.memory(0, 32, "b")
	s := r.stream(0, "compute")
	r.must(s.Fill(a, 0, 6))
	r.must(s.Copy(b, a+16, 16))
	err := s.Synchronize()
	wantError(t, err, "copy of 16 bytes (operation 2 of stream compute of device 0) reads bytes 24 to 27 of a (32 bytes of device 0), "+
		"which nothing wrote [cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS]")
	var access *AccessError
	if !errors.As(err, &access) {
		t.Errorf("%v is no *AccessError", err)
	}
	_, err = r.devices[0].Allocate(16, "c")
	wantError(t, err, "c: device 0 was stopped before: copy of 16 bytes (operation 2 of stream compute of device 0) reads bytes 24 to 27 "+
		"of a (32 bytes of device 0), which nothing wrote: cuMemAlloc_v2: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered")
}

func TestMemoryFreedBeforeItsCopyRan(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.memory(0, 16, "a"), r.memory(0, 16, "b")
	s := r.stream(0, "compute")
	r.must(s.Fill(a, 0, 4))
	r.must(s.Copy(b, a, 16))
	r.must(r.devices[0].Free(a))
	wantError(t, s.Synchronize(), "fill of 16 bytes (operation 1 of stream compute of device 0) writes bytes 0 to 15 of "+
		"a (16 bytes of device 0), which was freed [cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS]")
}

func TestMemoryOfAClosedDeviceIsFreed(t *testing.T) {
	r := newRig(t, Options{Memory: 1024})
	again, err := r.driver.Open(0)
	r.must(err)
	p := r.memory(0, 1024, "all")
	r.must(again.Close())
	r.must(r.devices[0].Free(p)) // still open
	p = r.memory(0, 1024, "all again")
	s := r.stream(0, "compute")
	r.must(s.Fill(p, 0, 4))
	r.must(r.devices[0].Close())
	r.devices[0], err = r.driver.Open(0)
	r.must(err)
	r.memory(0, 1024, "all of it")
	r.must(r.devices[0].Synchronize()) // the fill is forgotten
}

func TestPeers(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	r.must(r.devices[0].EnablePeer(r.devices[1]))
	r.must(r.devices[0].EnablePeer(r.devices[1]))
	wantError(t, r.devices[0].EnablePeer(r.devices[0]), "device 0: cuCtxEnablePeerAccess: CUDA_ERROR_INVALID_DEVICE (101): invalid device ordinal")
	if err := newRig(t, Options{Devices: 2, NoPeers: true}).peer(); !errors.Is(err, driver.ErrNoPeer) {
		t.Errorf("without peers: %v", err)
	}
}

func (r *rig) peer() error { return r.devices[0].EnablePeer(r.devices[1]) }

func TestCopiesBetweenDevicesNeedNoPeers(t *testing.T) {
	r := newRig(t, Options{Devices: 2, NoPeers: true})
	a, b := r.memory(0, 16, "a"), r.memory(1, 16, "b")
	s := r.stream(0, "compute")
	r.must(s.Fill(a, 5, 4))
	r.must(s.Copy(b, a, 16))
	r.must(s.Synchronize())
	r.wantWords(1, b, 5, 5, 5, 5)
}

func TestInfo(t *testing.T) {
	d := New(Options{Devices: 2, Multiprocessors: 3, Memory: 1 << 20})
	i, err := d.Info(1)
	want := driver.Info{Name: "emulated GPU", UUID: "GPU-00000000-0000-0000-0000-000000000001", Major: 8, Multiprocessors: 3,
		Memory: 1 << 20, Shared: 163 << 10, L2: 40 << 20}
	if err != nil || i != want || !d.Emulated() || d.String() != "emulator" {
		t.Errorf("%+v %v", i, err)
	}
}
