package cuda

import (
	"fmt"

	"gotrain/cuda/driver"
	"gotrain/cuda/kernels"
)

// carrier records how the messages of a bucket come from worker to worker. Where they lie, see messages.
type carrier interface {
	// scatter takes encoded gradients to the owners of their columns, and with the first bucket all workers' results to each.
	scatter(r *recorder, bucket, bits int)

	// gather takes encoded sums from their owners to all.
	gather(r *recorder, bucket, bits int)
}

// carrier is that of the fleet.
func (f *Fleet) carrier() carrier {
	if a := f.workers[0].aggregator; a.link != nil {
		return linked{a}
	}
	return copies{f}
}

// copies carries messages within the fleet: workers take what they need by copies from the others' devices, or from pinned memory where
// some of them do not reach each other.
type copies struct{ *Fleet }

func (f copies) scatter(r *recorder, bucket, bits int) {
	encoded := make([]mark, len(f.workers))
	for w, e := range f.workers {
		m := e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		if f.staged {
			if bucket == 0 {
				r.copy(e.exchange, "result to the host", m.resultFrom(e), e.results.at+shareResult, kernels.ResultBytes)
			}
			f.others(w, func(o *Executor) {
				r.copy(e.exchange, ofBucket(bucket, "to the host, for worker %d", o.index), m.sentFrom(e, bucket, o.index), m.sent.at+driver.Pointer(x.sent[o.index]), x.bytes[o.index])
			})
		}
		encoded[w] = r.mark(e.exchange)
	}
	for w, e := range f.workers {
		m := e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		f.others(w, func(o *Executor) { r.wait(e.exchange, encoded[o.index]) })
		if bucket == 0 {
			f.results(r, e, m, bits)
		}
		f.others(w, func(o *Executor) {
			from := o.aggregator.messages[bits].sentFrom(o, bucket, w)
			r.copy(e.exchange, ofBucket(bucket, "gradients of worker %d", o.index), m.came.at+driver.Pointer(x.came[o.index]), from, x.bytes[w])
		})
	}
}

// results takes all workers' to one.
func (f copies) results(r *recorder, e *Executor, m *messages, bits int) {
	for w, o := range f.workers {
		from := e.results.at + shareResult
		if o != e {
			from = o.aggregator.messages[bits].resultFrom(o)
		}
		r.copy(e.exchange, fmt.Sprintf("result of worker %d", w), m.results+driver.Pointer(kernels.ResultBytes*w), from, kernels.ResultBytes)
	}
}

func (f copies) gather(r *recorder, bucket, bits int) {
	summed := make([]mark, len(f.workers))
	for w, e := range f.workers {
		m := e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		if f.staged && len(f.workers) > 1 {
			r.copy(e.exchange, ofBucket(bucket, "sums to the host"), m.sumsFrom(e, bucket), m.sums.at+driver.Pointer(x.sums[w]), x.bytes[w])
		}
		summed[w] = r.mark(e.exchange)
	}
	for w, e := range f.workers {
		m := e.aggregator.messages[bits]
		x := &m.buckets[bucket]
		f.others(w, func(o *Executor) {
			from := o.aggregator.messages[bits].sumsFrom(o, bucket)
			r.wait(e.exchange, summed[o.index])
			r.copy(e.exchange, ofBucket(bucket, "sums of worker %d", o.index), m.sums.at+driver.Pointer(x.sums[o.index]), from, x.bytes[o.index])
		})
	}
}

// others visits all workers but one.
func (f *Fleet) others(but int, visit func(*Executor)) {
	for i, e := range f.workers {
		if i != but {
			visit(e)
		}
	}
}

// ofBucket says what is done with a bucket.
func ofBucket(bucket int, what string, args ...any) string {
	return fmt.Sprintf("bucket %d: ", bucket) + fmt.Sprintf(what, args...)
}
