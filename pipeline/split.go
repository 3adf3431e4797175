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
