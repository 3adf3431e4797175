// Package cudatest chooses what tests of package cuda and its kernels run on.
package cudatest

import (
	"fmt"
	"os"
	"testing"

	"gotrain/cuda/driver"
	"gotrain/cuda/emulator"
)

// Variable is the environment variable that says what tests run on: "cuda" stands for this machine's GPUs, which is what
// device-check.sh asks for; nothing, or "emulator", for emulated ones.
const Variable = "GOTRAIN_TEST_DEVICE"

// OnGPUs says whether tests run on this machine's GPUs.
func OnGPUs() bool { return os.Getenv(Variable) == "cuda" }

// Open gives the driver of the tests, with o where it is the emulator. This machine's can have fewer devices.
func Open(o emulator.Options) (driver.Driver, error) {
	switch where := os.Getenv(Variable); where {
	case "", "emulator":
		return emulator.New(o), nil
	case "cuda":
		return driver.Open()
	default:
		return nil, fmt.Errorf("%s: %s: tests run on cuda or on the emulator", Variable, where)
	}
}

// Driver is Open for a test, which it ends where there is none.
func Driver(t testing.TB, o emulator.Options) driver.Driver {
	t.Helper()
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
