package sweep

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"gotrain/configs"
	"gotrain/cuda/driver"
	"gotrain/internal/cores"
)

// limits say how much of a machine a sweep takes.
type limits struct {
	parallel int      // processes at a time
	cores    int      // of the machine
	gpus     []string // of the machine; nil: trials do not compute on GPUs
	each     int      // GPUs of a process
}

// limits fits the processes that run at a time into the machine: no two workers on one core or one GPU.
func (p *Plan) limits() (l limits, err error) {
	l = limits{parallel: p.Parallel, cores: cores.Usable(), each: 1}
	threads := 1
	for _, t := range p.Trials {
		if t.Config == nil || t.Fault != nil {
			continue
		}
		c := t.Config
		l.each = max(l.each, c.Distributed.Workers)
		threads = max(threads, c.Threads*c.Distributed.Workers)
		if l.gpus == nil && (c.Device == "cuda" || c.Device == "auto") {
			l.gpus = visible()
		}
	}
	most := l.cores / max(threads, l.each)
	if l.gpus != nil {
		most = len(l.gpus) / l.each
	}
	if most = max(1, most); l.parallel == 0 || l.parallel > most {
		l.parallel = most
	}
	return l, nil
}

// String says the limits, for a message.
func (l limits) String() string {
	if l.gpus != nil {
		return fmt.Sprintf("%d at a time on %d GPUs", l.parallel, len(l.gpus))
	}
	return fmt.Sprintf("%d at a time on %d cores", l.parallel, l.cores)
}

// visible lists the GPUs that this process may use; nil where there is none.
func visible() []string {
	if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
		if v == "" {
			return nil
		}
		return strings.Split(v, ",")
	}
	d, err := driver.Open()
	if err != nil {
		return nil // a trial that needs a GPU will say so
	}
	var all []string
	for n := range d.Devices() {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// environment gives a process its own GPUs.
func (l limits) environment(slot int) []string {
	if l.gpus == nil || (slot+1)*l.each > len(l.gpus) {
		return nil
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(l.gpus[slot*l.each:(slot+1)*l.each], ",")}
}

// bounded is the configuration of a trial with its share of the cores, where it does not say itself how many threads it has. The
// number is part of the configuration, for sums depend on it.
func (l limits) bounded(p *Plan, t Trial) (*configs.Config, error) {
	if t.Config.Threads != 0 {
		return t.Config, nil
	}
	threads := max(1, l.cores/(l.parallel*t.Config.Distributed.Workers))
	return p.load(p.base(), append([]string{"threads=" + strconv.Itoa(threads)}, p.overrides...), t.Values)
}
