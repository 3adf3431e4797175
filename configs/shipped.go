package configs

import (
	"embed"
	"strings"
)

//go:embed *.yaml
var shipped embed.FS

// Shipped returns the names of the configurations in the binary, sorted,
// without .yaml.
func Shipped() []string {
	entries, _ := shipped.ReadDir(".")
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// ShippedFile returns the text of a configuration in the binary by its name,
// with or without .yaml.
func ShippedFile(name string) (content []byte, ok bool) {
	content, err := shipped.ReadFile(strings.TrimSuffix(name, ".yaml") + ".yaml")
	return content, err == nil
}
