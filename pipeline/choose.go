package pipeline

// choice is what was chosen by measuring, once, at the run's first start.
type choice struct {
	Bits        int    `json:"bits"`        // for bits: auto
	BucketBytes int    `json:"bucketBytes"` // of gradients exchanged at a time
	Why         string `json:"why"`
}

// choose settles what the configuration leaves to measurements.
func (r *run) choose() error {
	return nil
}

// bucketBytes is the size of the buckets in which gradients are exchanged.
func (r *run) bucketBytes() int {
	if n := r.cfg.Distributed.BucketSize; n > 0 {
		return n
	}
	return 128 << 10
}
