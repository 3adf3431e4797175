package readers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gotrain/graph"
)

// LoaderConfig says which minibatches a loader makes. They depend on nothing but Seed, MinibatchSize, EpochSize, Shuffle
// and the position; Worker and Workers choose a part of each.
type LoaderConfig struct {
	Seed          int64
	MinibatchSize int   // of all workers together
	EpochSize     int   // samples; 0: one sweep. Sweeps go on across epochs of another size
	Start         int64 // samples trained so far, of all workers together
	End           int64 // samples trained in the end, where Next returns io.EOF; 0: there is no end
	Shuffle       bool

	Worker, Workers int // this worker of how many; Workers 0: one

	PlanOnly bool // leave Images empty: the executor gathers and augments by itself
	Prefetch int  // minibatches made ahead; 0: each is made when it is asked for
	Decoders int  // goroutines that fill one minibatch; 0: one for sets in memory, else one a core
}

// Minibatch is one worker's share of a minibatch. It is valid until Release.
type Minibatch struct {
	graph.Batch

	Epoch    int   // from 0
	Index    int   // in the epoch, from 0
	Count    int   // samples of all workers
	Position int64 // samples trained when this minibatch has been
	Last     bool  // of its epoch

	free  chan<- *Minibatch
	taken bool // by the caller of Next
}

// Release gives the buffers back; the loader fills them again. A second call does nothing.
func (m *Minibatch) Release() {
	if m.taken {
		m.taken = false
		m.free <- m
	}
}

// Loader makes minibatches, ahead of who takes them and in order. Next and Wait belong to one goroutine; Close may be
// called from any.
type Loader struct {
	ds     Dataset
	cfg    LoaderConfig
	cursor cursor

	ready  chan result     // filled, in order
	free   chan *Minibatch // to be filled
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed when the filling goroutine has ended
	failed error         // what Next returned first; it returns it again
	waited time.Duration
}

type result struct {
	batch *Minibatch
	err   error
}

