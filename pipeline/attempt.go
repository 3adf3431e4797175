package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"gotrain/configs"
	"gotrain/cpu"
	"gotrain/distributed/group"
	"gotrain/graph"
	"gotrain/internal/cores"
)

// Attempt is what a process that began or continued a run has found: all that the result may depend on. It lies in the run's
// folder, in attempts/001.json for the first, and is not changed later. The files of the data follow in attempts/001-data.json
// when their checksums are known; see DataFile.
type Attempt struct {
	Number    int       `json:"number"` // from 1
	Began     time.Time `json:"began"`
	Host      string    `json:"host"`
	Process   int       `json:"process"`
	Directory string    `json:"directory"` // that relative paths of the arguments are relative to
	Arguments []string  `json:"arguments"`

	Hash   string             `json:"hash"`   // of the configuration
	Values []configs.KeyValue `json:"values"` // of all its keys
	Files  []TextFile         `json:"files"`  // that it came from

	Version   string    `json:"version"`
	Go        string    `json:"go"`
	Binary    string    `json:"binary"` // SHA-256 of the program, hexadecimal
	Modules   []Library `json:"modules"`
	Libraries []Library `json:"libraries"` // that it is linked to

	Device      Device            `json:"device"`
	Threads     int               `json:"threads"` // of a worker
	Team        string            `json:"team"`
	Hosts       []string          `json:"hosts"`       // of the workers, in their order
	Environment map[string]string `json:"environment"` // the variables that matter
}

// TextFile is a file as it was.
type TextFile struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// Library is a library and its version.
type Library struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Device is what computes.
type Device struct {
	Kind    string `json:"kind"`    // cpu, cuda or emulator
	Model   string `json:"model"`   // as the system or the driver calls it; of several GPUs, the first worker's
	ISA     string `json:"isa"`     // instruction set of oneDNN, or compute capability: sm_90
	Kernels string `json:"kernels"` // instruction set of the own kernels; empty on GPUs, where they are PTX
	Cores   int    `json:"cores"`   // that the process may use
}

const attemptsFolder = "attempts"

func attemptFile(number int) string { return fmt.Sprintf("%03d.json", number) }

// ReadAttempt reads what is known of a run's attempt.
func ReadAttempt(run string, number int) (a Attempt, err error) {
	return a, readJSON(filepath.Join(run, attemptsFolder, attemptFile(number)), &a)
}

func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// relevant are the variables of the environment that what is computed, or how fast, may depend on.
var relevant = regexp.MustCompile(`^(OMP_|GOMP_|KMP_|DNNL_|ONEDNN_|MKL_|GOTRAIN_|CUDA_|NCCL_|UCX_|OMPI_MCA_btl|MALLOC_|GODEBUG$|GOMAXPROCS$|GOGC$|GOMEMLIMIT$|LD_LIBRARY_PATH$|LD_PRELOAD$)`)

func environment(all []string) map[string]string {
	found := map[string]string{}
	for _, v := range all {
		if name, value, ok := strings.Cut(v, "="); ok && relevant.MatchString(name) {
			found[name] = value
		}
	}
	return found
}

// examine finds what Attempt says of this process.
func (r *run) examine(number int, hosts []string) Attempt {
	info := cpu.Describe()
	a := Attempt{Number: number, Began: time.Now().UTC(), Process: os.Getpid(), Arguments: os.Args, Hash: r.cfg.Hash(), Values: r.cfg.Values(),
		Version: r.Version, Go: runtime.Version(), Binary: programSum(), Libraries: []Library{{"oneDNN", info.OneDNN}},
		Device:  r.device.facts(),
		Threads: r.Record.Threads, Team: r.team.String(), Hosts: hosts, Environment: environment(os.Environ())}
	a.Host, _ = os.Hostname()
	a.Directory, _ = os.Getwd()
	for _, f := range r.cfg.Files() {
		a.Files = append(a.Files, TextFile{f.Path, string(f.Content)})
	}
	if r.device.gpus != nil {
		a.Libraries = append(a.Libraries, Library{"CUDA driver", r.device.gpus.String()})
	}
	if r.device.provider != nil {
		a.Libraries = append(a.Libraries, Library{"cuDNN", r.device.provider.String()})
	}
	if group.Built {
		a.Libraries = append(a.Libraries, Library{"MPI", group.Version()})
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			a.Modules = append(a.Modules, Library{m.Path, m.Version})
		}
	}
	return a
}

// facts are what a record says of a device.
func (d device) facts() Device {
	if d.gpus == nil {
		info := cpu.Describe()
		return Device{Kind: "cpu", Model: processor(), ISA: info.ISA, Kernels: info.Kernels, Cores: cores.Usable()}
	}
	f := Device{Kind: "cuda", Model: d.String(), Cores: cores.Usable()}
	if d.gpus.Emulated() {
		f.Kind = "emulator"
	}
	if info, err := d.gpus.Info(d.first % d.gpus.Devices()); err == nil {
		f.Model, f.ISA = info.Name, fmt.Sprintf("sm_%d%d", info.Major, info.Minor)
	}
	return f
}

// programSum is the SHA-256 of the program's file; "" where it cannot be read any more.
func programSum() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	_, sum, err := newCheckpoints("", 0).digest(path)
	if err != nil {
		return ""
	}
	return sum
}

