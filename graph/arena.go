package graph

// Arena names one of the contiguous blocks of float32 that outlive a step. All but Statistics have the layout of the
// parameters, so that a parameter, its gradient and its moments stand at one offset.
type Arena uint8

// The arenas of a worker.
const (
	Parameters   Arena = iota
	Gradients          // of the mean loss, before L2
	FirstMoment        // momentum, or Adam's m
	SecondMoment       // Adam's v
	Statistics         // running means and variances of batch norm
	Arenas             // the number of arenas
)

func (a Arena) String() string {
	return [...]string{"parameters", "gradients", "first moment", "second moment", "statistics"}[a]
}

// Slot is a tensor's place in an arena. Offset and the arena's size count float32 values; between slots lies padding that
// stays zero.
type Slot struct {
	Name   string
	Shape  Shape
	Offset int
}

// End is the offset behind the slot's values.
func (s Slot) End() int { return s.Offset + s.Shape.Values() }

// Layout is the order of tensors in an arena.
type Layout struct {
	Slots []Slot
	Size  int // values, padding included
}

// Find returns the slot of a name.
func (l *Layout) Find(name string) (Slot, bool) {
	for _, s := range l.Slots {
		if s.Name == name {
			return s, true
		}
	}
	return Slot{}, false
}

func (l *Layout) add(t *Tensor) {
	l.Slots = append(l.Slots, Slot{Name: t.Name, Shape: t.Shape, Offset: l.Size})
	l.Size += align(t.Bytes()) / 4
}
