package readers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// cifar is the record of a CIFAR binary file: label bytes, then 1024 red, 1024 green and 1024 blue bytes.
type cifar struct {
	labels int // label bytes
	at     int // which of them counts
	names  []string
	usual  int      // records of a file
	all    []string // the files of which each has as many
	list   string   // the file with the names of the classes; "" where there is none
}

const cifarPixels = 3 * 32 * 32

var cifar10Names = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

// openCIFAR10 reads the folder cifar-10-batches-bin: data_batch_1.bin to data_batch_5.bin or test_batch.bin.
func openCIFAR10(dir string, split Split) (*set, error) {
	const folder = "cifar-10-batches-bin"
	if err := isFolder(dir, folder); err != nil {
		return nil, err
	}
	names, err := cifarNames(dir, "batches.meta.txt", 10)
	if err != nil {
		return nil, err
	}
	list := "batches.meta.txt"
	if names == nil {
		names, list = cifar10Names, ""
	}
	all := []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}
	files := all[:5]
	if split == Test {
		files = all[5:]
	}
	return cifar{labels: 1, names: names, usual: 10000, all: all, list: list}.open(dir, files, folder)
}

// openCIFAR100 reads the folder cifar-100-binary: train.bin or test.bin, whose records begin with a coarse and a fine
// label.
func openCIFAR100(dir, labels string, split Split) (*set, error) {
	const folder = "cifar-100-binary"
	if err := isFolder(dir, folder); err != nil {
		return nil, err
	}
	f := cifar{labels: 2, at: 1, usual: 50000}
	list, classes := "fine_label_names.txt", 100
	switch labels {
	case "fine", "":
	case "coarse":
		f.at, list, classes = 0, "coarse_label_names.txt", 20
	default:
		return nil, fmt.Errorf("reader.labelKind: %q: use fine (100 classes) or coarse (20)", labels)
	}
	var err error
	if f.names, err = cifarNames(dir, list, classes); err != nil {
		return nil, err
	}
	f.list = list
	if f.names == nil {
		f.names, f.list = numbered(classes), ""
	}
	file := "train.bin"
	if split == Test {
		file, f.usual = "test.bin", 10000
	}
	return f.open(dir, []string{file}, folder)
}

// isFolder checks that reader.path names a folder, which is usually called as given.
func isFolder(path, called string) error {
	info, err := os.Stat(path)
	if err != nil {
		return readable("reader.path", path, "the folder "+called, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("reader.path: %s: a file: set it to the folder %s", path, called)
	}
	return nil
}

// cifarNames reads the names of the classes, one a line; none where there is no such file.
func cifarNames(dir, name string, classes int) ([]string, error) {
	text, err := readFile(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, readable("reader.path", filepath.Join(dir, name), "a folder with its files", err)
	}
	var names []string
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			names = append(names, line)
		}
	}
	if len(names) != classes {
		return nil, fmt.Errorf("%s: %d names of classes, %d expected: fetch the file again or remove it",
			filepath.Join(dir, name), len(names), classes)
	}
	return names, nil
}

func (f cifar) open(dir string, files []string, folder string) (*set, error) {
	s := &set{path: dir, classes: f.names, c: 3, h: 32, w: 32}
	record := int64(f.labels + cifarPixels)
	var bad problems
	var total int64
	for _, name := range files { // all sizes first: reading takes longer
		path := filepath.Join(dir, name)
		err := regular(path)
		if errors.Is(err, os.ErrNotExist) {
			bad.add("%s: not there: %s has %s", path, folder, strings.Join(files, ", "))
			continue
		} else if err != nil {
			bad.add("%w", readable("reader.path", path, "the folder "+folder, err))
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		switch n := info.Size(); {
		case n == 0:
			bad.add("%s: empty: fetch the file again", path)
		case n%record != 0:
			bad.add("%s: record %d ends after %d of %d bytes: the file has %d bytes, %d records take %d: fetch the file again",
				path, n/record+1, n%record, record, n, n/record+1, (n/record+1)*record)
		default:
			total += n / record
			if n/record == int64(f.usual) {
				break
			}
			if f.alike(dir) { // a small set, made for a test
				s.notes = append(s.notes, fmt.Sprintf("%s: %d records, usually %d", path, n/record, f.usual))
			} else {
				bad.add("%s: %d records, %d expected: fetch the file again", path, n/record, f.usual)
			}
		}
	}
	if err := bad.err(); err != nil {
		return nil, err
	}
	if f.list != "" {
		s.made = append(s.made, filepath.Join(dir, f.list))
	}
	s.pixels = make([]byte, 0, total*cifarPixels)
	s.labels = make([]int32, 0, total)
	for _, name := range files {
		if err := f.read(filepath.Join(dir, name), s, &bad); err != nil {
			return nil, err
		}
		s.made = append(s.made, filepath.Join(dir, name))
	}
	return s, bad.err()
}

// alike reports whether the files that are there and whole have equally many records.
func (f cifar) alike(dir string) bool {
	sizes := map[int64]bool{}
	for _, name := range f.all {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil && regular(path) == nil && info.Size() > 0 && info.Size()%int64(f.labels+cifarPixels) == 0 {
			sizes[info.Size()] = true
		}
	}
	return len(sizes) < 2
}

// read appends a file's records to the set.
func (f cifar) read(path string, s *set, bad *problems) error {
	file, err := os.Open(path)
	if err != nil {
		return readable("reader.path", path, "a folder whose files can be read", err)
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<18)
	record := make([]byte, f.labels+cifarPixels)
	for n := 1; ; n++ {
		if _, err := io.ReadFull(in, record); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: record %d: %w", path, n, err)
		}
		label := record[f.at]
		if int(label) >= len(s.classes) {
			bad.add("%s: record %d: label %d is not from 0 to %d: is this the file of another set?",
				path, n, label, len(s.classes)-1)
		}
		s.labels = append(s.labels, int32(label))
		s.pixels = append(s.pixels, record[f.labels:]...)
	}
}
