package readers

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gotrain/configs"
)

// set holds the samples of one half of a data set before any transform: bytes, numbers, or the names of picture files.
type set struct {
	path    string
	labels  []int32 // [N]
	classes []string
	c, h, w int // of a picture; h and w are 0 where files have several sizes

	pixels []byte    // [N][C][H][W], or nil
	values []float32 // [N][C][H][W], or nil
	files  []file    // [N], or nil

	made  []string // other files that were read: lists of classes, maps, files of labels
	notes []string // what a user should know though nothing is wrong
}

// file is a picture on disk.
type file struct {
	path   string
	origin string // the map's line that names it, or ""
	size   int64
}

// picture is a view of one raw sample, or of a part of it: channel c of pixel (y, x) is at c*plane + y*row + x*step.
type picture struct {
	h, w             int
	plane, row, step int
	pixels           []byte
	values           []float32 // instead of pixels, in a set of numbers
}

// buffers are what reading a picture needs; they are used again for the next.
type buffers struct {
	file    bytes.Buffer
	decoded []byte // interleaved, before it is scaled
	scaled  []byte
}

func (s *set) picture(i int, buf *buffers) (picture, error) {
	if s.files != nil {
		return decode(s.files[i].path, s.c, buf)
	}
	n := s.c * s.h * s.w
	p := picture{h: s.h, w: s.w, plane: s.h * s.w, row: s.w, step: 1}
	if s.pixels != nil {
		p.pixels = s.pixels[i*n : (i+1)*n]
	} else {
		p.values = s.values[i*n : (i+1)*n]
	}
	return p, nil
}

// locate adds to an error which record it is about.
func (s *set) locate(i int, err error) error {
	if s.files == nil {
		return fmt.Errorf("%s: record %d: %w", s.path, i+1, err)
	}
	if f := s.files[i]; f.origin != "" {
		return fmt.Errorf("%s: %s: %w", f.origin, f.path, err)
	}
	return fmt.Errorf("%s: %w", s.files[i].path, err)
}

// crop returns the part of a picture that begins at (y, x) and has h rows of w pixels.
func (p picture) crop(y, x, h, w int) picture {
	at := y*p.row + x*p.step
	if p.values != nil {
		p.values = p.values[at:]
	} else {
		p.pixels = p.pixels[at:]
	}
	p.h, p.w = h, w
	return p
}

func (s *set) Fingerprint() [32]byte {
	h := sha256.New()
	_ = binary.Write(h, binary.LittleEndian, []int64{int64(len(s.labels)), int64(s.c), int64(s.h), int64(s.w)})
	_ = binary.Write(h, binary.LittleEndian, s.labels)
	h.Write(s.pixels)
	for part := range slices.Chunk(s.values, 1<<14) {
		_ = binary.Write(h, binary.LittleEndian, part)
	}
	root := s.path // files are known by where they lie from here, so that a set may lie anywhere
	if len(s.files) > 0 && s.files[0].origin != "" {
		root = filepath.Dir(root)
	}
	for _, f := range s.files {
		name, err := filepath.Rel(root, f.path)
		if err != nil {
			name = f.path
		}
		fmt.Fprintf(h, "%s\x00%d\x00", filepath.ToSlash(name), f.size)
	}
	return [32]byte(h.Sum(nil))
}

func (s *set) Files() []string {
	all := slices.Clone(s.made)
	for _, f := range s.files {
		all = append(all, f.path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// problems gathers what does not fit in a data set, up to a number that a person reads.
type problems struct {
	list []error
	more int
}

func (p *problems) add(format string, args ...any) {
	if len(p.list) == 20 {
		p.more++
		return
	}
	p.list = append(p.list, fmt.Errorf(format, args...))
}

// err returns all problems as one error, a line each, or nil.
func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.list, fmt.Errorf("and %d more", p.more))...)
	}
	return errors.Join(p.list...)
}

// numbered returns the names of classes that have none: their numbers.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}

// wrong is a fault of the configuration and not of the data.
func wrong(key, format string, args ...any) error {
	return configs.Errors{{Key: key, Message: fmt.Sprintf(format, args...)}}
}

// regular refuses what isn't a file: reading a pipe may wait for ever.
func regular(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		err = errors.New("a folder, not a file")
	case !info.Mode().IsRegular():
		err = errors.New("not a regular file")
	default:
		return nil
	}
	return &os.PathError{Op: "open", Path: path, Err: err}
}

// readFile reads a whole regular file.
func readFile(path string) ([]byte, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// readable turns a file system's error into one that says what to do.
func readable(key, path, want string, err error) error {
	switch {
	case path == "":
		return configs.Errors{{Message: fmt.Sprintf("%s is missing: set it to %s", key, want)}}
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: %s: not there: %s takes %s", key, path, key, want)
	}
	return fmt.Errorf("%s: %s: %w: make it a file that can be read, or set %s to %s", key, path, cause(err), key, want)
}
