package configs

import (
	"reflect"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"gopkg.in/yaml.v3"
)

// ofMomentum are the keys that mean nothing where learner.type has no momentum.
var ofMomentum = []string{"learner.momentumPerMB", "learner.momentumPerSample", "learner.momentumAsTimeConstant", "learner.useNAG"}

// merge lays the layers over one another: a mapping is merged key by key, a
// list or schedule is replaced, a null resets what the layers before said, a
// key puts out the others of its group, and a learner without momentum puts out
// the momentum that the layers before gave to another.
func (l *loader) merge() *koanf.Koanf {
	k := koanf.New(".")
	argued := map[string]bool{} // paths set by arguments, which are one layer
	for i, c := range l.values {
		for _, path := range c.nulls {
			k.Delete(path)
		}
		layer := map[string]any{}
		if v := c.values["learner.type"]; v != nil && v.Data != "momentumSGD" {
			for _, path := range ofMomentum {
				if !argued[path] {
					k.Delete(path)
				}
			}
		}
		for _, path := range c.order {
			v := c.values[path]
			if v == nil {
				continue
			}
			key := schema.byPath[strings.ToLower(path)]
			for _, other := range schema.group(key) {
				if l.sources[i].literal && argued[other.Path] {
					l.fail(v.Origin, path, other.Path+" is an argument too, and only one of the two can be set: keep one")
				}
				k.Delete(other.Path)
			}
			if l.sources[i].literal {
				argued[path] = true
			}
			layer[path] = v
		}
		k.Load(confmap.Provider(layer, "."), nil) // without a parser nothing can fail
	}
	return k
}

// assemble fills a configuration from the merged layers and the defaults.
func (l *loader) assemble(k *koanf.Koanf) *Config {
	c := &Config{origins: map[string]string{}, Vars: map[string]string{}}
	into := reflect.ValueOf(c).Elem()
	defaults := l.decoder(l.defaults())
	for _, key := range schema.keys {
		if key.field == nil || key.Path == "vars" {
			continue
		}
		v, _ := k.Get(key.Path).(*Value)
		switch {
		case v != nil:
			l.errs = append(l.errs, v.Errs...)
			if v.Data == nil {
				l.bad[key.Path] = true
				continue
			}
			key.set(into, v.Data)
			c.origins[strings.ToLower(key.Path)] = v.Origin
		case (key.Default != "" || key.Path == "name") && !anySet(k, schema.group(key)):
			data, _ := defaults.value(key, key.Path, l.defaultNode(key))
			if data == nil { // a folder of a working directory that has no name in UTF-8, or is gone
				l.bad[key.Path] = true
				continue
			}
			key.set(into, data)
			c.origins[strings.ToLower(key.Path)] = defaultOrigin
		case key.Required && !l.bad[key.Path]:
			l.fail(l.where(key.Path), key.Path, "missing: write "+key.Want())
			l.bad[key.Path] = true
		}
	}
	l.errs = append(l.errs, defaults.errs...)
	for name, v := range l.expand.vars {
		if strings.HasPrefix(v.path, "vars.") {
			if r, err := l.expand.variable(v.name, use{v.src, v.src.pos(v.node), v.path}); err == nil {
				c.Vars[name] = r.text
				c.origins["vars."+name] = v.src.pos(v.node)
			}
		}
	}
	seen := map[string]bool{}
	for _, s := range l.sources {
		if s.content != nil && !seen[s.id] {
			seen[s.id] = true
			c.files = append(c.files, File{Path: s.id, Content: s.content})
		}
	}
	return c
}

// where is the place at which a missing key would be: its section in the file,
// or the file.
func (l *loader) where(path string) string {
	top, _, _ := strings.Cut(path, ".")
	pos := l.main.name
	l.eachTop(l.main, func(name, _ *yaml.Node) {
		if strings.EqualFold(name.Value, top) {
			pos = l.main.pos(name)
		}
	})
	return pos
}

func anySet(k *koanf.Koanf, keys []*Key) bool {
	for _, key := range keys {
		if k.Exists(key.Path) {
			return true
		}
	}
	return false
}

// Origin says where the value of a key comes from: file:line:column, "default"
// or "argument key=value"; the variables of the environment in it follow in
// parentheses. It is empty for a key without a value.
func (c *Config) Origin(key string) string { return c.origins[strings.ToLower(key)] }

// Files returns the files that the configuration came from, extended ones
// first.
func (c *Config) Files() []File { return c.files }
