package cuda

import (
	"encoding/binary"

	"gotrain/cuda/driver"
)

// A worker's flags are a word for each bucket and one for each bucket's sum, the offset of what is not finite or -1, and a last word that
// is 1 where it asks all to stop. With a link, the flags of all workers lie one behind the other, and come with the last bucket.

func (a *Aggregator) flagWords() int { return 2*len(a.buckets) + 1 }

// flagBytes is the length of all that lie here.
func (a *Aggregator) flagBytes() int {
	if a.link == nil {
		return 4 * a.flagWords()
	}
	return 4 * a.flagWords() * a.workers
}

// flagsOf is where those of a worker lie; without a link there is one.
func (a *Aggregator) flagsOf(worker int) driver.Pointer {
	if a.link == nil {
		return a.flags.at
	}
	return a.flags.at + offset(worker*a.flagWords())
}

// flag is where one of this worker's lies.
func (a *Aggregator) flag(i int) driver.Pointer { return a.flagsOf(a.rank) + offset(i) }

// reserveFlags makes room for flags.
func (a *Aggregator) reserveFlags() error {
	if _, err := a.e.device.reserve(&a.flags, a.flagBytes()); err != nil {
		return err
	}
	if _, err := a.e.device.reserveHost(&a.found, a.flagBytes()); err != nil {
		return err
	}
	_, err := a.e.device.reserveHost(&a.asked, 4)
	return err
}

// ask notes the wish to stop.
func (a *Aggregator) ask(stop bool) {
	word := uint32(0)
	if stop {
		word = 1
	}
	binary.LittleEndian.PutUint32(a.asked.Bytes, word)
}

// clearFlags records what a step begins with.
func (a *Aggregator) clearFlags(r *recorder) {
	words := 2 * len(a.buckets)
	r.fill(a.e.exchange, "flags", a.flag(0), ^uint32(0), words)
	r.copy(a.e.exchange, "wish to stop", a.flag(words), a.asked.Pointer, 4)
}

// found is a worker's flag in the last step.
func (f *Fleet) found(worker, i int) int32 {
	a := f.workers[0].aggregator
	if a.link != nil {
		i += worker * a.flagWords()
	} else {
		a = f.workers[worker].aggregator
	}
	return int32(binary.LittleEndian.Uint32(a.found.Bytes[4*i:]))
}

// stops says whether any worker has asked to in the last step.
func (f *Fleet) stops() bool {
	a := f.workers[0].aggregator
	for w := range a.workers {
		if f.found(w, a.flagWords()-1) != 0 {
			return true
		}
	}
	return false
}
