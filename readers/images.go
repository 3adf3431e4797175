package readers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"gotrain/configs"
)

// openImages reads JPEG and PNG pictures. reader.path names a map file or a folder with one folder a class, or a folder
// whose folders train and test are such. Pictures stay on disk; all that is looked at now is that they are there and,
// unless they are scaled, their size.
func openImages(cfg configs.Reader, split Split) (*set, error) {
	train, test, err := imagePaths(cfg, split)
	if err != nil {
		return nil, err
	}
	path := train
	if split == Test {
		path = test
	}
	s := &set{path: path, c: 3}
	if cfg.Channels != 0 {
		if s.c = cfg.Channels; s.c != 1 && s.c != 3 {
			return nil, wrong("reader.channels", "%d: use 1 (gray) or 3 (color)", s.c)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	if info.IsDir() {
		err = s.readFolder(path, train)
	} else {
		s.made = append(s.made, path)
		if path != train && cfg.NumClasses == 0 {
			s.made = append(s.made, train)
		}
		err = s.readMap(path, train, cfg.NumClasses)
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkFiles(cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// imagePaths returns where the two halves lie. The training half is needed for the classes of the test half as well.
func imagePaths(cfg configs.Reader, split Split) (train, test string, err error) {
	const want = "a map file or a folder with one folder a class"
	train, test = cfg.Path, cfg.TestPath
	info, err := os.Stat(train)
	if err != nil {
		return "", "", readable("reader.path", train, want, err)
	}
	sub := func(name string) bool {
		i, err := os.Stat(filepath.Join(cfg.Path, name))
		return err == nil && i.IsDir()
	}
	if info.IsDir() && sub("train") && (sub("test") || sub("val") || test != "") {
		train = filepath.Join(cfg.Path, "train")
		for _, name := range []string{"val", "test"} {
			if cfg.TestPath == "" && sub(name) {
				test = filepath.Join(cfg.Path, name)
			}
		}
	}
	if split == Test {
		if _, err := os.Stat(test); err != nil {
			return "", "", readable("reader.testPath", test, want, err)
		}
	}
	return train, test, nil
}

// readFolder takes every picture of dir's folders. The sorted folders of the training half are the classes.
func (s *set) readFolder(dir, train string) error {
	info, err := os.Stat(train)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("reader.testPath: %s: a folder, but reader.path is a map file: use two of a kind", dir)
	}
	if s.classes, err = folders(train); err != nil {
		return err
	}
	if len(s.classes) == 0 {
		return fmt.Errorf("%s: no folders in it: put the pictures of each class into a folder of its own", train)
	}
	names := s.classes
	var bad problems
	if dir != train {
		if names, err = folders(dir); err != nil {
			return err
		}
		for _, name := range names {
			if !slices.Contains(s.classes, name) {
				bad.add("%s: no such class in %s: remove the folder or add it there", filepath.Join(dir, name), train)
			}
		}
	}
	other := 0
	for _, name := range names {
		label := slices.Index(s.classes, name)
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		before := len(s.files)
		for _, e := range entries {
			if !isPicture(e) {
				if !strings.HasPrefix(e.Name(), ".") {
					other++
				}
				continue
			}
			s.files = append(s.files, file{path: filepath.Join(dir, name, e.Name())})
			s.labels = append(s.labels, int32(label))
		}
		if len(s.files) == before {
			bad.add("%s: a class without pictures: put .jpg, .jpeg or .png files there or remove the folder",
				filepath.Join(dir, name))
		}
	}
	if other > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%s: %d files that are neither .jpg, .jpeg nor .png are not used", dir, other))
	}
	return bad.err()
}

// folders returns the sorted names of a folder's folders, hidden ones aside.
func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name())) // follows links
		if err == nil && info.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func isPicture(e fs.DirEntry) bool {
	switch strings.ToLower(filepath.Ext(e.Name())) {
	case ".jpg", ".jpeg", ".png":
		return !e.IsDir() && !strings.HasPrefix(e.Name(), ".")
	}
	return false
}

// readMap reads CNTK's map file: a path, a tab and the number of the class on each line. Paths are relative to the map.
// A byte-order mark, CRLF, empty lines and spaces in paths are no obstacle.
func (s *set) readMap(path, train string, classes int) error {
	key := "reader.path"
	if path != train {
		key = "reader.testPath"
	}
	entries, err := mapLines(key, path, classes)
	if err != nil {
		return err
	}
	for _, e := range entries {
		s.files = append(s.files, file{path: e.path, origin: fmt.Sprintf("%s:%d", path, e.line)})
		s.labels = append(s.labels, e.label)
	}
	if classes == 0 && path != train { // one more than the greatest label of the training half
		if info, err := os.Stat(train); err == nil && info.IsDir() {
			return fmt.Errorf("reader.testPath: %s: a map file, but reader.path is a folder: use two of a kind", path)
		}
		if entries, err = mapLines("reader.path", train, 0); err != nil {
			return err
		}
	}
	for _, e := range entries {
		classes = max(classes, int(e.label)+1)
	}
	s.classes = numbered(classes)
	var bad problems
	for i, label := range s.labels {
		if int(label) >= classes {
			bad.add("%s: label %d is not an integer from 0 to %d, the greatest of %s", s.files[i].origin, label, classes-1, train)
		}
	}
	return bad.err()
}

// maxClasses is as many as reader.numClasses takes.
const maxClasses = 1 << 20

type mapLine struct {
	line  int // from 1
	path  string
	label int32
}

// mapLines parses a map. With classes 0 any label is good that is not negative.
func mapLines(key, path string, classes int) ([]mapLine, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, readable(key, path, "a map file", err)
	}
	limit, want := int64(maxClasses), "an integer from 0"
	if classes > 0 {
		limit = int64(classes)
		want = fmt.Sprintf("an integer from 0 to %d", classes-1)
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(content) {
		return nil, fmt.Errorf("%s: not UTF-8: save the map as UTF-8 text", path)
	}
	var bad problems
	var entries []mapLine
	scan := bufio.NewScanner(bytes.NewReader(content))
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		line := scan.Text() // a CR before the LF is off already
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, text, found := strings.Cut(line, "\t")
		text = strings.TrimSpace(text)
		if !found {
			bad.add("%s:%d: no label in %q: write the path, a tab and the number of the class", path, n, line)
			continue
		}
		if name == "" {
			bad.add("%s:%d: no path in %q: write the path, a tab and the number of the class", path, n, line)
			continue
		}
		label, err := strconv.ParseInt(text, 10, 32)
		if err == nil && label >= maxClasses {
			bad.add("%s:%d: label %d is above %d, the greatest that can be used: number the classes from 0", path, n, label, maxClasses-1)
			continue
		}
		if err != nil || label < 0 || label >= limit {
			bad.add("%s:%d: label '%s' is not %s", path, n, text, want)
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
		}
		entries = append(entries, mapLine{n, name, int32(label)})
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(bad.list) == 0 && len(entries) == 0 {
		return nil, fmt.Errorf("%s: no pictures in it: write a path, a tab and the number of a class on each line", path)
	}
	return entries, bad.err()
}

// checkFiles looks at every file: that it is there and, where the size of samples follows from it, its header.
func (s *set) checkFiles(cfg configs.Reader) error {
	scaled := slices.ContainsFunc(cfg.Transforms, func(t configs.Transform) bool { return t.Kind == "scale" })
	errs := make([]error, len(s.files))
	sizes := make([][2]int, len(s.files)) // width, height
	var next atomic.Int64
	var running sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) { // twice: they wait for the disk
		running.Add(1)
		go func() {
			defer running.Done()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(s.files) {
					return
				}
				errs[i] = s.files[i].check()
				if errs[i] == nil && !scaled {
					sizes[i], errs[i] = dimensions(s.files[i].path)
				}
			}
		}()
	}
	running.Wait()
	var bad problems
	if !scaled {
		s.w, s.h = cfg.Width, cfg.Height
	}
	for i, err := range errs {
		switch {
		case errors.Is(err, fs.ErrNotExist) && s.files[i].origin == "":
			bad.add("%w: a link to nothing: correct or remove it", s.locate(i, err))
		case errors.Is(err, fs.ErrNotExist):
			bad.add("%w: correct the path, which is relative to the map, or remove the line", s.locate(i, err))
		case err != nil && cfg.OnError != "skip":
			bad.add("%w: mend or remove it, or set reader.onError: skip", s.locate(i, err))
		case err != nil || scaled: // one that is skipped when its turn comes
		case s.w == 0 || s.h == 0:
			s.w, s.h = sizes[i][0], sizes[i][1]
		case sizes[i] != [2]int{s.w, s.h}:
			bad.add("%w", s.locate(i, fmt.Errorf("a picture of %dx%d pixels where %dx%d are expected: "+
				"add {scale: {width: W, height: H}} to reader.transforms", sizes[i][0], sizes[i][1], s.w, s.h)))
		}
	}
	if !scaled && s.w == 0 && len(bad.list) == 0 {
		bad.add("%s: none of %d pictures can be read", s.path, len(s.files))
	}
	return bad.err()
}

// check sees whether the file is there.
func (f *file) check() error {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return cause(err)
	case info.IsDir():
		return errors.New("a folder, not a picture")
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	f.size = info.Size()
	return nil
}
