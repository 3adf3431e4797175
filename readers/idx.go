package readers

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gotrain/configs"
)

// An IDX file begins with two zero bytes, a type (8: unsigned byte) and the number of dimensions; the dimensions follow
// as 4 bytes each, big-endian, then the values. See http://yann.lecun.com/exdb/mnist, "the IDX file format".
const (
	idxLabels = 0x0801 // [N]
	idxGray   = 0x0803 // [N][H][W]
	idxColor  = 0x0804 // [N][H][W][C]
)

// openIDX reads pictures and labels in MNIST's files, compressed or not.
func openIDX(cfg configs.Reader, split Split) (*set, error) {
	imagesPath, labelsPath, err := idxFiles(cfg, split)
	if err != nil {
		return nil, err
	}
	images, labels, err := readPair(imagesPath, labelsPath)
	if err != nil {
		return nil, err
	}
	s := &set{path: imagesPath, labels: labels, made: []string{imagesPath, labelsPath}}
	s.setPixels(images)
	classes := cfg.NumClasses
	if classes == 0 { // one more than the greatest label of the training set
		train := labels
		if split == Test {
			var from string
			if train, from, err = trainLabels(cfg); err != nil {
				return nil, err
			}
			s.made = append(s.made, from)
		}
		for _, label := range train {
			classes = max(classes, int(label)+1)
		}
	}
	s.classes = numbered(classes)
	var bad problems
	for i, label := range labels {
		if int(label) >= classes {
			bad.add("%s: record %d: label %d is not from 0 to %d", labelsPath, i+1, label, classes-1)
		}
	}
	return s, bad.err()
}

func trainLabels(cfg configs.Reader) (labels []int32, path string, err error) {
	_, path, err = idxFiles(cfg, Train)
	if err != nil {
		return nil, "", fmt.Errorf("%w (the number of classes is found there; or set reader.numClasses)", err)
	}
	content, err := readFile(path)
	if err != nil {
		return nil, "", readable("reader.path", path, "a folder whose files can be read", err)
	}
	parsed, err := parseIDX(content, idxLabels)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return parsed.numbers(), path, nil
}

// readPair reads a file of pictures and the file of their labels.
func readPair(imagesPath, labelsPath string) (*idx, []int32, error) {
	var parsed [2]*idx
	for i, path := range []string{imagesPath, labelsPath} {
		content, err := readFile(path)
		if err != nil {
			return nil, nil, readable("reader.path", path, "a folder whose files can be read", err)
		}
		magics := []int{idxGray, idxColor}
		if i == 1 {
			magics = []int{idxLabels}
		}
		if parsed[i], err = parseIDX(content, magics...); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	images, labels := parsed[0], parsed[1]
	if images.dims[0] != labels.dims[0] {
		return nil, nil, fmt.Errorf("%s: %d labels, but %s has %d pictures: the files belong to different sets",
			labelsPath, labels.dims[0], imagesPath, images.dims[0])
	}
	return images, labels.numbers(), nil
}

// idxFiles finds the two files of a split: as given, or by MNIST's names, with a dot or a hyphen before idx, with or
// without .gz.
func idxFiles(cfg configs.Reader, split Split) (images, labels string, err error) {
	prefix, imagesKey, labelsKey := "train", cfg.TrainImages, cfg.TrainLabels
	keys := [2]string{"reader.trainImages", "reader.trainLabels"}
	dir := cfg.Path
	if split == Test {
		prefix, imagesKey, labelsKey = "t10k", cfg.TestImages, cfg.TestLabels
		keys = [2]string{"reader.testImages", "reader.testLabels"}
		if cfg.TestPath != "" {
			dir = cfg.TestPath
		}
	}
	if images, err = idxFile(imagesKey, keys[0], dir, prefix+"-images", "idx3-ubyte"); err != nil {
		return "", "", err
	}
	labels, err = idxFile(labelsKey, keys[1], dir, prefix+"-labels", "idx1-ubyte")
	return images, labels, err
}

func idxFile(given, key, dir, name, form string) (string, error) {
	if given != "" {
		if err := regular(given); err != nil {
			return "", readable(key, given, "an IDX file", err)
		}
		return given, nil
	}
	if dir == "" {
		return "", fmt.Errorf("reader.path is missing: set it to a folder with MNIST's file names, or set %s", key)
	}
	if _, err := os.Stat(dir); err != nil {
		return "", readable("reader.path", dir, "a folder with MNIST's file names", err)
	}
	for _, joint := range []string{"-", "."} {
		for _, suffix := range []string{"", ".gz"} {
			path := filepath.Join(dir, name+joint+form+suffix)
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("reader.path: %s: no %s-%s, with or without .gz: put it there or set %s", dir, name, form, key)
}

// idx is a file's content.
type idx struct {
	dims   []int
	values []byte
}

// parseIDX reads a file's content, which may be compressed, and which must begin with one of the magic numbers.
func parseIDX(content []byte, magics ...int) (*idx, error) {
	if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		var err error
		if content, err = gunzip(content); err != nil {
			return nil, err
		}
	}
	if len(content) < 4 {
		return nil, fmt.Errorf("%d bytes are too few for an IDX file: fetch it again", len(content))
	}
	magic := int(binary.BigEndian.Uint32(content))
	known := false
	var names []string
	for _, m := range magics {
		known = known || m == magic
		names = append(names, fmt.Sprintf("0x%08x", m))
	}
	if !known {
		return nil, fmt.Errorf("magic number 0x%08x, %s expected: not an IDX file of the kind that is wanted here",
			magic, strings.Join(names, " or "))
	}
	f := &idx{values: content[4:]}
	want := 1
	for range magic & 0xff {
		if len(f.values) < 4 {
			return nil, fmt.Errorf("the header is cut short: fetch the file again")
		}
		n := int(binary.BigEndian.Uint32(f.values))
		if n == 0 || want > 1<<40/n {
			return nil, fmt.Errorf("dimension %d is %d: the header is damaged, fetch the file again", len(f.dims)+1, n)
		}
		f.dims = append(f.dims, n)
		f.values = f.values[4:]
		want *= n
	}
	if len(f.values) != want {
		record := want / f.dims[0]
		if len(f.values) < want {
			return nil, fmt.Errorf("record %d of %d ends early: %d bytes of values, %d expected: fetch the file again",
				len(f.values)/record+1, f.dims[0], len(f.values), want)
		}
		return nil, fmt.Errorf("%d bytes of values, %d expected for %d records: fetch the file again",
			len(f.values), want, f.dims[0])
	}
	return f, nil
}

func gunzip(content []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err == nil {
		content, err = io.ReadAll(z)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("the gzip file is truncated, after %d bytes of content: fetch it again", len(content))
	case err != nil:
		return nil, fmt.Errorf("%w: the file is damaged, fetch it again", err)
	}
	return content, nil
}

func (f *idx) numbers() []int32 {
	n := make([]int32, len(f.values))
	for i, v := range f.values {
		n[i] = int32(v)
	}
	return n
}

// setPixels makes the pictures of an IDX file the set's, channels apart.
func (s *set) setPixels(f *idx) {
	s.h, s.w, s.c = f.dims[1], f.dims[2], 1
	s.pixels = f.values
	if len(f.dims) < 4 {
		return
	}
	s.c = f.dims[3]
	plane := s.h * s.w
	s.pixels = make([]byte, len(f.values))
	for n := range f.dims[0] {
		in, out := f.values[n*plane*s.c:], s.pixels[n*plane*s.c:]
		for i := range plane {
			for c := range s.c {
				out[c*plane+i] = in[i*s.c+c]
			}
		}
	}
}
