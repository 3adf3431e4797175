// Package doctor finds out what a machine has for training: oneDNN and its instruction sets, cores and memory, MPI, and
// NVIDIA's driver, cuDNN and NCCL. It looks where the dynamic loader looks, and for programs in PATH.
//
// It measures nothing and changes nothing.
package doctor

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"gotrain/cpu"
	"gotrain/cuda/driver"
	"gotrain/distributed/group"
	"gotrain/internal/cores"
)

// Finding is what is known of one thing.
type Finding struct {
	What   string
	State  string // what was found, or that nothing was
	Advice string // how to get or mend it; empty where nothing is to be done
}

// The names under which libraries are loaded that a machine may lack, the newest first.
var (
	mpiNames   = []string{"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi.so"}
	cudnnNames = []string{"libcudnn.so.9"}
	ncclNames  = []string{"libnccl.so.2"}
)

// Examine looks at this machine; getenv reads the environment.
func Examine(getenv func(string) string) []Finding {
	info := cpu.Describe()
	findings := []Finding{
		{What: "oneDNN", State: fmt.Sprintf("%s, instruction set %s", info.OneDNN, info.ISA)},
		{What: "own kernels", State: info.Kernels},
		threads(cores.Online(), cores.Usable()),
		openMP(getenv),
		mpi(group.Version(), exec.LookPath),
	}
	return append(append(findings, gpus()...),
		library("cuDNN", cudnnNames, cudnnVersion, "for convolutions on GPUs: install libcudnn9 from NVIDIA's repository"),
		library("NCCL", ncclNames, ncclVersion, "for exchange between GPUs: install libnccl2 from NVIDIA's repository"),
	)
}

// threads compares the host's cores with those that threads: auto counts.
func threads(host, usable int) Finding {
	f := Finding{What: "cores", State: fmt.Sprint(host)}
	if usable < host {
		f.State = fmt.Sprintf("%d, of which an affinity mask or a container's limit leaves %d", host, usable)
	}
	return f
}

// openMP lists the settings of the threads that compute: some make them slow.
func openMP(getenv func(string) string) Finding {
	f := Finding{What: "OpenMP", State: "default settings"}
	var set []string
	for _, name := range []string{"OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT"} {
		if v := getenv(name); v != "" {
			set = append(set, name+"="+v)
		}
	}
	if len(set) > 0 {
		f.State = strings.Join(set, " ")
		f.Advice = "these come from the environment: unset them where training is slow"
	}
	return f
}

// The advices to install MPI, and to build with it.
const (
	installMPI = "for several machines: apt-get install openmpi-bin libopenmpi-dev, then make build"
	buildMPI   = "for several machines: make build, which builds with the MPI of mpicc"
)

// mpi tells the MPI in this binary, whose version is "" where there is none, and looks for the compiler that builds one and
// the program that starts processes.
func mpi(built string, lookPath func(string) (string, error)) Finding {
	f := Finding{What: "MPI", State: "in this binary: " + built}
	if built == "" {
		f = library("MPI", mpiNames, mpiVersion, installMPI)
		f.State = "not in this binary; here: " + f.State
		if f.Advice == "" {
			f.Advice = buildMPI
		}
	}
	for _, program := range []string{"mpicc", "mpiexec"} {
		path, err := lookPath(program)
		if err != nil {
			path = "no " + program
			if program == "mpiexec" || built == "" {
				f.Advice = installMPI
			}
		}
		f.State += ", " + path
	}
	return f
}

// gpus asks NVIDIA's driver for its version and its devices, by the calls that training makes.
func gpus() []Finding {
	d, err := driver.Open()
	if err != nil {
		return []Finding{lacking("CUDA driver", err)}
	}
	found := []Finding{{What: "CUDA driver", State: fmt.Sprintf("for CUDA %s, devices: %d", strings.TrimPrefix(d.String(), "CUDA driver "), d.Devices())}}
	for i := range d.Devices() {
		what := fmt.Sprintf("GPU %d", i)
		info, err := d.Info(i)
		if err == nil {
			err = info.Supported()
		}
		if err != nil {
			found = append(found, lacking(what, err))
			continue
		}
		found = append(found, Finding{What: what, State: fmt.Sprintf("%s, compute capability %d.%d, %d multiprocessors, %.1f GiB",
			info.Name, info.Major, info.Minor, info.Multiprocessors, float64(info.Memory)/(1<<30))})
	}
	return found
}

// lacking tells why a GPU cannot be used, on one line, and what to do about it.
func lacking(what string, err error) Finding {
	var u *driver.Unavailable
	if errors.As(err, &u) {
		return Finding{what, u.Text, "for NVIDIA GPUs: " + u.Remedy}
	}
	return Finding{what, "does not work: " + err.Error(), "see what nvidia-smi says"}
}

// library describes a library that may be missing.
func library(what string, names []string, version func(handle) string, advice string) Finding {
	h, name, err := open(names)
	switch {
	case err != nil:
		return Finding{what, fmt.Sprintf("found, but does not load: %v", err), advice}
	case h.p == nil:
		return Finding{what, "not found (" + strings.Join(names, ", ") + ")", advice}
	}
	return Finding{What: what, State: strings.TrimSpace(name + " " + version(h))}
}

// Write prints findings in two columns, advice below.
func Write(w io.Writer, findings []Finding) {
	for _, f := range findings {
		fmt.Fprintf(w, "%-12s %s\n", f.What, f.State)
		if f.Advice != "" {
			fmt.Fprintf(w, "%-12s   %s\n", "", f.Advice)
		}
	}
}
