package emulator

import (
	"fmt"
	"reflect"
	"testing"

	"gotrain/cuda/driver"
)

// diamond is a graph over two devices: device 0 copies from host memory, both copy that, device 0 gathers what device 1 has.
func diamond(r *rig) (driver.Graph, driver.Stream, driver.Pointer, driver.Host) {
	r.t.Helper()
	g, s, out, h, err := tryDiamond(r)
	r.must(err)
	return g, s, out, h
}

func tryDiamond(r *rig) (driver.Graph, driver.Stream, driver.Pointer, driver.Host, error) {
	a, b := r.stream(0, "compute"), r.stream(1, "copy")
	h := r.host(16, "ring")
	p, q, out := r.memory(0, 16, "p"), r.memory(1, 16, "q"), r.memory(0, 32, "out")
	r.must(a.BeginCapture())
	r.must(a.Copy(p, h.Pointer, 16))
	r.order(a, b)
	r.must(b.Copy(q, p, 16))
	r.must(a.Copy(out, p, 16))
	r.order(b, a)
	r.must(a.Copy(out+16, q, 16))
	g, err := a.EndCapture()
	return g, a, out, h, err
}

func TestGraphForksAndJoinsOverDevices(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	g, s, out, h := diamond(r)
	if g.Nodes() != 4 {
		t.Fatalf("%d nodes", g.Nodes())
	}
	want := []Node{
		{Name: "copy of 16 bytes", Device: 0, Stream: "compute"},
		{Name: "copy of 16 bytes", Device: 1, Stream: "copy", After: []int{0}},
		{Name: "copy of 16 bytes", Device: 0, Stream: "compute", After: []int{0}},
		{Name: "copy of 16 bytes", Device: 0, Stream: "compute", After: []int{2, 1}},
	}
	if got := g.(*Graph).Describe(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for run := range uint32(3) {
		for i := range 4 {
			h.Bytes[4*i] = byte(run) + byte(i)
		}
		r.must(s.Run(g))
		r.must(s.Synchronize())
		r.wantWords(0, out, run, run+1, run+2, run+3, run, run+1, run+2, run+3)
	}
	r.must(s.Run(g))
	r.must(s.Run(g)) // runs of a graph come one after the other
	r.must(g.Free())
	r.must(s.Synchronize())
	wantError(t, s.Run(g), "stream compute of device 0: the graph was freed or is another driver's: "+
		"cuGraphLaunch: CUDA_ERROR_INVALID_HANDLE (400): invalid resource handle")
}

func TestGraphConflictsWithWhatIsBesideIt(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	g, s, out, h := diamond(r)
	r.must(s.Run(g))
	other := r.stream(0, "other")
	r.must(other.Copy(h.Pointer, out+16, 4))
	r.must(s.Synchronize())
	wantError(t, other.Synchronize(), "copy of 4 bytes (operation 1 of stream other of device 0) reads bytes 16 to 19 of out (32 bytes of device 0), "+
		"written by copy of 16 bytes (node 3 of graph 1, run 1, from stream compute of device 0): "+
		"no stream, event or graph orders the two [cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED]")
}

func TestEachWaitThatIsLeftOutIsNoticed(t *testing.T) {
	waits := 0
	r := newRig(t, Options{Devices: 2, DropWait: func(int) bool { waits++; return false }})
	diamond(r)
	if waits != 2 {
		t.Fatalf("%d waits", waits)
	}
	want := []string{
		"copy of 16 bytes (node 1 of graph 1, run 1, from stream copy of device 1) reads bytes 0 to 3 of p (16 bytes of device 0), written by " +
			"copy of 16 bytes (node 0 of graph 1, run 1, from stream compute of device 0): " +
			"no stream, event or graph orders the two [cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED]",
		"stream compute of device 0 does not wait for stream copy of device 1, which was given copy of 16 bytes last: " +
			"cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_UNJOINED (904): capturing stream has unjoined work",
	}
	for drop := range waits {
		r := newRig(t, Options{Devices: 2, DropWait: func(n int) bool { return n == drop }})
		g, s, _, _, err := tryDiamond(r)
		if err == nil {
			r.must(s.Run(g))
			err = s.Synchronize()
		}
		wantError(t, err, want[drop])
	}
}

func TestGraphInAGraph(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	g, s, out, h := diamond(r)
	h.Bytes[0] = 9
	twice := r.capture(s, func() {
		r.must(s.Run(g))
		r.must(s.Run(g))
	})
	if d := twice.(*Graph).Describe(); len(d) != 8 || fmt.Sprint(d[4].After, d[7].After) != "[3] [6 5]" {
		t.Errorf("%+v", d)
	}
	r.must(s.Run(twice))
	r.must(s.Synchronize())
	r.wantWords(0, out, 9, 0, 0, 0, 9)
}

func TestCaptureErrors(t *testing.T) {
	tests := []struct {
		name string
		do   func(r *rig, a, b driver.Stream, e driver.Event) error
		want string
		end  string // what EndCapture says of it then, if stream a captures still
	}{
		{"a capturing stream is waited for", func(r *rig, a, b driver.Stream, e driver.Event) error {
			return a.Synchronize()
		}, "stream a of device 0: cuStreamSynchronize: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): operation not permitted when stream is capturing",
			"stream a of device 0: stream a of device 0: cuStreamSynchronize: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): operation not permitted when stream is capturing: cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901): operation failed due to a previous error during capture"},
		{"a stream that joined is waited for", func(r *rig, a, b driver.Stream, e driver.Event) error {
			r.must(a.Record(e))
			r.must(b.Wait(e))
			return b.Synchronize()
		}, "stream b of device 1: cuStreamSynchronize: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): operation not permitted when stream is capturing", ""},
		{"the device is waited for", func(r *rig, a, b driver.Stream, e driver.Event) error {
			return r.devices[0].Synchronize()
		}, "device 0: stream a of device 0 captures: cuCtxSynchronize: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): operation not permitted when stream is capturing", ""},
		{"memory is allocated", func(r *rig, a, b driver.Stream, e driver.Event) error {
			_, err := r.devices[0].Allocate(4, "p")
			return err
		}, "p: stream a of device 0 captures: cuMemAlloc_v2: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): operation not permitted when stream is capturing", ""},
		{"a captured event is waited for", func(r *rig, a, b driver.Stream, e driver.Event) error {
			r.must(a.Record(e))
			return e.Synchronize()
		}, "event of device 0: cuEventSynchronize: CUDA_ERROR_CAPTURED_EVENT (907): operation not permitted on an event last recorded in a capturing stream", ""},
		{"the stream waits for work outside", func(r *rig, a, b driver.Stream, e driver.Event) error {
			f := r.event(1)
			r.must(b.Record(f))
			return a.Wait(f)
		}, "stream a of device 0: cuStreamWaitEvent: CUDA_ERROR_STREAM_CAPTURE_ISOLATION (905): dependency created on uncaptured work in another stream", ""},
		{"two captures meet", func(r *rig, a, b driver.Stream, e driver.Event) error {
			r.must(b.BeginCapture())
			r.must(a.Record(e))
			return b.Wait(e)
		}, "stream b of device 1: cuStreamWaitEvent: CUDA_ERROR_STREAM_CAPTURE_MERGE (902): operation would result in a merge of separate capture sequences", ""},
		{"ended in another stream", func(r *rig, a, b driver.Stream, e driver.Event) error {
			r.must(a.Record(e))
			r.must(b.Wait(e))
			_, err := b.EndCapture()
			return err
		}, "stream b of device 1: the capture began in stream a of device 0: cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_UNMATCHED (903): capture was not ended in the same stream as it began", ""},
		{"nothing captured", func(r *rig, a, b driver.Stream, e driver.Event) error {
			_, err := b.EndCapture()
			return err
		}, "stream b of device 1 captures nothing: cuStreamEndCapture: CUDA_ERROR_ILLEGAL_STATE (401): the operation cannot be performed in the present state", "fine"},
		{"begun twice", func(r *rig, a, b driver.Stream, e driver.Event) error {
			return a.BeginCapture()
		}, "stream a of device 0 captures already: cuStreamBeginCapture_v2: CUDA_ERROR_ILLEGAL_STATE (401): the operation cannot be performed in the present state", "fine"},
		{"given more after an error", func(r *rig, a, b driver.Stream, e driver.Event) error {
			_ = r.devices[0].Synchronize()
			return a.Record(e)
		}, "stream a of device 0: device 0: stream a of device 0 captures: cuCtxSynchronize: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): operation not permitted when stream is capturing: cuEventRecord: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901): operation failed due to a previous error during capture", ""},
		{"an event of a capture that has ended", func(r *rig, a, b driver.Stream, e driver.Event) error {
			r.must(a.Record(e))
			_, err := a.EndCapture()
			r.must(err)
			return b.Wait(e)
		}, "stream b of device 1: the event is in a capture that has ended: cuStreamWaitEvent: CUDA_ERROR_CAPTURED_EVENT (907): operation not permitted on an event last recorded in a capturing stream", "none"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{Devices: 2})
			a, b, e := r.stream(0, "a"), r.stream(1, "b"), r.event(0)
			r.must(a.BeginCapture())
			wantError(t, test.do(r, a, b, e), test.want)
			if test.end == "none" {
				return
			}
			_, err := a.EndCapture()
			switch {
			case test.end == "fine":
				r.must(err)
			case test.end != "":
				wantError(t, err, test.end)
			case err == nil:
				t.Error("the capture ended without an error")
			}
			r.must(a.Synchronize()) // it is as before
			_, err = r.devices[0].Allocate(4, "p")
			r.must(err)
		})
	}
}
