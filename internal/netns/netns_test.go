package netns

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestHostsAreShapedAndLeaveNothingBehind(t *testing.T) {
	n, err := New(2, "10mbit")
	if err != nil {
		t.Skip(err)
	}
	defer n.Close()
	other, err := New(1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for h, name := range []string{n.host(0), n.host(1), other.host(0)} {
		out, err := exec.Command("ip", "netns", "exec", name, "tc", "qdisc", "show", "dev", "eth0").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if shaped := strings.Contains(string(out), "tbf") && strings.Contains(string(out), "rate 10Mbit"); shaped != (h < 2) {
			t.Errorf("the queue of %s is %s", name, out)
		}
	}
	c := exec.Command("ip", "netns", "exec", n.host(1), "sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for { // until the program is in the namespace
		if out, _ := exec.Command("ip", "netns", "pids", n.host(1)).Output(); len(out) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	n.Close()
	if err := c.Wait(); err == nil || time.Since(start) > 30*time.Second {
		t.Errorf("a program on a host ended with %v, %v after the host", err, time.Since(start))
	}
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), n.prefix) || !strings.Contains(string(out), other.prefix) {
		t.Errorf("%s is closed and %s is not, and the namespaces are\n%s", n.prefix, other.prefix, out)
	}
}

func TestARateThatTcDoesNotKnowIsAnError(t *testing.T) {
	n, err := New(1, "")
	if err != nil {
		t.Skip(err)
	}
	n.Close()
	if n, err = New(1, "fast"); err == nil {
		n.Close()
		t.Fatal("there is a network")
	}
	if !strings.Contains(err.Error(), "rate fast") {
		t.Errorf("error %v", err)
	}
}
