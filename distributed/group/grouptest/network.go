package grouptest

import (
	"testing"

	"gotrain/internal/netns"
)

// Network is a number of virtual hosts on this machine.
type Network = netns.Network

// NewNetwork makes a network of hosts that each send rate at most, as netns.New does. The test is skipped where that is not
// possible, and removes the network when it ends.
func NewNetwork(t testing.TB, hosts int, rate string) *Network {
	t.Helper()
	Skip(t)
	if Arguments() == nil {
		t.Skip("virtual hosts are made for Open MPI")
	}
	n, err := netns.New(hosts, rate)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(n.Close)
	return n
}
