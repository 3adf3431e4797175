package group_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	. "gotrain/distributed/group"
	"gotrain/distributed/group/grouptest"
)

// sizes of messages that benchmarks send.
var sizes = []int{64, 4 << 10, 64 << 10, 1 << 20, 4 << 20}

// bench measures exchanges for a time each, and prints the time of one, and the CPU time that it takes worker 0's process.
func bench(j *Job) error {
	return errors.Join(together(j.Members(), func(m Member) error {
		n := m.Size()
		for i, size := range sizes {
			send, recv := make([][]byte, n), make([][]byte, n)
			for i := range n {
				if i != m.Rank() {
					send[i], recv[i] = touched(size), touched(size)
				}
			}
			count := 0
			start, before := time.Now(), cpuTime()
			for goOn := []byte{1}; goOn[0] == 1; {
				for range 10 {
					if err := m.Exchange(Tag{Step: int64(count)}, send, recv); err != nil {
						return err
					}
					count++
				}
				if time.Since(start) > 500*time.Millisecond {
					goOn[0] = 0
				}
				if err := Broadcast(m, Tag{Phase: Control}, 0, goOn); err != nil {
					return err
				}
			}
			if m.Rank() == 0 {
				fmt.Printf("result %d %d %d\n", i, time.Since(start).Nanoseconds()/int64(count), int64(cpuTime()-before)/int64(count))
			}
		}
		return nil
	})...)
}

// touched is memory of its own: what was never written is one page of zeros, which the cache holds.
func touched(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkMPI(b *testing.B) {
	for _, processes := range []int{2, 4} {
		out := grouptest.Run{Scenario: "bench", Processes: processes, Workers: processes, Timeout: time.Minute}.Succeed(b).Output
		for _, line := range strings.Split(out, "\n") {
			var i int
			var ns, cpu float64
			if n, _ := fmt.Sscanf(line, "result %d %g %g", &i, &ns, &cpu); n != 3 {
				continue
			}
			b.Run(fmt.Sprintf("%d workers/%d bytes", processes, sizes[i]), func(b *testing.B) {
				b.ReportMetric(ns, "ns/op")
				b.ReportMetric(cpu, "cpu-ns/op") // of one process
				b.ReportMetric(float64(processes*(processes-1)*sizes[i])/ns*1e3, "MB/s")
			})
		}
	}
}

// benchmarkExchange lets all local members exchange: time and bytes are of one exchange of the group.
func benchmarkExchange(b *testing.B, members []Member) {
	n := members[0].Size()
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%d workers/%d bytes", n, size), func(b *testing.B) {
			b.SetBytes(int64(n * (n - 1) * size))
			send, recv := make([][][]byte, n), make([][][]byte, n)
			for from := range n {
				send[from], recv[from] = make([][]byte, n), make([][]byte, n)
				for i := range n {
					if i != from {
						send[from][i], recv[from][i] = touched(size), touched(size)
					}
				}
			}
			b.ResetTimer()
			must(b, together(members, func(m Member) error {
				for range b.N {
					if err := m.Exchange(Tag{}, send[m.Rank()], recv[m.Rank()]); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

func BenchmarkLocal(b *testing.B) {
	for _, n := range []int{2, 4} {
		benchmarkExchange(b, Local(n, time.Minute))
	}
}
