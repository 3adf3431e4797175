// Package cores counts the CPUs that the processes of a training may compute on together.
//
// A limit that somebody has set for this process counts: its affinity mask (taskset, a container's cpuset), and the CPU
// quota of its cgroup, rounded up as Go's runtime does. Under mpiexec the mask is no such limit, for it binds each process
// to its own core or two, and a mask divided by the number of workers would leave one thread for each: there the host's
// CPUs count that are online, or those of the cgroup's cpuset. So every process of one host comes to the same number, and
// to the one that a single process with as many workers would.
package cores

import (
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Usable is the number of CPUs to compute on, at least 1.
func Usable() int { return usable(os.DirFS("/"), runtime.NumCPU(), os.Getenv) }

// Online is the number of the host's CPUs that are online, or of those in this process' mask where that cannot be read.
func Online() int { return online(os.DirFS("/"), runtime.NumCPU()) }

// launched are variables that mpiexec sets for the processes that it starts: Open MPI's, and MPICH's and Slurm's.
var launched = []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}

func usable(root fs.FS, mask int, getenv func(string) string) int {
	n := mask
	groups := groups(root)
	if slices.ContainsFunc(launched, func(v string) bool { return getenv(v) != "" }) {
		n = online(root, mask)
		for _, dir := range groups {
			for _, name := range []string{"cpuset.cpus.effective", "cpuset.effective_cpus"} {
				if set := list(read(root, path.Join(dir, name))); set > 0 {
					n = min(n, set)
				}
			}
		}
	}
	for _, dir := range groups {
		if q := quota(root, dir); q > 0 {
			n = min(n, q)
		}
	}
	return max(n, 1)
}

func online(root fs.FS, mask int) int {
	if n := list(read(root, "sys/devices/system/cpu/online")); n > 0 {
		return n
	}
	return mask
}

// groups are the folders of the process' cgroups, version 2 and 1, and of all that they lie in. Inside a container the
// names may be the host's, whose folders are not there: then the mount itself is the container's.
func groups(root fs.FS) (dirs []string) {
	for line := range strings.Lines(read(root, "proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy, controllers, path
		if len(parts) != 3 {
			continue
		}
		mounts := []string{"sys/fs/cgroup"}
		if parts[1] != "" {
			mounts = nil
			for _, c := range strings.Split(parts[1], ",") {
				if c == "cpu" || c == "cpuset" {
					mounts = append(mounts, path.Join("sys/fs/cgroup", c))
				}
			}
		}
		for _, mount := range mounts {
			for dir := path.Join(mount, parts[2]); strings.HasPrefix(dir, mount); dir = path.Dir(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// quota is the time that a cgroup's processes get in a period, in periods; 0: no limit.
func quota(root fs.FS, dir string) int {
	limit, period, _ := strings.Cut(strings.TrimSpace(read(root, path.Join(dir, "cpu.max"))), " ")
	if limit == "" {
		limit = strings.TrimSpace(read(root, path.Join(dir, "cpu.cfs_quota_us")))
		period = strings.TrimSpace(read(root, path.Join(dir, "cpu.cfs_period_us")))
	}
	l, err := strconv.Atoi(limit) // "max" and -1 are no limit
	p, e := strconv.Atoi(period)
	if err != nil || e != nil || l <= 0 || p <= 0 {
		return 0
	}
	return (l + p - 1) / p
}

// list counts the CPUs of a list such as 0-3,8; 0: it is none.
func list(text string) (n int) {
	for _, part := range strings.Split(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err := strconv.Atoi(first)
		b, e := strconv.Atoi(last)
		if err != nil || e != nil || b < a {
			return 0
		}
		n += b - a + 1
	}
	return n
}

// read gives a file's text, "" where there is none.
func read(root fs.FS, name string) string {
	b, _ := fs.ReadFile(root, name)
	return string(b)
}
