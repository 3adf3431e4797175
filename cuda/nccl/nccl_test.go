package nccl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator"
)

// fake compiles a libnccl and a libcuda for one test, with a state of their own, and lets Open find them.
func fake(t *testing.T, flags ...string) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no gcc, which compiles the libraries for this test")
	}
	dir := t.TempDir()
	for source, library := range map[string]string{"testdata/fake.c": "libnccl.so.2", "../driver/testdata/fake.c": "libcuda.so.1"} {
		args := append([]string{"-shared", "-fPIC", "-pthread", "-o", filepath.Join(dir, library), source}, flags...)
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Setenv("GOTRAIN_LIBNCCL", filepath.Join(dir, "libnccl.so.2"))
	t.Setenv("GOTRAIN_LIBCUDA", filepath.Join(dir, "libcuda.so.1"))
	t.Setenv("FAKE_CUDA_DEVICES", "4")
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// worker is a device with all that a test needs of it.
type worker struct {
	*Member
	device driver.Device
	stream driver.Stream
	host   driver.Host
	err    error
}

// open opens a device and makes a stream and 64 bytes of memory.
func open(t *testing.T, d driver.Driver, rank int) *worker {
	t.Helper()
	var w worker
	var errs [3]error
	w.device, errs[0] = d.Open(rank)
	check(t, errs[0])
	t.Cleanup(func() { w.device.Close() })
	w.stream, errs[1] = w.device.NewStream("exchange")
	w.host, errs[2] = w.device.AllocateHost(64, "values")
	check(t, errs[:]...)
	return &w
}

// each does something for all workers at once.
func each(workers []*worker, f func(w *worker, rank int) error) {
	var wg sync.WaitGroup
	for rank, w := range workers {
		wg.Go(func() { w.err = f(w, rank) })
	}
	wg.Wait()
}

func join(t *testing.T, n int, limit time.Duration) []*worker {
	t.Helper()
	l, err := Open()
	check(t, err)
	d, err := driver.Open()
	check(t, err)
	id, err := l.NewID()
	check(t, err)
	workers := make([]*worker, n)
	for rank := range workers {
		workers[rank] = open(t, d, rank)
	}
	each(workers, func(w *worker, rank int) (err error) {
		w.Member, err = l.Join(w.device, rank, n, id, limit)
		return err
	})
	for rank, w := range workers {
		if w.err != nil || w.Rank() != rank || w.Size() != n {
			t.Fatalf("rank %d: %v", rank, w.err)
		}
	}
	return workers
}

func TestOpenTellsWhyThereIsNoNCCL(t *testing.T) {
	fake(t)
	whole := os.Getenv("GOTRAIN_LIBNCCL")
	broken := filepath.Join(t.TempDir(), "broken.so")
	check(t, os.WriteFile(broken, []byte("text"), 0o666))
	other := os.Getenv("GOTRAIN_LIBCUDA")
	const install = ": install libnccl2 from NVIDIA's repository, or set distributed.transport to mpi"
	for _, c := range []struct{ name, env, want string }{
		{"no library", "GOTRAIN_LIBNCCL=libnowhere.so.2", "there is no NCCL here: no libnowhere.so.2" + install},
		{"a broken library", "GOTRAIN_LIBNCCL=" + broken, "NCCL does not load: " + broken + ": file too short" + install},
		{"another library", "GOTRAIN_LIBNCCL=" + other, other + " has no ncclGetVersion" + install},
		{"an old one", "FAKE_NCCL_VERSION=2804", "NCCL 2.8.4 is too old: 2.9 is the first that CUDA graphs can hold" + install},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOTRAIN_LIBNCCL", whole)
			name, value, _ := strings.Cut(c.env, "=")
			t.Setenv(name, value)
			_, err := Open()
			var u *Unavailable
			if !errors.As(err, &u) || err.Error() != c.want {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
	l, err := Open()
	check(t, err)
	if l.String() != "NCCL 2.21.7" {
		t.Errorf("%v", l)
	}
}

func TestMembersSumAndGather(t *testing.T) {
	fake(t)
	workers := join(t, 3, time.Minute)
	each(workers, func(w *worker, rank int) error {
		for i := range 4 {
			binary.LittleEndian.PutUint32(w.host.Bytes[4*i:], math.Float32bits(float32(10*i+rank)))
		}
		return w.AllReduce(w.host.Pointer, 4, w.stream)
	})
	for rank, w := range workers {
		check(t, w.err)
		for i := range 4 {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(w.host.Bytes[4*i:])); got != float32(30*i+3) {
				t.Errorf("rank %d, value %d: %g, want %d", rank, i, got, 30*i+3)
			}
		}
	}
	each(workers, func(w *worker, rank int) error {
		copy(w.host.Bytes, make([]byte, 64))
		copy(w.host.Bytes[5*rank:], fmt.Sprintf("from%d", rank))
		return w.AllGather(w.host.Pointer, 5, w.stream)
	})
	for rank, w := range workers {
		check(t, w.err)
		if got := string(w.host.Bytes[:16]); got != "from0from1from2\x00" {
			t.Errorf("rank %d: %q", rank, got)
		}
		check(t, w.Close(), w.Close())
		if err := w.AllReduce(w.host.Pointer, 1, w.stream); err == nil || err.Error() != fmt.Sprintf("worker %d has left NCCL", rank) {
			t.Errorf("%v", err)
		}
	}
}

func TestMembersExchangeMessagesOfAllLengths(t *testing.T) {
	fake(t)
	const n = 4
	workers := join(t, n, time.Minute)
	length := func(from, to int) int { return (3*from + 5*to) % 7 } // also 0
	each(workers, func(w *worker, rank int) error {
		var send, receive []Message
		copy(w.host.Bytes, bytes.Repeat([]byte{byte('a' + rank)}, 8))
		for peer := range n {
			if peer != rank {
				send = append(send, Message{Peer: peer, At: w.host.Pointer, Bytes: length(rank, peer)})
				receive = append(receive, Message{Peer: peer, At: w.host.Pointer + driver.Pointer(8+8*peer), Bytes: length(peer, rank)})
			}
		}
		return w.Exchange(send, receive, w.stream)
	})
	for rank, w := range workers {
		check(t, w.err)
		for peer := range n {
			want := strings.Repeat(string(rune('a'+peer)), length(peer, rank))
			got := w.host.Bytes[8+8*peer:][:8]
			if peer != rank && !bytes.HasPrefix(got, []byte(want)) {
				t.Errorf("rank %d has %q from %d, want %q", rank, got, peer, want)
			}
		}
		check(t, w.Exchange(nil, []Message{{Peer: 0}}, w.stream)) // nothing
	}
	if err := workers[1].Exchange([]Message{{Peer: 4}}, nil, workers[1].stream); err == nil || err.Error() != "worker 1 exchanging: there is no worker 4 of 4" {
		t.Errorf("%v", err)
	}
}

const late = ": another is dead, stopped, cut off or too slow; the same command continues the run from its last checkpoint; " +
	"raise distributed.timeout where an exchange may take longer; NCCL_DEBUG=INFO in the environment tells more"

func TestAMemberThatDoesNotComeIsNotWaitedForForEver(t *testing.T) {
	fake(t)
	const limit = 100 * time.Millisecond
	l, err := Open()
	check(t, err)
	d, err := driver.Open()
	check(t, err)
	id, err := l.NewID()
	check(t, err)
	w := open(t, d, 0)
	_, err = l.Join(w.device, 0, 2, id, limit)
	if want := "worker 0 waited 100ms for all 2 workers to join NCCL" + late; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}

	workers := join(t, 2, limit)
	err = workers[1].AllReduce(workers[1].host.Pointer, 4, workers[1].stream)
	var timeout *TimeoutError
	if want := "worker 1 waited 100ms for summing with all workers" + late; !errors.As(err, &timeout) || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if again := workers[1].AllGather(workers[1].host.Pointer, 4, workers[1].stream); again != err {
		t.Errorf("after an abort: %v", again)
	}
	check(t, workers[1].Close())
}

func TestAWaitSeesWhatNCCLFindsOfTheNetwork(t *testing.T) {
	fake(t)
	workers := join(t, 2, 10*time.Second)
	e, err := workers[0].device.NewEvent()
	check(t, err)
	check(t, workers[0].stream.Record(e), workers[0].Wait(e))
	t.Setenv("FAKE_NCCL_ASYNC", "7") // in progress: not an error
	time.AfterFunc(250*time.Millisecond, func() { os.Setenv("FAKE_NCCL_ASYNC", "6") })
	err = workers[0].AllReduce(workers[0].host.Pointer, 4, workers[0].stream)
	if want := "worker 0 summing: NCCL's network: as the test wants it (6): of a communicator (NCCL_DEBUG=INFO in the environment tells more)"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestTheFailureOfAnyCallIsReturned(t *testing.T) {
	fake(t)
	l, err := Open()
	check(t, err)
	d, err := driver.Open()
	check(t, err)
	w := open(t, d, 0)
	everything := func() error {
		if _, err := Open(); err != nil {
			return err
		}
		id, err := l.NewID()
		if err != nil {
			return err
		}
		m, err := l.Join(w.device, 0, 1, id, 10*time.Second)
		if err != nil {
			return err
		}
		message := []Message{{Peer: 0, At: w.host.Pointer, Bytes: 1}}
		for _, f := range []func() error{
			func() error { return m.AllReduce(w.host.Pointer, 4, w.stream) },
			func() error { return m.AllGather(w.host.Pointer, 4, w.stream) },
			func() error { return m.Exchange(message, message, w.stream) },
			func() error { return m.failed("exchanging") },
			m.Close,
		} {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
	check(t, everything())
	header, err := os.ReadFile("api.h")
	check(t, err)
	functions := regexp.MustCompile(`(?m)^\tF\((\w+),`).FindAllStringSubmatch(string(header), -1)
	if len(functions) != 13 {
		t.Fatalf("%d functions found in api.h", len(functions))
	}
	for _, f := range functions {
		if f[1] == "ncclGetErrorString" || f[1] == "ncclCommAbort" { // of failures
			continue
		}
		t.Run(f[1], func(t *testing.T) {
			t.Setenv("FAKE_NCCL_FAIL", f[1]+"=3")
			var e *Error
			if err := everything(); !errors.As(err, &e) || e.Call != f[1] || e.Code != 3 {
				t.Errorf("%v", err)
			}
		})
		check(t, everything()) // no group stays open on a thread
	}
}

func TestMistakesAreErrors(t *testing.T) {
	fake(t, "-DOLD") // without ncclGetLastError
	l, err := Open()
	check(t, err)
	d, err := driver.Open()
	check(t, err)
	w := open(t, d, 0)
	id, err := l.NewID()
	check(t, err)
	emulated := emulator.New(emulator.Options{})
	e := open(t, emulated, 0)
	m, err := l.Join(w.device, 0, 1, id, time.Minute)
	check(t, err)
	second := func(_ any, err error) error { return err }
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"an emulated device", second(l.Join(e.device, 0, 1, id, time.Second)),
			"NCCL runs between GPUs, and " + e.device.Info().Name + " is emulated: set distributed.transport to auto, local or mpi"},
		{"an emulated stream", m.AllReduce(0, 1, e.stream), "worker 0 summing: the stream is not one of a GPU"},
		{"half an ID", second(l.Join(w.device, 0, 1, id[:64], time.Second)), "the ID of a communicator has 128 bytes, not 64"},
		{"no such rank", second(l.Join(w.device, 2, 2, id, time.Second)), "there is no rank 2 of 2"},
		{"no ID of NCCL's", second(l.Join(w.device, 0, 1, make([]byte, 128), time.Second)),
			"worker 0 of 1 joining: ncclCommInitRank: as the test wants it (4) (NCCL_DEBUG=INFO in the environment tells more)"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.name, c.err, c.want)
		}
	}
}

// TestDeclarationsAgreeWithNVIDIAsHeader compares api.h with the nccl.h in one of the folders that GOTRAIN_CUDA_INCLUDE names,
// which needs CUDA's headers too.
func TestDeclarationsAgreeWithNVIDIAsHeader(t *testing.T) {
	folders := filepath.SplitList(os.Getenv("GOTRAIN_CUDA_INCLUDE"))
	args := []string{"-fsyntax-only", "-Werror", "-I.", "-D__CUDA_FP16_H__", "-D__CUDA_BF16_H__"} // whose headers need more
	found := false
	for _, f := range folders {
		args = append(args, "-I"+f)
		if _, err := os.Stat(filepath.Join(f, "nccl.h")); err == nil {
			found = true
		}
	}
	if !found {
		t.Skip("GOTRAIN_CUDA_INCLUDE names no folder with nccl.h (pip download nvidia-nccl-cu12 has it)")
	}
	gcc := exec.Command("gcc", append(args, "-x", "c", "-")...)
	gcc.Stdin = strings.NewReader(`#include <nccl.h>
#include "api.h"
#define F(name, arguments, result, ...) static result (*check_##name)(__VA_ARGS__) = name;
GOTRAIN_NCCL_FUNCTIONS(F)
_Static_assert(ncclSuccess == 0 && ncclInProgress == 7 && ncclUint8 == 1 && ncclFloat32 == 7 && ncclSum == 0 && sizeof(ncclUniqueId) == 128, "constants");
`)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
