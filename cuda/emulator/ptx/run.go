package ptx

import (
	"fmt"
	"sync"
	atomics "sync/atomic"
)

// Run executes a grid. The error is a *Fault where a kernel's instruction is to blame, and the launch has stopped half-way then.
func (k *Kernel) Run(c Config) (Stats, error) {
	if err := k.check(&c); err != nil {
		return Stats{}, err
	}
	blocks := c.Grid.Count()
	var (
		next   atomics.Int64
		mutex  sync.Mutex
		total  Stats
		faults = map[int]error{}
		wait   sync.WaitGroup
	)
	for range max(1, min(c.Workers, blocks)) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			b := newBlock(k, &c)
			for {
				i := int(next.Add(1)) - 1
				if i >= blocks {
					break
				}
				if err := b.runAt(i); err != nil {
					next.Store(int64(blocks)) // the others end the blocks that they have begun
					mutex.Lock()
					faults[i] = err
					mutex.Unlock()
					break
				}
			}
			mutex.Lock()
			total.add(b.stats)
			mutex.Unlock()
		}()
	}
	wait.Wait()
	first := blocks
	for i := range faults {
		first = min(first, i)
	}
	return total, faults[first]
}

func (k *Kernel) check(c *Config) error {
	positive := func(d Dim) bool { return d.X > 0 && d.Y > 0 && d.Z > 0 }
	switch {
	case !positive(c.Grid) || !positive(c.Block):
		return fmt.Errorf("%s: a grid of %s blocks of %s threads is empty", k.name, c.Grid, c.Block)
	case c.Block.Count() > k.threads:
		return fmt.Errorf("%s: blocks of %d threads, and it was compiled for %d at most", k.name, c.Block.Count(), k.threads)
	case len(c.Params) != k.paramBytes:
		return fmt.Errorf("%s: %d bytes of parameters, and it has %d", k.name, len(c.Params), k.paramBytes)
	case c.Shared < 0:
		return fmt.Errorf("%s: %d bytes of dynamic shared memory", k.name, c.Shared)
	case c.Memory == nil:
		return fmt.Errorf("%s: no memory", k.name)
	}
	return nil
}

// runAt is one block, and what went wrong in it.
func (b *block) runAt(index int) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Fault:
			err = p
		default:
			panic(p)
		}
	}()
	b.reset(index)
	b.run()
	return nil
}