// processor is the model of the CPU, or the architecture where the system does not say.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// hostName is as much of a host's name as a message has room for.
const hostName = 64

// hosts are the names of the workers' hosts, in the leading process.
func (r *run) hosts() ([]string, error) {
	name, _ := os.Hostname()
	own := make([]float32, hostName)
	for i, c := range []byte(name[:min(len(name), hostName)]) {
		own[i] = float32(c)
	}
	all, err := r.gather(func(*worker) []float32 { return own })
	if err != nil {
		return nil, err
	}
	var names []string
	for _, letters := range all {
		var b []byte
		for _, c := range letters {
			if c != 0 {
				b = append(b, byte(c))
			}
		}
		names = append(names, string(b))
	}
	return names, nil
}

// recorder writes what becomes of an attempt. The leading process has it.
type recorder struct {
	*journal
	stop    context.CancelFunc // ends the search for the data's checksums
	summing bool               // it has begun
	done    chan error         // how it ended
}

// record begins the attempt's record.
func (r *run) record(ctx context.Context) error {
	hosts, err := r.hosts()
	if err != nil {
		return err
	}
	return r.team.agree(new(struct{}), func() error {
		j, attempts, err := openJournal(r.Dir)
		if err != nil {
			return err
		}
		r.recorder = &recorder{journal: j, stop: func() {}, done: make(chan error, 1)}
		a := r.examine(attempts+1, hosts)
		folder := filepath.Join(r.Dir, attemptsFolder)
		if err := makeFolder(r.store.files, folder); err != nil {
			return unwritable(folder, 0, err)
		}
		if _, err := writeFile(r.store.files, folder, jsonPart(attemptFile(a.Number), a)); err != nil {
			return err
		}
		if err := j.write(Event{Begin: &BeginEvent{a.Number, r.state.Step, a.Began}}); err != nil {
			return err
		}
		r.sumData(ctx, folder, a.Number)
		if r.Opened != nil {
			r.Opened(r.Dir)
		}
		return nil
	})
}

// sumData finds the checksums of the data's files while training begins.
func (r *run) sumData(ctx context.Context, folder string, number int) {
	paths := r.data.Files()
	if r.tests != nil {
		paths = append(paths, r.tests.Files()...)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	ctx, stop := context.WithCancel(ctx)
	r.recorder.stop, r.recorder.summing = stop, true
	go func() {
		files, err := SumData(ctx, filepath.Join(r.cfg.OutputDir, sumsFile), paths)
		if err == nil {
			_, err = writeFile(r.store.files, folder, jsonPart(dataFile(number), files))
		}
		r.recorder.done <- err
	}()
}

// recordStep is the hook that writes what a step has come to.
func (r *run) recordStep(s *Step) error {
	mb := s.Minibatch
	err := r.recorder.write(Event{Minibatch: &MinibatchEvent{Step: s.Step, Epoch: mb.Epoch + 1, Minibatch: mb.Index + 1, Sums: sumsOf(s.Metrics),
		Rate: Float(s.Update.Rate), Norm: Float(s.Norm), Bits: s.Bits, Seconds: Float(s.Elapsed.Seconds())}})
	if err != nil || !s.EpochEnd {
		return err
	}
	t := r.spent
	return r.recorder.write(Event{Epoch: &EpochEvent{Epoch: mb.Epoch + 1, Step: s.Step, Sums: sumsOf(s.Sums), Seconds: Float(s.Elapsed.Seconds()), Minibatches: t.steps,
		Compute: Float(t.compute().Seconds()), Quantize: Float(t.Encode.Seconds()), Decode: Float(t.Decode.Seconds()), Exchange: Float(t.Exposed.Seconds()),
		Data: Float(t.data.Seconds()), Bytes: t.Bytes}})
}

// recordTest writes what a test has come to.
func (r *run) recordTest(minibatches int, m graph.Metrics) error {
	if r.recorder == nil {
		return nil
	}
	return r.recorder.write(Event{Test: &TestEvent{Epoch: r.state.Epoch, Step: r.state.Step, Sums: sumsOf(m), Minibatches: minibatches}})
}

// recordCheckpoint writes what the checkpoint of a step consists of.
func (r *run) recordCheckpoint(step int64) error {
	if r.recorder == nil {
		return nil
	}
	m, err := r.store.readManifest(filepath.Join(r.store.folder(step), manifestName), step)
	if err != nil {
		return err
	}
	e := CheckpointEvent{step, map[string]string{}}
	for _, p := range m.Parts {
		e.Parts[p.Name] = p.SHA256
	}
	return r.recorder.write(Event{Checkpoint: &e})
}

// recordEnd writes how the attempt ended. Checksums that are not known by then are found by the next, unless it ended well.
func (r *run) recordEnd(err error) error {
	c := r.recorder
	if c == nil {
		return err
	}
	defer c.f.Close()
	if err != nil {
		c.stop()
	}
	if c.summing {
		if e := <-c.done; e != nil && err == nil {
			r.say.printf("warning: %v: the record lacks them", e)
		}
	}
	c.stop()
	end := &EndEvent{Status: status(err), Time: time.Now().UTC()}
	if err != nil {
		end.Error = err.Error()
	}
	if e := c.write(Event{End: end}); err == nil { // else its cause says more
		err = e
	}
	return err
}
