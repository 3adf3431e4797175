package pipeline

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"gotrain/internal/safetensors"
)

// Part is a file of a checkpoint before it is written. Write may be called once.
type Part struct {
	Name  string // a plain file name
	Write func(io.Writer) error
}

// tensorsPart is a part of named tensors. It has no metadata, so that equal tensors give equal bytes.
func tensorsPart(name string, tensors map[string]*tensor.Dense) Part {
	return Part{name, func(w io.Writer) error { return safetensors.Write(w, tensors, nil) }}
}

// jsonPart is a part that holds v as indented JSON.
func jsonPart(name string, v any) Part {
	return Part{name, func(w io.Writer) error {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		_, err = w.Write(append(text, '\n'))
		return err
	}}
}

// partRecord is what a manifest says of a part that was written.
type partRecord struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // hexadecimal
}

// manifest says what a checkpoint consists of.
type manifest struct {
	Version int          `json:"version"`
	Step    int64        `json:"step"`
	Parts   []partRecord `json:"parts"` // sorted by name
}

const (
	manifestName    = "manifest.json"
	manifestVersion = 1
	maxManifest     = 16 << 20 // bytes; far more than any number of ranks' parts take
	temporary       = ".tmp"   // suffix of a file that is being written
)

func newManifest(step int64, records []partRecord) manifest {
	sorted := slices.SortedFunc(slices.Values(records), func(a, b partRecord) int { return cmp.Compare(a.Name, b.Name) })
	return manifest{manifestVersion, step, sorted}
}

func (m manifest) part() Part { return jsonPart(manifestName, m) }

// parseManifest reads the manifest of a step's checkpoint. Every value in it is checked here or against the parts.
func parseManifest(text []byte, step int64) (manifest, error) {
	var m manifest
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, fmt.Errorf("is no manifest: %w", err)
	}
	if len(bytes.TrimSpace(text[dec.InputOffset():])) > 0 {
		return m, fmt.Errorf("is no manifest: there is more after its end")
	}
	switch {
	case m.Version != manifestVersion:
		return m, fmt.Errorf("has version %d, where this program reads %d", m.Version, manifestVersion)
	case m.Step != step:
		return m, fmt.Errorf("is of step %d, where its folder is of step %d", m.Step, step)
	case len(m.Parts) == 0:
		return m, fmt.Errorf("names no parts")
	}
	for i, p := range m.Parts {
		if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != 32 || p.Size < 0 || !partName(p.Name) {
			return m, fmt.Errorf("has a bad record of the part %q", p.Name)
		}
		if i > 0 && p.Name <= m.Parts[i-1].Name {
			return m, fmt.Errorf("has its parts out of order at %q", p.Name)
		}
	}
	return m, nil
}

// partName says whether a name is a plain file name that means nothing else to the store.
func partName(name string) bool {
	return name != "" && name != "." && name != ".." && name != manifestName &&
		!strings.HasSuffix(name, temporary) && !strings.ContainsAny(name, "/\\\x00")
}
