package configs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func loadEnv(t *testing.T, text string, env map[string]string, args ...string) (*Config, error) {
	t.Helper()
	dir := write(t, map[string]string{"c.yaml": text})
	return Load("c.yaml", args, WithDir(dir), WithHome("/home/u"), environment(env))
}

func TestVariablesAreReplacedByTheirText(t *testing.T) {
	env := map[string]string{"N": "8", "ON": "true", "DIR": "/data", "EMPTY": "", "ODD": "$x$ ${Y} # *a: [b", "RATES": "1*2:0.5"}
	for _, test := range []struct {
		text, key, want string
	}{
		{"threads: ${N}", "threads", "8"},
		{"threads: \"${N}\"", "threads", "8"},
		{"threads: ${NO:-3}", "threads", "3"},
		{"threads: ${EMPTY:-4}", "threads", "4"},
		{"threads: ${NO:-auto}", "threads", "auto"},
		{"network: {batchNorm: {sync: \"${ON}\"}, depth: 8}", "network.batchNorm.sync", "true"},
		{"outputDir: ${DIR}/runs", "outputDir", "/data/runs"},
		{"outputDir: ${NO:-${ALSO:-~/r}}", "outputDir", "/home/u/r"},
		{"outputDir: /a/${NO:-$device$}/$NAME$/$seed$", "outputDir", "/a/auto/c/1"},
		{"vars: {A: $b$/x, b: \"${DIR}\"}\noutputDir: $a$", "outputDir", "/data/x"},
		{"vars: {seed: 7}\nthreads: $seed$", "threads", "7"},
		{"vars: {n: 007}\nname: a$n$", "name", "a007"},
		{"name: cost$$5$$", "name", `"cost$$5$$"`},
		{"outputDir: /${ODD}", "outputDir", `"/$$x$$ $${Y} # *a: [b"`},
		{"learner: {maxEpochs: 1, learningRatesPerMB: \"${RATES}\"}", "learner.learningRatesPerMB", "1*2:0.5"},
		{"vars: {p: 3}\nreader: {type: cifar10, path: /x, transforms: [{crop: {padding: $p$}}]}", "reader.transforms", "[{crop: {padding: 3}}]"},
		{"vars: &v {a: 5}\nthreads: $a$", "threads", "5"},
	} {
		text := test.text + "\n"
		for _, line := range strings.SplitAfter(good, "\n") {
			if top, _, _ := strings.Cut(line, ":"); !strings.Contains(text, top+":") {
				text += line
			}
		}
		c, err := loadEnv(t, text, env)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got := strings.TrimSpace(string(encode(c.node(schema.byPath[strings.ToLower(test.key)])))); got != test.want {
			t.Errorf("%s gives %s, not %s", test.text, got, test.want)
		}
		again(t, c)
	}
}

func TestAVariableThatIsMissingNamesBothPlaces(t *testing.T) {
	_, err := loadEnv(t, good+`precision: ${P}
device: $dev$
vars: {dev: cpu2, a: $b$, b: "${DIR}", n: x, c1: $c2$, c2: $c1$, data: /d}
outputDir: $a$/x
threads: $n$
seed: $dta$
log: {json: $c1$, tensorBoardDir: a$b, metricsAddress: "${", }
name: ${1}
checkpoint: {keep: "${ONE} ", everyEpochs: $nope$}
`, map[string]string{"ONE": "1"})
	sameError(t, err, []string{
		"c.yaml:4:12: precision: ${P} is not set in the environment: export P, or write ${P:-default}",
		"c.yaml:5:9: device: cpu2 (from $dev$) is not one of auto, cpu, cuda, emulator: did you mean cpu?",
		"c.yaml:6:30: vars.b: ${DIR} is not set in the environment: export DIR, or write ${DIR:-default} (vars.a at c.yaml:6:22 uses it) (outputDir at c.yaml:7:12 uses it)",
		"c.yaml:6:60: vars.c2: $c1$ is defined by itself, through vars.c1 (vars.c1 at c.yaml:6:50 uses it) (log.json at c.yaml:10:13 uses it)",
		"c.yaml:8:10: threads: x (from $n$) is not auto or an integer from 1 to 4096",
		"c.yaml:9:7: seed: $dta$ is not defined: did you mean $data$? Else add dta to vars (c.yaml:6:1)",
		"c.yaml:10:35: log.tensorBoardDir: $b holds a single $: write $$ for a dollar sign, $name$ for a variable, ${NAME} for the environment's",
		"c.yaml:10:56: log.metricsAddress: ${ has no closing brace: write ${NAME} or ${NAME:-default}",
		"c.yaml:11:7: name: ${1} names no environment variable: write ${NAME} or ${NAME:-default}",
		"c.yaml:12:20: checkpoint.keep: \"1 \" (from \"${ONE} \") is not an integer of at least 1: write 1",
		"c.yaml:12:44: checkpoint.everyEpochs: $nope$ is not defined: add nope to vars (c.yaml:6:1)",
	})
	_, err = load(t, good+"threads: $n$\n")
	sameError(t, err, []string{"c.yaml:4:10: threads: $n$ is not defined: add n to vars (there are none yet at the top of c.yaml)"})
}

