package cores

import (
	"testing"
	"testing/fstest"
)

func TestWhatLimitsTheCores(t *testing.T) {
	const cpus = "sys/devices/system/cpu/online"
	for _, c := range []struct {
		name  string
		files map[string]string
		mask  int
		mpi   string
		want  int
	}{
		{"the mask, where nothing else is known", nil, 3, "", 3},
		{"the mask of taskset", map[string]string{cpus: "0-7\n"}, 2, "", 2},
		{"not the mask under Open MPI", map[string]string{cpus: "0-7\n"}, 1, "OMPI_COMM_WORLD_SIZE", 8},
		{"not the mask under MPICH", map[string]string{cpus: "0-3,8-9,11\n"}, 1, "PMI_SIZE", 7},
		{"the mask under MPI where the host says nothing", nil, 2, "PMIX_RANK", 2},
		{"a cpuset under MPI", map[string]string{cpus: "0-63\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpuset.cpus.effective": "4-7\n"}, 1, "PMI_SIZE", 4},
		{"a cpuset of version 1 under MPI", map[string]string{cpus: "0-63\n", "proc/self/cgroup": "3:cpuset:/a\n1:cpu,cpuacct:/a\n",
			"sys/fs/cgroup/cpuset/cpuset.effective_cpus": "0-15\n", "sys/fs/cgroup/cpuset/a/cpuset.effective_cpus": "0,2\n"}, 1, "PMI_SIZE", 2},
		{"a quota", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 8, "", 3},
		{"the least quota of all groups above", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
			"sys/fs/cgroup/a/cpu.max": "200000 100000\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 8, "", 2},
		{"a quota under MPI", map[string]string{cpus: "0-7\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "600000 100000\n"}, 1, "PMI_SIZE", 6},
		{"less than a core", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1000 100000\n"}, 8, "", 1},
		{"a quota of version 1 in a container", map[string]string{"proc/self/cgroup": "1:cpu,cpuacct:/docker/1f\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 8, "", 4},
		{"no quota of version 1", map[string]string{"proc/self/cgroup": "1:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 8, "", 8},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		got := usable(root, c.mask, func(name string) string { return map[string]string{c.mpi: "2"}[name] })
		if got != c.want {
			t.Errorf("%s: %d cores, want %d", c.name, got, c.want)
		}
	}
}

func TestThisMachineHasCores(t *testing.T) {
	if n := Usable(); n < 1 || n > Online() {
		t.Errorf("%d of %d", n, Online())
	}
}
