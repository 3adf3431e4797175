package configs

import "strings"

// KeyValue is a key that has a value.
type KeyValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // as it would be written
	Origin string `json:"origin"` // see Config.Origin
}

// Values lists the keys that have a value, each with where it comes from, in the schema's order.
func (c *Config) Values() []KeyValue {
	var all []KeyValue
	for _, k := range schema.keys {
		if n := c.node(k); n != nil {
			all = append(all, KeyValue{k.Path, strings.TrimSpace(string(encode(n))), c.Origin(k.Path)})
		}
	}
	return all
}
