package readers

// cursor walks through the samples. A position counts the samples trained since the start, of all workers; epochs cut
// it into pieces of EpochSize, sweeps into pieces of the set's length, and neither depends on the other.
type cursor struct {
	n       int64 // samples of the set
	cfg     LoaderConfig
	pos     int64
	sweep   int64   // whose order it is; -1: none yet
	order   []int32 // [n]
	shuffle order
}

func newCursor(n int, cfg LoaderConfig) cursor {
	return cursor{n: int64(n), cfg: cfg, pos: cfg.Start, sweep: -1, shuffle: order{cfg.Seed, n}}
}

// next plans this worker's share of the next minibatch. It returns false at the end.
func (c *cursor) next(ds Dataset, m *Minibatch) bool {
	if c.cfg.End > 0 && c.pos >= c.cfg.End {
		return false
	}
	epoch := int64(c.cfg.EpochSize)
	size, in := int64(c.cfg.MinibatchSize), c.pos%epoch
	count := min(size, epoch-in)
	if c.cfg.End > 0 {
		count = min(count, c.cfg.End-c.pos)
	}
	m.Epoch, m.Index, m.Count = int(c.pos/epoch), int((in+size-1)/size), int(count)
	m.Divisor = float32(count)
	r, workers := int64(c.cfg.Worker), int64(c.cfg.Workers)
	m.Plan = m.Plan[:0]
	for pos := c.pos + count*r/workers; pos < c.pos+count*(r+1)/workers; pos++ {
		sweep := pos / c.n
		m.Plan = append(m.Plan, ds.Plan(c.cfg.Seed, sweep, c.at(sweep, pos%c.n)))
	}
	c.pos += count
	m.Position, m.Last = c.pos, c.pos%epoch == 0
	return true
}

// at returns the sample at a place of a sweep.
func (c *cursor) at(sweep, place int64) int32 {
	if sweep != c.sweep {
		if c.cfg.Shuffle {
			c.order = c.shuffle.sweep(sweep, c.order)
		} else if c.sweep < 0 {
			c.order = sequence(int(c.n), c.order)
		}
		c.sweep = sweep
	}
	return c.order[place]
}
