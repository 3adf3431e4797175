package configs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Option changes where Load looks around.
type Option func(*loader)

// WithEnv replaces the environment.
func WithEnv(lookup func(string) (string, bool)) Option { return func(l *loader) { l.env = lookup } }

// WithDir replaces the working directory, by an absolute path.
func WithDir(dir string) Option { return func(l *loader) { l.dir = dir } }

// WithHome replaces the home folder, by an absolute path.
func WithHome(dir string) Option { return func(l *loader) { l.home = dir } }

const (
	defaultOrigin = "default"

	maxLayers = 64 // files of a configuration, one that is extended twice counted twice
)

// loader holds what one call of Load gathers.
type loader struct {
	dir, home string
	env       func(string) (string, bool)

	main    *source
	sources []*source // in the order of the layers: extended files before those that extend them, arguments last
	values  []*content
	expand  *expander
	bad     map[string]bool // keys that have an error already
	errs    Errors
}

// Load reads the configuration that name stands for, a path or the name of one
// that ships (with or without .yaml), and the files that it extends, and puts
// the overrides, each key=value, over it. The error is an Errors that lists
// everything that is wrong.
func Load(name string, overrides []string, opts ...Option) (*Config, error) {
	l := &loader{env: os.LookupEnv, bad: map[string]bool{}}
	l.dir, _ = os.Getwd()
	l.home, _ = os.UserHomeDir()
	for _, o := range opts {
		o(l)
	}
	var err error
	if l.main, err = l.open(name, &source{dir: l.dir}); err != nil {
		return nil, asErrors(name, err)
	}
	l.extend(l.main, nil)
	l.arguments(overrides)
	l.variables()
	for _, s := range l.sources {
		l.decode(s)
	}
	if slices.ContainsFunc(l.errs, func(e *Error) bool { return e.Key == "extends" || e.Key == "" }) {
		return nil, l.errs.orNil() // what seems to be missing may stand in what could not be read
	}
	c := l.assemble(l.merge())
	check(c, l)
	if err := l.errs.orNil(); err != nil {
		return nil, err
	}
	return c, nil
}

// extend appends the sources of a file: those that it extends, then itself.
func (l *loader) extend(s *source, chain []*source) {
	chain = append(chain, s)
	for _, n := range l.extended(s) {
		sc, problem := s.scalar(n)
		pos := s.pos(n)
		if problem == "" && (sc.tag != tagText || sc.text == "") {
			problem = sc.show() + " is not the name of a configuration"
		}
		if problem != "" {
			l.fail(pos, "extends", problem)
			continue
		}
		name, err := l.expand0().replace(sc.text, use{s, pos, "extends"})
		if err != nil {
			l.errs = append(l.errs, err)
			continue
		}
		if len(l.sources)+len(chain) >= maxLayers {
			l.fail(pos, "extends", "more than 64 files extend one another")
			return
		}
		base, openErr := l.open(name.text, s)
		if openErr != nil {
			for _, e := range asErrors(pos, openErr) {
				if e.Key == "" && e.Pos == pos {
					e.Key, e.Message = "extends", sc.show()+": "+e.Message
				}
				l.errs = append(l.errs, e)
			}
			continue
		}
		if i := slices.IndexFunc(chain, func(c *source) bool { return c.id == base.id }); i >= 0 {
			names := []string{}
			for _, c := range append(slices.Clone(chain[i:]), base) {
				names = append(names, c.name)
			}
			l.fail(pos, "extends", "the files extend one another in a circle: "+strings.Join(names, " extends "))
			continue
		}
		l.extend(base, chain)
	}
	l.sources = append(l.sources, s)
}

// expand0 replaces variables of the environment only: vars are not known
// before the files are.
func (l *loader) expand0() *expander {
	return &expander{env: l.env, workDir: l.dir, varsAt: "extends takes ${NAME} only: vars are known later"}
}

// extended returns the names that a file extends, one or a list.
func (l *loader) extended(s *source) []*yaml.Node {
	var names []*yaml.Node
	for i := 0; i+1 < len(s.root.Content); i += 2 {
		if !strings.EqualFold(s.root.Content[i].Value, "extends") {
			continue
		}
		switch n := s.root.Content[i+1]; n.Kind {
		case yaml.ScalarNode:
			names = append(names, n)
		case yaml.SequenceNode:
			names = append(names, n.Content...)
		default:
			l.fail(s.pos(n), "extends", "write the name of a configuration or a list of names")
		}
	}
	return slices.DeleteFunc(names, func(n *yaml.Node) bool {
		if n.Kind != yaml.ScalarNode {
			l.fail(s.pos(n), "extends", "write the name of a configuration or a list of names")
		}
		return n.Kind != yaml.ScalarNode
	})
}

// arguments appends the sources of the overrides.
func (l *loader) arguments(overrides []string) {
	for _, text := range overrides {
		s, err := l.argument(text)
		if err != nil {
			l.errs = append(l.errs, asErrors(text, err)...)
			continue
		}
		if strings.EqualFold(s.root.Content[0].Value, "extends") {
			l.fail(s.name, "extends", "a file extends another, an argument cannot: write extends into a file")
			continue
		}
		l.sources = append(l.sources, s)
	}
}

