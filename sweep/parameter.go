package sweep

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gotrain/configs"
)

// Parameter is a key of the configuration that trials differ in, with the values that it may take: a list, or a range.
type Parameter struct {
	Key    string  // dotted path
	Pos    string  // where it stands
	Values []Value // of a list
	Scale  string  // of a range: uniform, logUniform or int; "" for a list

	Low, High float64 // of a range, both in it
	Points    int     // of a range in a grid
}

// Value is a value of a parameter.
type Value struct {
	Text string // as in an argument key=value
	Pos  string // where it stands
}

// scales are the kinds of ranges.
var scales = []string{"uniform", "logUniform", "int"}

const defaultPoints = 3

// parameters decodes the parameters of a sweep.
func (d *decoder) parameters(n *yaml.Node) (all []Parameter) {
	const section = "sweep.parameters"
	lower := map[string]bool{}
	d.mapping(n, section, func(name, value *yaml.Node) {
		key, problem := canonical(name.Value)
		if problem == "" && lower[strings.ToLower(key)] {
			problem = "the key stands here twice, in another spelling: keep one"
		}
		if problem != "" {
			d.fail(name, join(section, name.Value), "%s", problem)
			return
		}
		lower[strings.ToLower(key)] = true
		p := Parameter{Key: key, Pos: d.pos(name), Points: defaultPoints}
		switch value.Kind {
		case yaml.SequenceNode:
			p.Values = d.values(value, key)
		case yaml.MappingNode:
			d.space(value, &p)
		default:
			d.fail(value, join(section, key), "%s is neither a list of values nor a range: write [%s], or {uniform: [0, 1]}, logUniform or int", describe(value), short(value.Value))
		}
		all = append(all, p)
	})
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.fail(n, section, "there is none: write the keys that trials differ in, such as learner.L2RegWeight: [0, 1e-4]")
	}
	return all
}

// own are keys that a sweep sets by itself.
var own = map[string]string{
	"name":      "a sweep names its runs by itself: leave it out",
	"outputdir": "a sweep puts its runs into its own folder: set outputDir in the base",
	"command":   "all trials do the same, for what they come to is compared: set command in the base",
	"extends":   "a trial extends the base: write several sweeps",
}

// canonical is the spelling of a key of the configuration, or of a section, or says what is wrong with it.
func canonical(key string) (path, problem string) {
	if why := own[strings.ToLower(key)]; why != "" {
		return "", why
	}
	if name, ok := strings.CutPrefix(key, "vars."); ok && name != "" {
		return key, ""
	}
	var known []string
	for _, k := range configs.Schema() {
		for path := k.Path; path != ""; path = path[:max(0, strings.LastIndexByte(path, '.'))] {
			if strings.EqualFold(path, key) {
				return path, ""
			}
		}
		known = append(known, k.Path)
	}
	last := key[strings.LastIndexByte(key, '.')+1:]
	for _, path := range known {
		if strings.EqualFold(path[strings.LastIndexByte(path, '.')+1:], last) {
			return "", "unknown key: did you mean " + path + "?"
		}
	}
	if near := configs.Nearest(key, known); near != "" {
		return "", "unknown key: did you mean " + near + "?"
	}
	return "", "no key of the configuration: docs/configuration.md has them all"
}

// values decodes a list of values.
func (d *decoder) values(n *yaml.Node, key string) (all []Value) {
	seen := map[string]bool{}
	for _, c := range n.Content {
		v := Value{Text: argument(c, key, filepath.Dir(d.file)), Pos: d.pos(c)}
		if seen[v.Text] {
			d.fail(c, "sweep.parameters."+key, "%s stands here twice: keep one", short(v.Text))
		}
		seen[v.Text] = true
		all = append(all, v)
	}
	if len(all) == 0 {
		d.fail(n, "sweep.parameters."+key, "the list is empty: write at least one value")
	}
	return all
}

// argument is a node as the value of an argument key=value. Relative paths become relative to the working directory, for they stand
// in the file.
func argument(n *yaml.Node, key, dir string) string {
	if n.Kind != yaml.ScalarNode {
		flat := *n
		flow(&flat)
		var b bytes.Buffer
		e := yaml.NewEncoder(&b)
		if e.Encode(&flat) != nil || e.Close() != nil {
			return "null" // a tree that was parsed can be written
		}
		return strings.TrimSpace(b.String())
	}
	text := n.Value
	if n.Tag == "!!null" && !quoted(n) {
		return "null"
	}
	for _, k := range configs.Schema() {
		if k.Path == key && k.IsPath && text != k.Zero && text != "" && !filepath.IsAbs(text) && !strings.ContainsAny(text[:1], "~$") {
			text = filepath.Join(dir, text)
		}
	}
	if text == "" || text != strings.TrimSpace(text) || strings.ContainsAny(text, "\n\r") || strings.ContainsRune(`[{"'`, rune(text[0])) {
		return strconv.Quote(text)
	}
	return text
}

// flow gives a tree the style of one line.
func flow(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment, n.Anchor = "", "", "", ""
	if n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	} else if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		n.Style = yaml.DoubleQuotedStyle
	}
	for i, c := range n.Content {
		child := *c
		flow(&child)
		n.Content = slices.Clone(n.Content)
		n.Content[i] = &child
	}
}

