package configs

import (
	"path/filepath"

	"gopkg.in/yaml.v3"
)

// ReadYAML reads a YAML file of another schema than that of a configuration, and returns its mapping and its text. Errors name
// file and line, as those of Load do.
func ReadYAML(path string) (root *yaml.Node, content []byte, err error) {
	if content, err = readFile(path); err != nil {
		return nil, nil, Errors{{Pos: path, Message: plainError(err)}}
	}
	root, err = ParseYAML(path, content)
	return root, content, err
}

// ParseYAML is ReadYAML of content that was read already; path is for messages.
func ParseYAML(path string, content []byte) (*yaml.Node, error) {
	s, err := new(loader).parsed(&source{name: path, dir: filepath.Dir(path), content: content})
	if err != nil {
		return nil, asErrors(path, err)
	}
	return s.root, nil
}

// Sorted is es as an error, each message once, in the order of files and lines; nil where there is none.
func (es Errors) Sorted() error { return es.orNil() }