func (l *loader) fail(pos, key, message string) {
	l.errs = append(l.errs, &Error{Pos: pos, Key: key, Message: message})
}

// variables collects what $name$ stands for: the scalars at the top by their
// defaults and then by the layers, and over them vars.
func (l *loader) variables() {
	x := &expander{vars: map[string]*variable{}, env: l.env, workDir: l.dir}
	x.varsAt = "there are none yet at the top of " + l.main.name
	l.expand = x
	defaults := l.defaults()
	for _, k := range schema.keys {
		if l.isTopScalar(k) {
			x.vars[strings.ToLower(k.Path)] = &variable{name: k.Path, path: k.Path, node: l.defaultNode(k), src: defaults}
		}
	}
	for _, s := range l.sources {
		l.eachTop(s, func(name, n *yaml.Node) {
			k, _, _ := schema.lookup("", name.Value)
			if k == nil || !l.isTopScalar(k) || k.Path == "name" && l.isBase(s) || n.Kind != yaml.ScalarNode {
				return
			}
			if sc, _ := s.scalar(n); sc.tag != tagNull {
				x.vars[strings.ToLower(k.Path)] = &variable{name: k.Path, path: k.Path, node: n, src: s}
			}
		})
	}
	own := map[string]*variable{}
	for _, s := range l.sources {
		l.eachTop(s, func(name, n *yaml.Node) {
			if strings.EqualFold(name.Value, "vars") {
				l.vars(s, n, own)
				if s == l.main {
					x.varsAt = s.pos(name)
				}
			}
		})
	}
	for name, v := range own {
		x.vars[name] = v
	}
}

// eachTop calls do for each key at the top of a source with its value, an
// alias followed.
func (l *loader) eachTop(s *source, do func(name, value *yaml.Node)) {
	for i := 0; i+1 < len(s.root.Content); i += 2 {
		n := s.root.Content[i+1]
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		do(s.root.Content[i], n)
	}
}

// vars collects the variables of one vars section.
func (l *loader) vars(s *source, section *yaml.Node, own map[string]*variable) {
	if section.Kind != yaml.MappingNode {
		if sc, _ := s.scalar(section); section.Kind != yaml.ScalarNode || sc.tag != tagNull {
			l.fail(s.pos(section), "vars", "write a mapping of names to values such as {dataDir: /data}")
		}
		clear(own)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(section.Content); i += 2 {
		name, n := section.Content[i], section.Content[i+1]
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		path, lower := "vars."+name.Value, strings.ToLower(name.Value)
		sc, problem := scalar{}, ""
		if n.Kind == yaml.ScalarNode {
			sc, problem = s.scalar(n)
		}
		switch {
		case name.Kind != yaml.ScalarNode || !varName.MatchString(name.Value):
			l.fail(s.pos(name), "vars", scalar{text: name.Value}.show()+" is not a name of letters, digits and _")
		case seen[lower]:
			l.fail(s.pos(name), path, "the key stands here twice: keep one")
		case n.Kind != yaml.ScalarNode:
			l.fail(s.pos(n), path, "a variable is a text or a number, not a list or a mapping")
		case problem != "":
			l.fail(s.pos(n), path, problem)
		case sc.tag == tagNull:
			delete(own, lower)
		default:
			own[lower] = &variable{name: name.Value, path: path, node: n, src: s}
		}
		seen[lower] = true
	}
}

// isTopScalar reports whether $name$ can stand for the key.
func (l *loader) isTopScalar(k *Key) bool {
	return !strings.Contains(k.Path, ".") && k.Path != "extends" && k.Path != "vars" && k.Path != "command"
}

// isBase reports whether a file is there because another extends it. Its name
// is its own.
func (l *loader) isBase(s *source) bool { return s != l.main && !s.literal }

func (l *loader) defaults() *source {
	return &source{name: defaultOrigin, dir: l.dir, home: l.home, literal: true, noLines: true}
}

// defaultNode is the default of a key as if it stood in a file.
func (l *loader) defaultNode(k *Key) *yaml.Node {
	if k.Path == "name" {
		base := filepath.Base(strings.TrimPrefix(l.main.name, shippedPrefix))
		name := strings.ReplaceAll(strings.TrimSuffix(base, filepath.Ext(base)), "$", "$$")
		return &yaml.Node{Kind: yaml.ScalarNode, Value: name}
	}
	if strings.HasPrefix(k.Default, "[") {
		var doc yaml.Node
		if yaml.Unmarshal([]byte(k.Default), &doc) == nil {
			return doc.Content[0]
		}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: k.Default}
}

// decode turns a source into a layer's content.
func (l *loader) decode(s *source) {
	out := &content{values: map[string]*Value{}}
	d := l.decoder(s)
	d.mapping(s.root, "", out)
	if l.isBase(s) {
		delete(out.values, "name")
	}
	l.errs = append(l.errs, d.errs...)
	if len(d.errs) >= maxErrors {
		l.fail(s.name, "", "there are more errors than the 100 listed")
	}
	l.values = append(l.values, out)
}

func (l *loader) decoder(s *source) *decoder {
	budget := maxNodes
	return &decoder{table: schema, src: s, expand: l.expand, budget: &budget, bad: l.bad}
}
