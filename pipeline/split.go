package pipeline

import (
	"fmt"
	"time"

	"gotrain/distributed"
)

// split says where the time of steps went, as the first worker of this process saw it.
type split struct {
	steps       int
	total, data time.Duration // in steps, and waiting for data before them
	distributed.Times
}

func (s *split) add(step time.Duration, t distributed.Times) {
	s.steps++
	s.total += step
	s.Encode += t.Encode
	s.Decode += t.Decode
	s.Exposed += t.Exposed
	s.Bytes += t.Bytes
}

// compute is what is left of the steps: the network, and the update.
func (s split) compute() time.Duration { return s.total - s.Encode - s.Exposed }

func (s split) String() string {
	n := max(s.steps, 1)
	return fmt.Sprintf("time: compute %.2fs, quantize %.2fs (and %.2fs beside the computation), exchange exposed %.2fs, wait for data %.2fs; %s sent a minibatch",
		s.compute().Seconds(), s.Encode.Seconds(), s.Decode.Seconds(), s.Exposed.Seconds(), s.data.Seconds(), bytesText(s.Bytes/int64(n)))
}

// slower says that one host alone would train so many samples faster than all do; "" where it would not. Alone, a host makes
// the shares of all workers one after the other, with the threads of the workers that it has now.
func (s split) slower(t *team, samples float64) string {
	alone := s.compute().Seconds() * float64(t.workers) / float64(t.host())
	all := (s.total + s.data).Seconds()
	if t.workers == 1 || all < 1.1*alone {
		return ""
	}
	host := "one worker of its own with the threads of all"
	if t.hosts() > 1 {
		host = "one host alone"
	}
	return fmt.Sprintf("%d workers trained %.0f samples a second, and %s would train about %.0f: gotrain profile says what the exchange takes; train with fewer workers, larger minibatches, fewer bits or a faster network",
		t.workers, samples/all, host, samples/alone)
}

// bytesText writes a number of bytes for a person.
func bytesText(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