// space decodes {uniform: [low, high]}, logUniform or int, with points, or {choice: [...]}.
func (d *decoder) space(n *yaml.Node, p *Parameter) {
	key := "sweep.parameters." + p.Key
	var limits, points *yaml.Node
	kinds := 0
	d.mapping(n, key, func(name, value *yaml.Node) {
		switch {
		case name.Value == "choice" && value.Kind == yaml.SequenceNode:
			p.Values = d.values(value, p.Key)
			kinds++
		case name.Value == "choice":
			d.fail(value, key+".choice", "%s is not a list of values", describe(value))
			kinds++
		case name.Value == "points":
			p.Points, points = d.integer(value, key+".points", 2, maxRuns), value
		case slices.Contains(scales, name.Value):
			p.Scale, limits = name.Value, value
			kinds++
		default:
			d.unknown(name, key, append([]string{"choice", "points"}, scales...))
			kinds++
		}
	})
	switch {
	case kinds != 1:
		if len(d.errs) == 0 || kinds > 1 {
			d.fail(n, key, "write one of uniform, logUniform, int and choice")
		}
	case limits == nil && points != nil:
		d.fail(points, key+".points", "a list has its own values: leave points out")
	case limits != nil:
		d.limits(limits, key+"."+p.Scale, p)
	}
}

func (d *decoder) limits(n *yaml.Node, key string, p *Parameter) {
	if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
		d.fail(n, key, "%s is not a pair of limits such as [1e-5, 1e-3]", describe(n))
		return
	}
	before := len(d.errs)
	if p.Scale == "int" {
		p.Low, p.High = float64(d.integer(n.Content[0], key, -1<<53, 1<<53)), float64(d.integer(n.Content[1], key, -1<<53, 1<<53))
	} else {
		p.Low, p.High = d.number(n.Content[0], key), d.number(n.Content[1], key)
	}
	switch {
	case len(d.errs) > before:
	case p.Low >= p.High || math.IsInf(p.High-p.Low, 0):
		d.fail(n, key, "%s is not below %s: write the smaller limit first", short(n.Content[0].Value), short(n.Content[1].Value))
	case p.Scale == "logUniform" && p.Low <= 0:
		d.fail(n.Content[0], key, "%s is not above 0: a logarithmic range has no zero", short(n.Content[0].Value))
	}
}

// at is the value at a share of a range, from 0 to 1, with 4 significant digits.
func (p Parameter) at(share float64) Value {
	v := Value{Pos: p.Pos}
	if p.Scale == "int" {
		n := p.Low + math.Floor(share*(p.High-p.Low+1))
		v.Text = strconv.FormatFloat(min(n, p.High), 'f', -1, 64)
		return v
	}
	x := p.Low + share*(p.High-p.Low)
	if p.Scale == "logUniform" {
		x = math.Exp(math.Log(p.Low) + share*(math.Log(p.High)-math.Log(p.Low)))
	}
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	v.Text = strconv.FormatFloat(min(max(x, p.Low), p.High), 'g', -1, 64)
	return v
}

// grid lists the values that a grid takes: those of a list, or points of a range, both limits among them.
func (p Parameter) grid() (all []Value) {
	if p.Scale == "" {
		return p.Values
	}
	if p.Scale == "int" {
		n := int(min(p.High-p.Low+1, float64(p.Points)))
		for i := range n {
			v := math.Round(p.Low + (p.High-p.Low)*float64(i)/float64(n-1))
			all = append(all, Value{strconv.FormatFloat(v, 'f', -1, 64), p.Pos})
		}
		return all
	}
	for i := range p.Points {
		all = append(all, p.at(float64(i)/float64(p.Points-1)))
	}
	return all
}

// sample draws a value.
func (p Parameter) sample(r *rand.Rand) Value {
	if p.Scale == "" {
		return p.Values[r.IntN(len(p.Values))]
	}
	return p.at(r.Float64())
}

// propose gives the values of a trial, from 0, one a parameter. In a grid it is a function of the number of the trial; in a random search
// of the seed, the number and the key, so that more trials do not change those before; with TPE of the trials seen too.
func (f *File) propose(trial int, seen []observation) []Value {
	values := make([]Value, len(f.Parameters))
	rest := trial
	for i := len(f.Parameters) - 1; i >= 0; i-- {
		p := f.Parameters[i]
		if f.Strategy == Grid { // the last parameter changes fastest
			g := p.grid()
			values[i] = g[rest%len(g)]
			rest /= len(g)
			continue
		}
		h := fnv.New64a()
		fmt.Fprintf(h, "%d %s", trial, p.Key)
		draw := rand.New(rand.NewPCG(uint64(f.Seed), h.Sum64()))
		if f.waits(trial) {
			values[i] = p.tpe(i, seen, draw)
		} else {
			values[i] = p.sample(draw)
		}
	}
	return values
}

// waits says that a trial, from 0, is not proposed before others have ended.
func (f *File) waits(trial int) bool { return f.Strategy == TPE && trial >= tpeStartup }
