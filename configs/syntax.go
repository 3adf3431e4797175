package configs

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

var (
	yamlLine    = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	parserSays  = regexp.MustCompile(`^(did not find expected (key|node|'|<)|found (duplicate|undefined))`) // the parser counts lines from 0, the scanner from 1
	anchorError = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	notText     = regexp.MustCompile(`[^\x{9}\x{a}\x{d}\x{20}-\x{7e}\x{85}\x{a0}-\x{d7ff}\x{e000}-\x{fffc}\x{10000}-\x{10ffff}]`)
	tabIndent   = regexp.MustCompile(`(?m)^ *(\t)[ \t]*[^ \t\r\n]`)
)

// syntaxError gives an error of the YAML parser its place, and names the usual
// mistakes: tabs, and a colon in text.
func (s *source) syntaxError(err error) *Error {
	m := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		return errorf(s.name, "", "not YAML: %v", err)
	}
	say := m[2]
	if tab := tabIndent.FindSubmatchIndex(s.content); tab != nil {
		return errorf(s.posAt(tab[2]), "", "a tab in the indentation: indent with spaces")
	}
	if anchor := anchorError.FindStringSubmatch(say); anchor != nil {
		return errorf(s.posAt(bytes.Index(s.content, []byte("*"+anchor[1]))), "", "*%s stands for nothing: write &%[1]s before what it repeats, above it, or quotes around text that begins with *", anchor[1])
	}
	if bad := notText.FindIndex(s.content); bad != nil {
		return errorf(s.posAt(bad[0]), "", "not YAML: %q is not a character of text: save the file as UTF-8", s.content[bad[0]:bad[1]])
	}
	line, _ := strconv.Atoi(m[1])
	if parserSays.MatchString(say) || line == 0 {
		line++
	}
	if strings.Contains(say, "mapping values are not allowed") {
		say += ": put text that holds a colon and a space in quotes"
	}
	if strings.Contains(say, "',' or '}'") && bytes.Contains(s.content, []byte("${")) {
		say += ": inside braces put ${...} in quotes"
	}
	return errorf(fmt.Sprintf("%s:%d", s.name, line), "", "not YAML: %s", say)
}

// posAt is the position of a byte of the file in messages.
func (s *source) posAt(offset int) string {
	if offset < 0 {
		return s.name
	}
	before := s.content[:offset]
	line := bytes.LastIndexByte(before, '\n') + 1
	return fmt.Sprintf("%s:%d:%d", s.name, bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(before[line:])+1)
}

// argument turns key=value into a source whose root holds the one key.
func (l *loader) argument(text string) (*source, error) {
	s := &source{name: argumentPrefix + clip(text), dir: l.dir, home: l.home, literal: true, noLines: true}
	key, value, ok := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	switch {
	case !utf8.ValidString(text):
		return nil, &Error{Pos: strings.ToValidUTF8(s.name, "?"), Message: "this is not UTF-8 text"}
	case !ok:
		return nil, &Error{Pos: s.name, Message: "not key=value: is there a space before or after an equals sign?"}
	case key == "":
		return nil, &Error{Pos: s.name, Message: "no key before the equals sign: write key=value"}
	case strings.TrimSpace(value) == "":
		return nil, &Error{Pos: s.name, Message: `no value after the equals sign: write key=value without spaces, "" for an empty text, null for the default`}
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: value, Line: 0}
	if strings.ContainsRune(`[{"'`, rune(strings.TrimSpace(value)[0])) {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(value), &doc); err != nil || len(doc.Content) != 1 {
			m := yamlLine.FindStringSubmatch(fmt.Sprint(err))
			if m == nil {
				m = []string{"", "", "it holds several values"}
			}
			return nil, &Error{Pos: s.name, Message: "the value is not YAML: " + m[2]}
		}
		node = doc.Content[0]
	}
	names := strings.Split(key, ".")
	for i := len(names) - 1; i >= 0; i-- {
		node = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: names[i]}, node}}
	}
	s.root = node
	return s, nil
}
