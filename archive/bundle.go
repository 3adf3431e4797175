package archive

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	"gotrain/pipeline"
)

// A bundle is a tar archive, compressed with Zstandard. Its first entry is bundle.json, a Manifest; the files of the run follow
// in its order, plain files with nothing that varies: mode 0644, no owner, no time. Equal runs give equal bytes.
//
//	bundle.json
//	attempts/001.json
//	checkpoints/000000000390/manifest.json
//	...
//	data/keys.json                           with data: where the keys of the reader point, by key
//	data/reader.path/cifar-10-batches-bin/data_batch_1.bin
//	...
//	run.json
const manifestName = "bundle.json"

// Manifest says what a bundle consists of. Its checksums find damage, not forgery.
type Manifest struct {
	Version int          `json:"version"`
	Folder  string       `json:"folder"` // of the run
	Files   []BundleFile `json:"files"`  // sorted by name
}

// BundleFile is a file of a bundle.
type BundleFile struct {
	Name   string `json:"name"` // relative to the run's folder, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hexadecimal
}

const (
	bundleVersion = 1
	maxManifest   = 256 << 20 // bytes: a million pictures
	maxWindow     = 32 << 20  // bytes that decompressing may look back
)

// parseManifest reads a manifest. Everything that it says of names and sizes is checked here.
func parseManifest(text []byte, limit int64) (m Manifest, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s is no manifest: %w", manifestName, err)
	}
	if m.Version != bundleVersion {
		return m, fmt.Errorf("%s has version %d, where this gotrain reads %d", manifestName, m.Version, bundleVersion)
	}
	if !runFolder(m.Folder) {
		return m, fmt.Errorf("%s names the folder %q, which cannot be that of a run", manifestName, m.Folder)
	}
	total := int64(0)
	for i, f := range m.Files {
		if !bundleName(f.Name) {
			return m, fmt.Errorf("%s names the file %q, which cannot be in a run's folder", manifestName, f.Name)
		}
		if i > 0 && f.Name <= m.Files[i-1].Name {
			return m, fmt.Errorf("%s has its files out of order at %q", manifestName, f.Name)
		}
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != 32 || f.Size < 0 {
			return m, fmt.Errorf("%s has a bad record of the file %q", manifestName, f.Name)
		}
		if total += f.Size; total > limit || total < 0 {
			return m, fmt.Errorf("its files take more than %d bytes: allow more with -max-bytes, if you know where it comes from", limit)
		}
	}
	return m, nil
}

// runFolder says whether a name can be that of a run's folder.
func runFolder(name string) bool {
	return bundleName(name) && !strings.Contains(name, "/") && !strings.HasPrefix(name, ".")
}

// bundleName says whether a name can be that of a file within a run's folder: no way leads out of it, nor to its lock.
func bundleName(name string) bool {
	if !fs.ValidPath(name) || name == "." || name == pipeline.LockFile || len(name) > 4000 || strings.Count(name, "/") > 30 {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 255 {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(c rune) bool { return c == '\\' || c == unicode.ReplacementChar || unicode.IsControl(c) })
}
