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
		name, err := l.early().replace(sc.text, use{s, pos, "extends"})
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

// early replaces variables of the environment only: vars are not known before
// the files are.
func (l *loader) early() *expander {
	return &expander{env: l.env, workDir: l.dir}
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
	if len(l.errs) >= 10*maxErrors {
		return // there is enough to mend
	}
	l.errs = append(l.errs, &Error{Pos: pos, Key: key, Message: message})
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
