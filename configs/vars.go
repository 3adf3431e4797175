package configs

import (
	"strings"

	"gopkg.in/yaml.v3"
)

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
