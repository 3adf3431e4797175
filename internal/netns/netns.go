// Package netns makes networks of virtual hosts on this machine, for tests and measurements of jobs on several hosts: network
// namespaces that a bridge connects, with links as slow as wanted. Processes of different hosts talk by TCP alone. It needs
// root and iproute2, and starts processes by Open MPI. What the hosts share is everything else: cores, memory, files.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// Network is a number of virtual hosts.
type Network struct {
	prefix string // of the namespaces' names
	hosts  int
	dir    string
	rsh    string // the program that mpiexec starts its daemons with
}

var made atomic.Int32 // networks of this process: their names differ

// New makes a network of hosts that each send rate at most, as tc writes it: 100mbit, 1gbit; "" for no limit. The error says
// what is missing. Close removes it.
func New(hosts int, rate string) (*Network, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("virtual hosts can be made by root alone")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, errors.New("ip is not installed: tools/setup.sh ip")
	}
	dir, err := os.MkdirTemp("", "netns")
	if err != nil {
		return nil, err
	}
	n := &Network{prefix: fmt.Sprintf("gotrain%d-%d-", os.Getpid(), made.Add(1)), hosts: hosts, dir: dir, rsh: filepath.Join(dir, "rsh")}
	if err := n.build(rate); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Network) build(rate string) error {
	bridge := n.bridge()
	commands := []string{
		"netns add " + bridge,
		"-n " + bridge + " link add bridge type bridge",
		"-n " + bridge + " link set bridge up",
	}
	names := ""
	for h := range n.hosts {
		host, port := n.host(h), port(h)
		commands = append(commands,
			"netns add "+host,
			"link add eth0 netns "+host+" type veth peer name "+port+" netns "+bridge,
			"-n "+bridge+" link set "+port+" master bridge up",
			"-n "+host+" addr add "+n.Address(h)+"/24 dev eth0",
			"-n "+host+" link set lo up",
			"-n "+host+" link set eth0 up")
		if rate != "" {
			commands = append(commands, "netns exec "+host+" tc qdisc add dev eth0 root tbf burst 64kb latency 20ms rate "+rate)
		}
		if err := os.Mkdir(filepath.Join(n.dir, host), 0o700); err != nil {
			return err
		}
		names += fmt.Sprintf("%s) host=%s;; ", n.Address(h), host)
	}
	for _, words := range commands {
		if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", words, err, out) // a container, most often
		}
	}
	// Open MPI's daemons make a folder for their job at the same time, and the second one fails where it is the same folder.
	script := fmt.Sprintf("#!/bin/sh\ncase $1 in %sesac\nshift\nexport TMPDIR=%s/$host\nexec ip netns exec $host sh -c \"$*\"\n", names, n.dir)
	return os.WriteFile(n.rsh, []byte(script), 0o777)
}

func (n *Network) bridge() string    { return n.prefix + "bridge" }
func (n *Network) host(h int) string { return fmt.Sprintf("%s%d", n.prefix, h) }
func port(h int) string              { return fmt.Sprintf("port%d", h) }

// Address of a host: within its own namespaces it meets no other network. Its interface is eth0.
func (n *Network) Address(h int) string { return fmt.Sprintf("10.83.0.%d", h+1) }

// Mpiexec is the start of a command that runs a program as one process on each host; variables of these names go with it.
func (n *Network) Mpiexec(variables []string) []string {
	var hosts []string
	for h := range n.hosts {
		hosts = append(hosts, n.Address(h)+":1")
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
	return exec.Command("ip", "-n", n.bridge(), "link", "set", port(host), "down").Run()
}

// Kill ends what runs on the hosts.
func (n *Network) Kill() {
	for _, name := range n.names() {
		out, err := exec.Command("ip", "netns", "pids", name).Output()
		if err != nil {
			continue // there is none
		}
		if pids := strings.Fields(string(out)); len(pids) > 0 {
			_ = exec.Command("kill", append([]string{"-KILL"}, pids...)...).Run()
		}
	}
}

// Close ends what runs on the hosts, and removes them.
func (n *Network) Close() {
	n.Kill()
	for _, name := range n.names() {
		_ = exec.Command("ip", "netns", "del", name).Run() // it may not have been made
	}
	_ = os.RemoveAll(n.dir)
}

func (n *Network) names() []string {
	all := []string{n.bridge()}
	for h := range n.hosts {
		all = append(all, n.host(h))
	}
	return all
}