// NewLoader starts a loader. Close ends it.
func NewLoader(ds Dataset, cfg LoaderConfig) (*Loader, error) {
	if cfg.Workers == 0 {
		cfg.Workers = 1
	}
	switch {
	case ds.Len() == 0:
		return nil, fmt.Errorf("the data set is empty")
	case cfg.MinibatchSize < 1:
		return nil, fmt.Errorf("minibatch of %d samples: give at least 1", cfg.MinibatchSize)
	case cfg.EpochSize < 0:
		return nil, fmt.Errorf("epoch of %d samples: give at least 1, or 0 for one sweep", cfg.EpochSize)
	case cfg.Worker < 0 || cfg.Worker >= cfg.Workers:
		return nil, fmt.Errorf("worker %d of %d: workers count from 0", cfg.Worker, cfg.Workers)
	case cfg.Start < 0 || cfg.End != 0 && cfg.End < cfg.Start:
		return nil, fmt.Errorf("samples %d to %d: the first must not be negative nor above the second", cfg.Start, cfg.End)
	case cfg.Prefetch < 0 || cfg.Decoders < 0:
		return nil, fmt.Errorf("prefetch %d, decoders %d: neither may be negative", cfg.Prefetch, cfg.Decoders)
	}
	if cfg.EpochSize == 0 {
		cfg.EpochSize = ds.Len()
	}
	if cfg.Decoders == 0 {
		cfg.Decoders = 1
		if _, inMemory := ds.Resident(); !inMemory {
			cfg.Decoders = runtime.GOMAXPROCS(0)
		}
	}
	l := &Loader{
		ds: ds, cfg: cfg, cursor: newCursor(ds.Len(), cfg),
		ready: make(chan result, cfg.Prefetch), free: make(chan *Minibatch, cfg.Prefetch+1), done: make(chan struct{}),
	}
	c, h, w := ds.Shape()
	share := min(cfg.MinibatchSize, cfg.EpochSize)/cfg.Workers + 1
	for range cap(l.free) {
		m := &Minibatch{free: l.free, Batch: graph.Batch{Plan: make([]Sample, 0, share)}}
		m.Labels, m.Weights = make([]int32, share), make([]float32, share)
		if !cfg.PlanOnly {
			m.Images = make([]float32, share*c*h*w)
		}
		l.free <- m
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if cfg.Prefetch == 0 {
		close(l.done)
		return l, nil
	}
	go l.run(l.ctx)
	return l, nil
}

// Next returns the next minibatch, io.EOF after the last, the first error that occurred while it was made, or ctx's.
// The caller releases it before it asks for more than Prefetch+1 others.
func (l *Loader) Next(ctx context.Context) (*Minibatch, error) {
	if l.failed == nil && l.cfg.Prefetch == 0 && l.ctx.Err() != nil {
		l.failed = errClosed
	}
	if l.failed != nil {
		return nil, l.failed
	}
	begin := time.Now()
	defer func() { l.waited += time.Since(begin) }()
	var r result
	if l.cfg.Prefetch == 0 {
		select {
		case <-l.ctx.Done():
			r.err = errClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		case m := <-l.free:
			r = l.make(l.ctx, m)
		}
	} else {
		select {
		case r = <-l.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.done:
			select {
			case r = <-l.ready: // made before the end
			default:
				r.err = errClosed
			}
		}
	}
	if l.failed = r.err; r.err != nil {
		return nil, r.err
	}
	r.batch.taken = true
	return r.batch, nil
}

// Wait returns for how long Next has kept its callers.
func (l *Loader) Wait() time.Duration { return l.waited }

// Close stops the loader and returns when all its goroutines have ended.
func (l *Loader) Close() error {
	l.cancel()
	<-l.done
	return nil
}

var errClosed = errors.New("read a minibatch: the loader is closed")

// run makes minibatches until there is an error or the loader is closed.
func (l *Loader) run(ctx context.Context) {
	defer close(l.done)
	for {
		var m *Minibatch
		select {
		case m = <-l.free:
		case <-ctx.Done():
			return
		}
		r := l.make(ctx, m)
		if ctx.Err() != nil {
			return // what was interrupted is no result
		}
		select {
		case l.ready <- r:
		case <-ctx.Done():
			return
		}
		if r.err != nil {
			return
		}
	}
}

// make makes the cursor's next minibatch.
func (l *Loader) make(ctx context.Context, m *Minibatch) result {
	if !l.cursor.next(l.ds, m) {
		return result{err: io.EOF}
	}
	m.N = len(m.Plan)
	m.Labels, m.Weights = m.Labels[:m.N], m.Weights[:m.N]
	if l.cfg.PlanOnly {
		for i, s := range m.Plan {
			m.Labels[i], m.Weights[i] = l.ds.Label(int(s.Index)), 1
		}
		return result{batch: m}
	}
	c, h, w := l.ds.Shape()
	m.Images = m.Images[:m.N*c*h*w]
	if err := l.fill(ctx, m, c*h*w); err != nil {
		return result{err: err}
	}
	return result{batch: m}
}

// fill has the decoders take pieces of a minibatch, each the next that nobody has taken. Of several errors it returns
// that of the first piece, so that the same one is seen each time.
func (l *Loader) fill(ctx context.Context, m *Minibatch, size int) error {
	const piece = 16
	if l.cfg.Decoders == 1 {
		return l.ds.Fill(m.Plan, &m.Batch)
	}
	errs := make([]error, (m.N+piece-1)/piece)
	var taken atomic.Int64
	var failed atomic.Bool
	var running sync.WaitGroup
	for range min(l.cfg.Decoders, len(errs)) {
		running.Add(1)
		go func() {
			defer running.Done()
			for !failed.Load() && ctx.Err() == nil {
				i := int(taken.Add(1)) - 1
				if i >= len(errs) {
					return
				}
				from, to := i*piece, min(m.N, (i+1)*piece)
				part := graph.Batch{N: to - from, Images: m.Images[from*size : to*size],
					Labels: m.Labels[from:to], Weights: m.Weights[from:to], Divisor: m.Divisor}
				if errs[i] = l.ds.Fill(m.Plan[from:to], &part); errs[i] != nil {
					failed.Store(true)
				}
			}
		}()
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
