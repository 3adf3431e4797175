package group

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// launchers are the programs that start the processes of a job, on the first host and on others.
var launchers = []string{"mpiexec", "mpirun", "orterun", "orted", "prterun", "prted", "mpiexec.hydra", "hydra_pmi_proxy"}

// A job that is ended takes its launchers about a second. Open MPI's wait for ever for the one of a host that is cut off, and
// that one for them: they get two and a half. (A polite signal does not help: mpiexec answers that it is ending already, and
// crashes at a second one.)
const endLauncher = `i=0
while kill -0 "$1" 2>/dev/null && [ "$(cat "/proc/$1/comm")" = "$2" ]; do
	[ $i -lt 25 ] || exec kill -KILL "$1"
	i=$((i + 1))
	sleep 0.1
done 2>/dev/null`

// superviseEnd sees to it that the launcher of this process ends after the job has been ended. A process of its own does:
// this one will soon be gone.
func superviseEnd() {
	pid := os.Getppid()
	comm, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "comm"))
	name := strings.TrimSpace(string(comm))
	if err != nil || !slices.Contains(launchers, name) {
		return // srun, a shell, another system
	}
	c := exec.Command("/bin/sh", "-c", endLauncher, "sh", fmt.Sprint(pid), name)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // launchers kill process groups
	_ = c.Start()                                      // without it, all is as it was
}
