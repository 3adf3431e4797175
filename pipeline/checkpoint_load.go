package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"gotrain/internal/safetensors"
)

// Checkpoint is a checkpoint whose parts all have the sizes and checksums of its manifest.
type Checkpoint struct {
	Step  int64
	Dir   string
	Parts []string // names, sorted

	files fileSystem
	sizes map[string]int64
}

// Warning names a file of a checkpoint that was passed over, and what is wrong with it.
type Warning struct {
	Path    string
	Problem string
}

func (w Warning) String() string { return w.Path + ": " + w.Problem }

// Load gives the newest checkpoint that is whole, nil where training has not come to one yet, and a warning for each
// newer one. Where there are checkpoints and all are broken, that is an error: to start over is the user's choice.
func (c *checkpoints) Load() (*Checkpoint, []Warning, error) {
	all, err := c.list()
	if err != nil {
		return nil, nil, err
	}
	var warnings []Warning
	broken := 0
	for _, f := range all {
		if !c.committed(f.dir) {
			warnings = append(warnings, Warning{f.dir, "has no " + manifestName + ": it was not finished"})
			continue
		}
		checkpoint, warning := c.verify(f)
		if warning == nil {
			return checkpoint, warnings, nil
		}
		warnings = append(warnings, *warning)
		broken++
	}
	if broken > 0 {
		return nil, warnings, fmt.Errorf("%s: none of its checkpoints is whole (%d broken): restore one, or start over "+
			"with -restart", c.root(), broken)
	}
	return nil, warnings, nil
}

// verify compares a checkpoint with its manifest; a warning says the first difference.
func (c *checkpoints) verify(f found) (*Checkpoint, *Warning) {
	path := filepath.Join(f.dir, manifestName)
	m, err := c.readManifest(path, f.step)
	if err != nil {
		return nil, &Warning{path, problem(err)}
	}
	checkpoint := &Checkpoint{Step: m.Step, Dir: f.dir, files: c.files, sizes: map[string]int64{}}
	for _, p := range m.Parts {
		path := filepath.Join(f.dir, p.Name)
		if difference := c.differs(path, p, "the manifest"); difference != "" {
			return nil, &Warning{path, difference}
		}
		checkpoint.Parts = append(checkpoint.Parts, p.Name)
		checkpoint.sizes[p.Name] = p.Size
	}
	return checkpoint, nil
}

// differs says how a file is not what a record, which lies somewhere, says of it; "" where it is.
func (c *checkpoints) differs(path string, p partRecord, where string) string {
	size, sum, err := c.digest(path)
	switch {
	case err != nil:
		return problem(err)
	case size != p.Size:
		return fmt.Sprintf("has %d bytes, where %s says %d", size, where, p.Size)
	case sum != p.SHA256:
		return fmt.Sprintf("has the SHA-256 %.8s..., where %s says %.8s...: it has changed since it was written", sum, where, p.SHA256)
	}
	return ""
}

func (c *checkpoints) readManifest(path string, step int64) (manifest, error) {
	f, err := c.files.Open(path)
	if err != nil {
		return manifest{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return manifest{}, err
	}
	return parseManifest(text, step)
}

// digest reads a file whole.
func (c *checkpoints) digest(path string) (size int64, sum string, err error) {
	f, err := c.files.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	hash := sha256.New()
	size, err = io.Copy(hash, f)
	return size, hex.EncodeToString(hash.Sum(nil)), err
}

// missing is the problem of a file that is not there.
const missing = "is missing"

// problem says what is wrong with a file without its path, which the warning has.
func problem(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	}
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return "cannot be read: " + p.Err.Error()
	}
	return err.Error()
}

// partReader reads one part of a checkpoint, until Close.
type partReader struct {
	*io.SectionReader
	io.Closer
}

// Has says whether the checkpoint has a part.
func (c *Checkpoint) Has(part string) bool {
	_, ok := c.sizes[part]
	return ok
}

// Open opens a part.
func (c *Checkpoint) Open(part string) (*partReader, error) {
	if !c.Has(part) {
		return nil, fmt.Errorf("%s: the checkpoint has no part %s", c.Dir, part)
	}
	f, err := c.files.Open(filepath.Join(c.Dir, part))
	if err != nil {
		return nil, err
	}
	return &partReader{io.NewSectionReader(f, 0, c.sizes[part]), f}, nil
}

// JSON reads a part that jsonPart wrote into v. Fields that v does not know are an error.
func (c *Checkpoint) JSON(part string, v any) error {
	r, err := c.Open(part)
	if err != nil {
		return err
	}
	defer r.Close()
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(c.Dir, part), err)
	}
	return nil
}

// Tensors calls read with the tensors of a part that tensorsPart wrote.
func (c *Checkpoint) Tensors(part string, read func(*safetensors.File) error) error {
	r, err := c.Open(part)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := safetensors.Read(filepath.Join(c.Dir, part), r, r.Size())
	if err != nil {
		return err
	}
	return read(f)
}
