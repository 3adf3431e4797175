package configs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// YAML returns the resolved configuration as a file that loads to the same
// configuration anywhere: every key that has a value, defaults too, absolute
// paths, no variables. Equal configurations give equal bytes.
func (c *Config) YAML() []byte { return c.yaml(func(*Key) bool { return true }) }

// Hash identifies what is trained: the SHA-256, in hexadecimal, of the resolved
// configuration without the keys that are aside: outputDir, log, checkpoint,
// and those that change how training runs and not what it computes.
func (c *Config) Hash() string {
	sum := sha256.Sum256(c.yaml(func(k *Key) bool { return !k.Aside }))
	return hex.EncodeToString(sum[:])
}

func (c *Config) yaml(take func(*Key) bool) []byte {
	root := mapping(0)
	for _, k := range schema.keys {
		if n := c.node(k); n != nil && take(k) {
			insert(root, strings.Split(k.Path, "."), n)
		}
	}
	return encode(root)
}

// Change is a key whose value differs between two configurations.
type Change struct {
	Key, Old, New string // values as they would be written; empty: not set
	Aside         bool   // the key does not change what is trained
}

// String says the change in one line.
func (c Change) String() string {
	show := func(v string) string {
		if v == "" {
			return "(not set)"
		}
		return v
	}
	return c.Key + ": " + show(c.Old) + " -> " + show(c.New)
}

// Diff lists the keys whose values differ, in the schema's order.
func Diff(old, new *Config) []Change {
	var changes []Change
	text := func(c *Config, k *Key) string {
		n := c.node(k)
		if n == nil {
			return ""
		}
		return strings.TrimSpace(string(encode(n)))
	}
	for _, k := range schema.keys {
		if a, b := text(old, k), text(new, k); a != b {
			changes = append(changes, Change{k.Path, a, b, k.Aside})
		}
	}
	return changes
}

// node is the value of a key as it would be written, nil where it has none.
func (c *Config) node(k *Key) *yaml.Node {
	if k.field == nil || k.Path == "vars" || c.Origin(k.Path) == "" {
		return nil
	}
	return k.node(k.get(reflect.ValueOf(c).Elem()))
}

func (k *Key) node(value any) *yaml.Node {
	if k.Zero != "" && reflect.ValueOf(value).IsZero() {
		return plain(k.Zero)
	}
	switch v := value.(type) {
	case bool:
		return plain(strconv.FormatBool(v))
	case int:
		return plain(strconv.Itoa(v))
	case int64:
		return plain(strconv.FormatInt(v, 10))
	case float64:
		return plain(formatFloat(v))
	case time.Duration:
		return plain(v.String())
	case PerEpoch:
		return plain(v.String())
	case Bits:
		return plain(v.String())
	case string:
		return quoted(v)
	case []string:
		return sequence(v, quoted)
	case []int:
		return sequence(v, func(i int) *yaml.Node { return plain(strconv.Itoa(i)) })
	case []float64:
		return sequence(v, func(f float64) *yaml.Node { return plain(formatFloat(f)) })
	case [2]float64:
		return sequence(v[:], func(f float64) *yaml.Node { return plain(formatFloat(f)) })
	case []Transform:
		return sequence(v, func(t Transform) *yaml.Node {
			if t.CropType == "padded" {
				t.CropType = "" // follows from padding
			}
			return itemNode(transformTable, t.Kind, reflect.ValueOf(t), false)
		})
	case []Piece:
		return sequence(v, func(p Piece) *yaml.Node { return itemNode(pieceTable, p.Kind, reflect.ValueOf(p), true) })
	}
	return nil
}

// itemNode is a transform or piece as it would be written. With zeros, keys
// whose value is zero are written too.
func itemNode(t *table, kind string, from reflect.Value, zeros bool) *yaml.Node {
	n := mapping(yaml.FlowStyle)
	for _, k := range itemKeys(t, kind) {
		if v := k.get(from); zeros || !reflect.ValueOf(v).IsZero() {
			insert(n, strings.Split(k.Path, "."), k.node(v))
		}
	}
	return n
}

func mapping(style yaml.Style) *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Style: style} }

func plain(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// safeText matches texts that every reader of YAML takes for a text as they
// are.
var safeText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./+-]*$`)

var textLike = regexp.MustCompile(`(?i)^(y|yes|n|no|on|off|true|false|null)$`)

func quoted(text string) *yaml.Node {
	n := plain(strings.ReplaceAll(text, "$", "$$"))
	if !safeText.MatchString(n.Value) || textLike.MatchString(n.Value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func sequence[T any](items []T, node func(T) *yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, item := range items {
		n.Content = append(n.Content, node(item))
	}
	return n
}

// insert puts a value below a mapping, by the names of the mappings between.
func insert(in *yaml.Node, names []string, value *yaml.Node) {
	for ; len(names) > 1; names = names[1:] {
		in = child(in, names[0])
	}
	in.Content = append(in.Content, plain(names[0]), value)
}

func child(in *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(in.Content); i += 2 {
		if in.Content[i].Value == name {
			return in.Content[i+1]
		}
	}
	sub := mapping(in.Style)
	in.Content = append(in.Content, plain(name), sub)
	return sub
}

func encode(n *yaml.Node) []byte {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		panic(err) // nodes made here always can be encoded
	}
	e.Close()
	return b.Bytes()
}
