package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	argumentPrefix = "argument "
	shippedPrefix  = "shipped:"

	maxFile = 1 << 20 // bytes of a file
)

// source is where a layer comes from: a file, an argument, or the defaults.
type source struct {
	name    string // in messages
	id      string // absolute path, or shipped:NAME; equal for equal files
	dir     string // what relative paths in it are relative to
	home    string // what ~ stands for
	literal bool   // the text of an argument, which its key gives a type
	noLines bool   // positions are the name alone
	content []byte
	root    *yaml.Node // its mapping
}

// pos is the position of a node in messages.
func (s *source) pos(n *yaml.Node) string {
	if s.noLines || n == nil || n.Line == 0 {
		return s.name
	}
	return fmt.Sprintf("%s:%d:%d", s.name, n.Line, n.Column)
}

// scalar returns the scalar of a node, its variables still in it.
func (s *source) scalar(n *yaml.Node) (scalar, string) {
	out := scalar{text: n.Value, dir: s.dir, opaque: s.literal}
	plain := n.Style&^yaml.TaggedStyle == 0
	if plain {
		out.tag = resolve(n.Value)
		if out.tag == tagNull {
			out.opaque = false
		}
	}
	out.quoted = !plain
	if n.Style&yaml.TaggedStyle == 0 {
		return out, ""
	}
	want, known := map[string]tag{"!!str": tagText, "!": tagText, "!!int": tagInt, "!!float": tagFloat, "!!bool": tagBool, "!!null": tagNull}[n.Tag]
	got := resolve(n.Value)
	if !known {
		return out, "the tag " + scalar{text: n.Tag}.show() + " is not of YAML's core schema: leave it out"
	}
	if want != tagText && want != got && !(want == tagFloat && got == tagInt) {
		return out, out.show() + " is not what its tag " + n.Tag + " says: leave the tag out"
	}
	out.tag, out.quoted = want, want == tagText
	return out, ""
}

// open finds and reads the file that a name stands for: a path relative to
// from's folder, or a configuration that ships. From a shipped file only
// shipped ones are found.
func (l *loader) open(name string, from *source) (*source, error) {
	if strings.HasPrefix(from.id, shippedPrefix) {
		return l.openShipped(name)
	}
	if name == "" {
		return nil, errors.New(`"" names no configuration: ` + whatShips(name))
	}
	shown, path := name, name
	if name == "~" || strings.HasPrefix(name, "~/") {
		path = l.home + name[1:]
	} else if !filepath.IsAbs(name) {
		path = filepath.Join(from.dir, name)
		if d := filepath.Dir(from.name); from.root != nil && d != "." {
			shown = filepath.Join(d, name)
		}
	}
	for _, ext := range []string{"", ".yaml"} {
		content, err := readFile(path + ext)
		_, ships := ShippedFile(name)
		switch {
		case err == nil:
			return l.parsed(&source{name: shown + ext, id: realPath(path + ext), dir: filepath.Dir(path + ext), content: content})
		case errors.Is(err, os.ErrNotExist), errors.Is(err, errFolder) && ships:
		default:
			return nil, &Error{Pos: shown + ext, Message: plainError(err)}
		}
	}
	return l.openShipped(name)
}

var errFolder = errors.New("this is a folder: name a YAML file in it")

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errFolder
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("the file is larger than %d bytes: this is no configuration", maxFile)
	}
	return content, err
}

// plainError is an error of the file system without the path that the message
// names already.
func plainError(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Op + ": " + p.Err.Error()
	}
	return err.Error()
}

func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}

func (l *loader) openShipped(name string) (*source, error) {
	name = strings.TrimPrefix(name, shippedPrefix)
	content, ok := ShippedFile(name)
	if !ok {
		return nil, errors.New("there is no such file: " + whatShips(name))
	}
	name = shippedPrefix + strings.TrimSuffix(name, ".yaml") + ".yaml"
	return l.parsed(&source{name: name, id: name, dir: l.dir, content: content})
}

func whatShips(name string) string {
	names := Shipped()
	if near := Nearest(strings.TrimSuffix(name, ".yaml"), names); near != "" {
		return "did you mean " + near + ", which ships?"
	}
	return "the configurations that ship are " + listed(names, "and")
}

// parsed reads the YAML of a file. Its errors carry the file's name.
func (l *loader) parsed(s *source) (*source, error) {
	s.home = l.home
	if bytes.HasPrefix(s.content, []byte("\xff\xfe")) || bytes.HasPrefix(s.content, []byte("\xfe\xff")) {
		return nil, &Error{Pos: s.name, Message: "this is UTF-16: save the file as UTF-8"}
	}
	dec := yaml.NewDecoder(bytes.NewReader(s.content))
	var doc yaml.Node
	if err := dec.Decode(&doc); err == io.EOF {
		return nil, &Error{Pos: s.name, Message: "the file is empty: write keys, such as extends: resnet20_dense"}
	} else if err != nil {
		return nil, s.syntaxError(err)
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, errorf(s.pos(&second), "", "a second document begins here: write one document a file")
	} else if err != io.EOF {
		return nil, s.syntaxError(err)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && resolve(root.Value) == tagNull && root.Style == 0 {
		return nil, errorf(s.name, "", "the file is empty: write keys, such as extends: resnet20_dense")
	}
	if root.Kind != yaml.MappingNode {
		return nil, errorf(s.pos(root), "", "this is not a mapping of keys to values: write lines such as extends: resnet20_dense")
	}
	s.root = root
	return s, nil
}

// absolute turns the text into an absolute, clean path, or says what is wrong
// with it.
func (s *source) absolute(t scalar) (path, problem string) {
	path = t.text
	switch {
	case path == "" || strings.ContainsRune(path, 0):
		return "", "write the name of a file or folder"
	case path == "~" || strings.HasPrefix(path, "~/"):
		if s.home == "" {
			return "", "there is no home folder for ~ to stand for: write the whole path"
		}
		path = s.home + path[1:]
	case path[0] == '~':
		return "", "~ stands for your own home folder only: write the whole path, or ./" + path
	case !filepath.IsAbs(path):
		if t.dir == "" {
			return "", "the working directory is not there any more, or cannot be read: go to another, or write the whole path"
		}
		path = filepath.Join(t.dir, path)
	}
	if !utf8.ValidString(path) { // YAML cannot hold it
		return "", fmt.Sprintf("%q is not UTF-8 text: rename the folder, or write the path of another", path)
	}
	return filepath.Clean(path), ""
}
