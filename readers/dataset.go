package readers

import (
	"fmt"
	"sync"
	"sync/atomic"

	"gotrain/configs"
	"gotrain/graph"
)

// Split says which half of a data set is meant.
type Split uint8

// The halves. Test turns everything random off: side crops become center crops, padded crops and flips do nothing.
const (
	Train Split = iota
	Test
)

func (s Split) String() string { return [...]string{"train", "test"}[s] }

// Sample is a sample of a plan, and Resident a set that a device can hold; executors know them too.
type (
	Sample   = graph.Sample
	Resident = graph.Resident
)

// Dataset is one half of a data set, opened and checked. Its methods may be called from several goroutines.
type Dataset interface {
	// Len returns the number of samples.
	Len() int

	// Shape returns channels, height and width of a sample after the transforms.
	Shape() (c, h, w int)

	// Classes returns the names of the classes. Train and test have the same.
	Classes() []string

	// Label returns the class of a sample, below len(Classes()).
	Label(i int) int32

	// Plan draws the augmentation of a sample in a sweep.
	Plan(seed, sweep int64, index int32) Sample

	// Fill makes the samples of a plan into batch.Images, batch.Labels and batch.Weights, which must be long enough.
	// A record that cannot be read is an error, or, with onError: skip, a black picture of weight 0.
	Fill(plan []Sample, batch *graph.Batch) error

	// Resident returns the raw set, and false where it isn't in memory or has other transforms.
	Resident() (*Resident, bool)

	// Describe says what the set holds.
	Describe() Description

	// Fingerprint is a hash of all samples and labels, of files' names and sizes where pictures stay on disk.
	Fingerprint() [32]byte

	// Files are the paths of all files that the set was made of, sorted; none where it is in the binary.
	Files() []string

	// Close gives back what the set holds.
	Close() error
}

// Option changes how a data set is opened.
type Option func(*dataset)

// OnSkip has f called for each record that is skipped, once per record, from any goroutine, one call at a time.
func OnSkip(f func(error)) Option { return func(d *dataset) { d.onSkip = f } }

// Open opens and checks one half of the data set that a configuration names. All files are looked at before it returns:
// sizes, magic numbers, labels, and that each file of a map is there. The error lists all that does not fit.
func Open(cfg configs.Reader, split Split, options ...Option) (Dataset, error) {
	raw, err := openSet(cfg, split)
	if err != nil {
		return nil, err
	}
	if n := len(raw.classes); cfg.NumClasses != 0 && cfg.NumClasses != n {
		return nil, wrong("reader.numClasses", "%d, but %s has %d classes: set it to %d or auto", cfg.NumClasses, raw.path, n, n)
	}
	t, err := compile(cfg.Transforms, split, raw)
	if err != nil {
		return nil, err
	}
	if err := fits(cfg, t); err != nil {
		return nil, err
	}
	for _, tr := range cfg.Transforms {
		if tr.File != "" {
			raw.made = append(raw.made, tr.File)
		}
	}
	d := &dataset{
		set: raw, t: t, split: split, kind: cfg.Type,
		skip: cfg.OnError == "skip", maxSkipped: cfg.MaxSkipped, skipped: map[int32]bool{},
	}
	for _, o := range options {
		o(d)
	}
	return d, nil
}

// fits compares the shape of samples with the one that the configuration expects.
func fits(cfg configs.Reader, t *transforms) error {
	for _, side := range []struct {
		key       string
		want, got int
	}{{"channels", cfg.Channels, t.c}, {"height", cfg.Height, t.h}, {"width", cfg.Width, t.w}} {
		if side.want != 0 && side.want != side.got {
			return wrong("reader."+side.key, "%d, but after the transforms samples have %d: change it or the transforms",
				side.want, side.got)
		}
	}
	return nil
}

func openSet(cfg configs.Reader, split Split) (*set, error) {
	dir := cfg.Path
	if split == Test && cfg.TestPath != "" {
		dir = cfg.TestPath
	}
	switch cfg.Type {
	case "cifar10":
		return openCIFAR10(dir, split)
	case "cifar100":
		return openCIFAR100(dir, cfg.LabelKind, split)
	case "idx":
		return openIDX(cfg, split)
	case "images":
		return openImages(cfg, split)
	case "ctf":
		return openCTF(cfg, split)
	case "embedded":
		return openEmbedded(split)
	}
	return nil, fmt.Errorf("reader.type: no reader %q: use cifar10, cifar100, idx, images, ctf or embedded", cfg.Type)
}

// dataset is a raw set with its transforms.
type dataset struct {
	*set
	t     *transforms
	split Split
	kind  string

	skip       bool
	maxSkipped int
	onSkip     func(error)
	skipLock   sync.Mutex
	skipped    map[int32]bool
	closed     atomic.Bool
	buffers    sync.Pool // of *buffers
}

func (d *dataset) Len() int             { return len(d.labels) }
func (d *dataset) Shape() (c, h, w int) { return d.t.c, d.t.h, d.t.w }
func (d *dataset) Classes() []string    { return d.classes }
func (d *dataset) Label(i int) int32    { return d.labels[i] }

func (d *dataset) Plan(seed, sweep int64, index int32) Sample {
	r := keyed(keyAugment, uint64(seed), uint64(sweep), uint64(index))
	s := Sample{Index: index}
	// Every draw is made whether it is used or not, so that a transform more or less leaves the others' draws alone.
	s.Y = int16(r.intn(2*d.t.padding+1) - d.t.padding)
	s.X = int16(r.intn(2*d.t.padding+1) - d.t.padding)
	s.Flip = r.next()>>63 == 1 && d.t.flip
	s.Key = r.next()
	return s
}

func (d *dataset) Fill(plan []Sample, b *graph.Batch) error {
	if d.closed.Load() {
		return fmt.Errorf("read a sample: the data set is closed")
	}
	size := d.t.c * d.t.h * d.t.w
	buf, _ := d.buffers.Get().(*buffers)
	if buf == nil {
		buf = &buffers{}
	}
	defer d.buffers.Put(buf)
	for i, s := range plan {
		out := b.Images[i*size : (i+1)*size]
		b.Labels[i] = d.labels[s.Index]
		b.Weights[i] = 1
		p, err := d.picture(int(s.Index), buf)
		if err == nil {
			err = d.t.apply(p, s, out, buf)
		}
		if err == nil {
			continue
		}
		if err := d.passOver(s.Index, d.locate(int(s.Index), err)); err != nil {
			return err
		}
		clear(out)
		b.Weights[i] = 0
	}
	return nil
}

// passOver counts a record that cannot be read. It returns an error where the run must stop.
func (d *dataset) passOver(index int32, err error) error {
	if !d.skip {
		return fmt.Errorf("%w: mend or remove it, or set reader.onError: skip", err)
	}
	d.skipLock.Lock()
	defer d.skipLock.Unlock()
	if d.skipped[index] {
		return nil
	}
	d.skipped[index] = true
	if d.onSkip != nil {
		d.onSkip(err)
	}
	if len(d.skipped) > d.maxSkipped {
		return fmt.Errorf("%w: %d records are skipped, reader.maxSkipped allows %d", err, len(d.skipped), d.maxSkipped)
	}
	return nil
}

func (d *dataset) Resident() (*Resident, bool) {
	if d.pixels == nil || !d.t.tabular() {
		return nil, false
	}
	return &Resident{Pixels: d.pixels, Labels: d.labels, Table: d.t.table, Fill: d.t.outside}, true
}

func (d *dataset) Close() error {
	d.closed.Store(true)
	return nil
}
