package grouptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Network is a number of virtual hosts on this machine, network namespaces that a bridge connects. Processes of different
// hosts talk by TCP alone, at the rate of their links.
type Network struct {
	prefix string // of the namespaces' names
	hosts  int
	rsh    string // the program that mpiexec starts its daemons with
}

// NewNetwork makes a network of hosts that each send rate at most, as tc writes it: 100mbit, 1gbit; "" for no limit. The test
// is skipped where that is not possible, and removes the network when it ends.
func NewNetwork(t testing.TB, hosts int, rate string) *Network {
	t.Helper()
	Skip(t)
	if os.Geteuid() != 0 {
		t.Skip("virtual hosts can be made by root alone")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip is not installed: tools/setup.sh ip")
	}
	if Arguments() == nil {
		t.Skip("virtual hosts are made for Open MPI")
	}
	n := &Network{prefix: fmt.Sprintf("gotrain%d-", os.Getpid()), hosts: hosts, rsh: filepath.Join(t.TempDir(), "rsh")}
	n.remove()
	t.Cleanup(n.remove)
	ip := func(words string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			t.Skipf("ip %s: %v: %s", words, err, out) // a container, most often
		}
	}
	bridge := n.prefix + "bridge"
	ip("netns add " + bridge)
	ip("-n " + bridge + " link add bridge type bridge")
	ip("-n " + bridge + " link set bridge up")
	names := ""
	for h := range hosts {
		host, port := n.host(h), fmt.Sprintf("port%d", h)
		ip("netns add " + host)
		ip("link add eth0 netns " + host + " type veth peer name " + port + " netns " + bridge)
		ip("-n " + bridge + " link set " + port + " master bridge up")
		ip("-n " + host + " addr add " + address(h) + "/24 dev eth0")
		ip("-n " + host + " link set lo up")
		ip("-n " + host + " link set eth0 up")
		if rate != "" {
			ip("netns exec " + host + " tc qdisc add dev eth0 root tbf burst 64kb latency 20ms rate " + rate)
		}
		names += fmt.Sprintf("%s) host=%s;; ", address(h), host)
	}
	script := fmt.Sprintf("#!/bin/sh\ncase $1 in %sesac\nshift\nexec ip netns exec $host sh -c \"$*\"\n", names)
	if err := os.WriteFile(n.rsh, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *Network) host(h int) string { return fmt.Sprintf("%s%d", n.prefix, h) }

// address of a host: within its own namespaces it meets no other network.
func address(h int) string { return fmt.Sprintf("10.83.0.%d", h+1) }

// Mpiexec is the start of a command that runs a program as one process on each host; variables of these names go with it.
func (n *Network) Mpiexec(variables []string) []string {
	var hosts []string
	for h := range n.hosts {
		hosts = append(hosts, address(h)+":1")
	}
	words := []string{"ip", "netns", "exec", n.host(0), "mpiexec", "--allow-run-as-root", "--bind-to", "none",
		"--mca", "plm_rsh_agent", n.rsh, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
		"--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "--mca", "orte_leave_session_attached", "1",
		"-host", strings.Join(hosts, ","), "-n", fmt.Sprint(n.hosts)}
	for _, v := range variables {
		words = append(words, "-x", v)
	}
	return words
}

// Cut takes a host off the network.
func (n *Network) Cut(host int) error {
	return exec.Command("ip", "-n", n.prefix+"bridge", "link", "set", fmt.Sprintf("port%d", host), "down").Run()
}

// remove ends what runs on the hosts, and removes them.
func (n *Network) remove() {
	for _, name := range append([]string{n.prefix + "bridge"}, n.names()...) {
		out, err := exec.Command("ip", "netns", "pids", name).Output()
		if err != nil {
			continue // there is none
		}
		if pids := strings.Fields(string(out)); len(pids) > 0 {
			_ = exec.Command("kill", append([]string{"-KILL"}, pids...)...).Run()
		}
		_ = exec.Command("ip", "netns", "del", name).Run()
	}
}

func (n *Network) names() []string {
	var all []string
	for h := range n.hosts {
		all = append(all, n.host(h))
	}
	return all
}
