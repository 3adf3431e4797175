package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotrain/distributed/group"
	"gotrain/internal/synthetic"
)

// block is a fenced block of a document.
type block struct {
	line     int
	language string
	text     string
	shorter  string // overrides that make its training short, from a comment before it: <!-- test: key=value ... -->
}

var shorter = regexp.MustCompile(`^<!-- test: (.*) -->$`)

func blocks(document string) (all []block) {
	var current *block
	args := ""
	for n, line := range strings.Split(document, "\n") {
		switch {
		case current != nil && line == "```":
			all = append(all, *current)
			current, args = nil, ""
		case current != nil:
			current.text += line + "\n"
		case strings.HasPrefix(line, "```"):
			current = &block{line: n + 2, language: line[3:], shorter: args}
		case shorter.MatchString(line):
			args = shorter.FindStringSubmatch(line)[1]
		}
	}
	return all
}

// TestEverySnippetOfTheDocumentsWorks runs each document as a newcomer would, from top to bottom in one folder: yaml blocks
// become the files that their first lines name, sh blocks run, text blocks have to be in what the block before them said,
// numbers aside.
func TestEverySnippetOfTheDocumentsWorks(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(documents, "../../README.md") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			d := newcomer{dir: t.TempDir()}
			d.prepare(t)
			for _, b := range blocks(string(text)) {
				d.work(t, b)
			}
		})
	}
}

// newcomer is a folder with data and a program, and what was said last.
type newcomer struct {
	dir  string
	said string
}

// prepare puts the program into bin, behind a script that shortens training, and data where the documents have it.
func (d *newcomer) prepare(t *testing.T) {
	t.Helper()
	script := "#!/bin/sh\ncase \"$1\" in -config|sweep) exec '" + binary + "' \"$@\" $SHORTER;; esac\nexec '" + binary + "' \"$@\"\n"
	bin := filepath.Join(d.dir, "bin")
	for _, err := range []error{
		os.Mkdir(bin, 0o777),
		os.WriteFile(filepath.Join(bin, "gotrain"), []byte(script), 0o777),
		synthetic.CIFAR10(filepath.Join(d.dir, "cifar-10-batches-bin"), 40),
		synthetic.Images(filepath.Join(d.dir, "flowers", "train"), []string{"daisy", "rose"}, 4, 80),
		synthetic.Images(filepath.Join(d.dir, "flowers", "test"), []string{"daisy", "rose"}, 2, 80),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

var (
	fileName = regexp.MustCompile(`^# (\S+\.yaml)\n`)
	number   = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
)

func (d *newcomer) work(t *testing.T, b block) {
	t.Helper()
	switch b.language {
	case "sh":
		if strings.HasPrefix(b.text, "make ") {
			targets(t, b)
			return
		}
		if strings.Contains(b.text, "mpiexec") && !canMPI() {
			t.Logf("line %d: not run without MPI", b.line)
			return
		}
		c := exec.Command("sh", "-eu", "-c", b.text)
		c.Dir = d.dir
		c.Env = append(environment(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PATH="+filepath.Join(d.dir, "bin")+":"+os.Getenv("PATH"), "SHORTER="+b.shorter)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("line %d: %v\n%s%s", b.line, err, b.text, out)
		}
		d.said = string(out)
	case "yaml":
		name := fileName.FindStringSubmatch(b.text)
		if name == nil {
			t.Fatalf("line %d: a yaml block does not begin with its name, # FILE.yaml", b.line)
		}
		if err := os.WriteFile(filepath.Join(d.dir, name[1]), []byte(b.text), 0o666); err != nil {
			t.Fatal(err)
		}
		load := []string{"check", "-print", name[1]}
		if strings.Contains(b.text, "\nsweep:") {
			load = []string{"sweep", "-dry-run", "-config", name[1]}
		}
		if r := gotrain(t, d.dir, load...); r.status != 0 {
			t.Errorf("line %d: %s does not load:\n%s", b.line, name[1], r.log)
		}
	case "text":
		said := number.ReplaceAllString(d.said, "N")
		for line := range strings.Lines(b.text) {
			if !strings.Contains(said, number.ReplaceAllString(line, "N")) {
				t.Errorf("line %d: nothing said before has the form of\n%sbut it was\n%s", b.line, line, d.said)
			}
		}
	default:
		t.Errorf("line %d: a block of language %q is tested by nothing: use sh, yaml or text", b.line, b.language)
	}
}

// canMPI tells whether the program under test runs under mpiexec.
func canMPI() bool {
	_, err := exec.LookPath("mpiexec")
	return err == nil && group.Built
}

// targets checks that what a block makes is in the Makefile. Running it would run this test.
func targets(t *testing.T, b block) {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.text) {
		target, ok := strings.CutPrefix(strings.TrimSpace(line), "make ")
		if !ok || !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(target)+`:`).Match(makefile) {
			t.Errorf("line %d: %q makes nothing that the Makefile has", b.line, strings.TrimSpace(line))
		}
	}
}

func TestLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(documents, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Error(fmt.Errorf("%s: a link leads nowhere: %w", filepath.Base(path), err))
			}
		}
	}
}
