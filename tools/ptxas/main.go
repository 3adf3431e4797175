// Command ptxas assembles every kernel with NVIDIA's assembler, for sm_80, sm_90 and the newest that it knows, and writes what each takes
// of a multiprocessor into the table of docs/cuda.md: make ptxas runs it. A kernel that spills registers is an error, and so is one
// that limits.go says nothing of.
//
// It needs no GPU. Drivers compile the same PTX with an assembler of their own.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gotrain/cuda/kernels"
)

const (
	begin = "<!-- ptxas: make ptxas writes what follows -->\n"
	end   = "<!-- ptxas: end -->\n"
)

func main() {
	doc := flag.String("doc", "docs/cuda.md", "the file whose table is rewritten")
	flag.Parse()
	if err := run(*doc); err != nil {
		fmt.Fprintln(os.Stderr, "ptxas:", err)
		os.Exit(1)
	}
}

func run(doc string) error {
	assembler, err := find()
	if err != nil {
		return err
	}
	architectures, err := architectures(assembler)
	if err != nil {
		return err
	}
	var all []usage
	for _, s := range kernels.Sources() {
		u, err := assemble(assembler, architectures, s)
		if err != nil {
			return err
		}
		all = append(all, u...)
	}
	version, err := exec.Command(assembler, "--version").Output()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", assembler, err)
	}
	limited, err := limits(all)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("ptxas %s.\n\n%s\n%s", release(version), limited, table(architectures, all))
	fmt.Print(text)
	if err := rewrite(doc, text); err != nil {
		return err
	}
	return spilled(all)
}

// find looks for ptxas in $PTXAS, in PATH and where make setup-ptxas puts it.
func find() (string, error) {
	if p := os.Getenv("PTXAS"); p != "" {
		return p, nil
	}
	if p, err := exec.LookPath("ptxas"); err == nil {
		return p, nil
	}
	if found, _ := filepath.Glob(".cache/ptxas/nvidia/*/bin/ptxas"); len(found) > 0 {
		return found[len(found)-1], nil
	}
	return "", errors.New("ptxas is neither in PATH nor in .cache/ptxas: make setup-ptxas gets it with pip, or let PTXAS name it")
}

var number = regexp.MustCompile(`\d+`)

// architectures are those that the kernels are assembled for: sm_80, sm_90 and the assembler's newest.
func architectures(assembler string) ([]string, error) {
	list, err := exec.Command(assembler, "--list-arch").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its architectures: %w", assembler, err)
	}
	newest := 90
	for _, n := range number.FindAllString(string(list), -1) {
		if v, err := strconv.Atoi(n); err == nil {
			newest = max(newest, v)
		}
	}
	return slices.Compact([]string{"sm_80", "sm_90", fmt.Sprint("sm_", newest)}), nil
}

// usage is what a kernel takes, by architecture.
type usage struct {
	kernel    string
	registers []int // a thread
	shared    int   // bytes a block, without what a launch adds
	spills    int   // bytes, stores and loads, of all architectures
}

var (
	entryLine = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	spillLine = regexp.MustCompile(`(\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedLine  = regexp.MustCompile(`Used (\d+) registers`)
	smemLine  = regexp.MustCompile(`(\d+) bytes smem`)
)

// assemble assembles one file, and returns its kernels in the order of the file.
func assemble(assembler string, architectures []string, s kernels.Source) ([]usage, error) {
	uses := map[string]*usage{}
	for _, a := range architectures {
		c := exec.Command(assembler, "-arch="+a, "-v", "-o", os.DevNull, "-")
		c.Args[len(c.Args)-1] = "/dev/stdin"
		c.Stdin = bytes.NewReader(s.PTX)
		out, err := c.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s for %s: %w\n%s", s.Name, a, err, out)
		}
		read(string(out), uses)
	}
	var all []usage
	for _, name := range s.Kernels {
		u := uses[name]
		if u == nil || len(u.registers) != len(architectures) {
			return nil, fmt.Errorf("%s: the assembler says nothing of kernel %s for one of %s", s.Name, name, strings.Join(architectures, ", "))
		}
		all = append(all, *u)
	}
	return all, nil
}

// read takes what the assembler says with -v.
func read(out string, uses map[string]*usage) {
	var u *usage
	atoi := func(s string) int { n, _ := strconv.Atoi(s); return n }
	for line := range strings.Lines(out) {
		if m := entryLine.FindStringSubmatch(line); m != nil {
			if u = uses[m[1]]; u == nil {
				u = &usage{kernel: m[1]}
				uses[m[1]] = u
			}
		}
		if u == nil {
			continue
		}
		if m := spillLine.FindStringSubmatch(line); m != nil {
			u.spills += atoi(m[1]) + atoi(m[2])
		}
		if m := usedLine.FindStringSubmatch(line); m != nil {
			u.registers = append(u.registers, atoi(m[1]))
			if m := smemLine.FindStringSubmatch(line); m != nil {
				u.shared = max(u.shared, atoi(m[1]))
			}
		}
	}
}

// release is the last line of --version, which names it.
func release(version []byte) string {
	m := regexp.MustCompile(`release [\d.]+`).FindString(string(version))
	if m == "" {
		return "of unknown release"
	}
	return m
}

// table is the kernels' use of a multiprocessor.
func table(architectures []string, all []usage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| kernel | registers, %s | shared bytes | spilled bytes |\n|---|---|---:|---:|\n", strings.Join(architectures, " / "))
	for _, u := range all {
		var r []string
		for _, n := range u.registers {
			r = append(r, strconv.Itoa(n))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d |\n", u.kernel, strings.Join(r, " / "), u.shared, u.spills)
	}
	return b.String()
}

func spilled(all []usage) error {
	var names []string
	for _, u := range all {
		if u.spills > 0 {
			names = append(names, u.kernel)
		}
	}
	if names != nil {
		return fmt.Errorf("registers spill in %s: see the table; bound the block (__launch_bounds__), or unroll less", strings.Join(names, ", "))
	}
	return nil
}

// rewrite puts text between the marks of a file.
func rewrite(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no lines %q and %q to write the table between", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	changed := before + begin + "\n" + text + "\n" + end + after
	if changed == string(old) {
		return nil
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}
