package main

import (
	"os"
	"syscall"
)

// spinCount is how often a waiting thread of OpenMP looks whether there is work before it gives its core back.
const spinCount = "30000"

// limitSpinning has libgomp's threads wait spinCount rounds. On an idle machine training is as fast as with libgomp's own,
// far larger number; where others compute too it was measured to be 2 to 8 times faster, because threads that wait leave
// them the core. OMP_WAIT_POLICY=passive, which never spins, loses 15 % on an idle machine.
//
// libgomp reads its settings when it is loaded, before main: the process executes its own program once more, as the same
// process. It does so only while nothing says how to wait, which the variable itself does from then on. Where that cannot
// be done, it goes on as it is.
func limitSpinning() {
	for _, name := range []string{"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} {
		if _, set := os.LookupEnv(name); set {
			return
		}
	}
	program, err := os.Executable()
	if err != nil {
		return
	}
	syscall.Exec(program, os.Args, append(os.Environ(), "GOMP_SPINCOUNT="+spinCount))
}

// userEnv reads the environment without what limitSpinning has put there.
func userEnv(name string) string {
	if v := os.Getenv(name); name != "GOMP_SPINCOUNT" || v != spinCount {
		return v
	}
	return ""
}