func TestAVariableThatNobodyNeedsMayBeMissing(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yaml": "vars: {d: \"${NO}\", e: \"${NO}\"}\nreader: {type: cifar10, path: \"${NO}\"}\noutputDir: $d$\n" + "network: {depth: 8}\nlearner: {maxEpochs: 1, learningRatesPerMB: 1}\n",
		"c.yaml": "extends: b\nreader: {path: /c}\nvars: {d: /d}\n",
	})
	c, err := loadIn(dir, "c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c.Reader.Path != "/c" || c.OutputDir != "/d" {
		t.Errorf("%+v", c)
	}
	if c.Vars["d"] != "/d" || c.Origin("vars.d") != "c.yaml:3:11" {
		t.Errorf("%v from %s", c.Vars, c.Origin("vars.d"))
	}
}

func TestTheOriginNamesTheEnvironment(t *testing.T) {
	c, err := loadEnv(t, good+"vars: {a: \"${N}\"}\nthreads: $a$\noutputDir: ${A:-/x}\n", map[string]string{"N": "8"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Origin("threads"); got != "c.yaml:5:10 (environment N)" {
		t.Error(got)
	}
	if got := c.Origin("OutputDir"); got != "c.yaml:6:12" {
		t.Error(got)
	}
}

func TestBombsEndSoon(t *testing.T) {
	variables := "vars:\n  v0: " + strings.Repeat("x", 100) + "\n"
	aliases := "x: &a0 {crop: {padding: 1}}\n"
	for i := range 30 {
		variables += fmt.Sprintf("  v%d: %s\n", i+1, strings.Repeat(fmt.Sprintf("$v%d$", i), 50))
		aliases += fmt.Sprintf("x%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 50), i)
	}
	many := strings.Repeat("*m,", 1000)
	for name, text := range map[string]string{
		"variables":    good + variables + "name: $v30$\n",
		"aliases":      aliases + "reader: {type: embedded, transforms: *a30}\n",
		"wide aliases": "y: &m [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]\nx: &n {normalize: {mean: [" + many + "], std: 1}}\nreader: {transforms: [" + strings.ReplaceAll(many, "m", "n") + "]}\n",
		"itself":       "reader: &r {type: embedded, transforms: &t [*t, *r]}\n" + good,
		"unknown keys": strings.Repeat("a: 1\nb: 2\n? [x]\n: 1\n", 30000),
		"bad vars":     good + "vars:\n" + strings.Repeat("  1: 1\n", 100000),
		"long texts":   good + "name: " + strings.Repeat("${A:-", 50000) + "\n",
		"long rates":   head + "learner: {maxEpochs: 1, learningRatesPerMB: " + strings.Repeat("1:", 300000) + "1}\n",
	} {
		start := time.Now()
		_, err := load(t, text)
		if err == nil && name != "long rates" {
			t.Errorf("%s: no error", name)
		}
		if err != nil && len(err.Error()) > 100_000 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
	}
}
