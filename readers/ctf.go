package readers

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"gotrain/configs"
)

// ctf reads CNTK's text format. A line is a sample: streams, each a bar, a name and values, dense or as index:value.
//
//	|labels 0 1 0 |features 1 2 3
//	17 |labels 1:1 |features 0:1 2:3 |# a comment, in which #| is a bar
//
// A number may stand before the first bar; CNTK joins lines of one number to a sequence, which a picture is not, so
// two lines of one number are refused. Streams of other names are not used.
type ctf struct {
	path             string
	features, labels string // names of streams
	shape            []int
	size             int // values of a sample
	classes          int // 0: as many as the first label has values
	set              *set
	id               []byte // of the line before
	row              []float32
}

// openCTF reads a text file whole. A line that cannot be read is an error whatever reader.onError says: it can be seen
// and mended before training, which is not so for a picture.
func openCTF(cfg configs.Reader, split Split) (*set, error) {
	path, key := cfg.Path, "reader.path"
	if split == Test {
		path, key = cfg.TestPath, "reader.testPath"
	}
	f := ctf{path: path, features: cfg.FeatureStream, labels: cfg.LabelStream, shape: cfg.FeatureShape, classes: cfg.NumClasses}
	if f.features == "" {
		f.features = "features"
	}
	if f.labels == "" {
		f.labels = "labels"
	}
	if len(f.shape) != 3 || f.shape[0] < 1 || f.shape[1] < 1 || f.shape[2] < 1 {
		return nil, fmt.Errorf("reader.featureShape: %v: set it to [channels, height, width] of a sample", f.shape)
	}
	content, err := readFile(path)
	if err != nil {
		return nil, readable(key, path, "a file in CNTK's text format", err)
	}
	return f.parse(content)
}

func (f *ctf) parse(content []byte) (*set, error) {
	f.set = &set{path: f.path, made: []string{f.path}, c: f.shape[0], h: f.shape[1], w: f.shape[2]}
	f.size = f.set.c * f.set.h * f.set.w
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	var bad problems
	for n := 1; len(content) > 0; n++ {
		var line []byte
		line, content, _ = bytes.Cut(content, []byte("\n"))
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if err := f.line(line); err != nil {
			bad.add("%s:%d: %w", f.path, n, err)
		}
	}
	if err := bad.err(); err != nil {
		return nil, err
	}
	if len(f.set.labels) == 0 {
		return nil, fmt.Errorf("%s: no samples in it", f.path)
	}
	f.set.classes = numbered(f.classes)
	return f.set, nil
}

// line appends a sample to the set.
func (f *ctf) line(line []byte) error {
	id, rest, found := bytes.Cut(line, []byte("|"))
	if !found {
		return fmt.Errorf("no stream in %s: write |%s and |%s with their values", clip(line), f.labels, f.features)
	}
	if id = bytes.TrimSpace(id); len(id) > 0 {
		if _, err := strconv.ParseUint(string(id), 10, 64); err != nil {
			return fmt.Errorf("%s before the first bar is not a number", clip(id))
		}
		if bytes.Equal(id, f.id) {
			return fmt.Errorf("sequence %s has a second line: a sample is one line, give each its own number or none", id)
		}
	}
	f.id = id
	var features, label []byte
	for more := true; more; {
		var stream []byte
		stream, rest, more = cutStream(rest)
		name, values := stream, []byte(nil)
		if i := bytes.IndexAny(stream, " \t"); i >= 0 {
			name, values = stream[:i], bytes.TrimSpace(stream[i:])
		}
		if values == nil {
			values = []byte{}
		}
		var into *[]byte
		switch string(name) {
		case f.features:
			into = &features
		case f.labels:
			into = &label
		default:
			continue
		}
		if *into != nil {
			return fmt.Errorf("stream '%s' comes twice", name)
		}
		*into = values
	}
	if features == nil || label == nil {
		missing := f.features
		if features != nil {
			missing = f.labels
		}
		return fmt.Errorf("no stream '%s' in %s: add it, or set reader.featureStream and reader.labelStream", missing, clip(line))
	}
	class, err := f.class(label)
	if err != nil {
		return err
	}
	f.row = f.row[:0]
	if f.row, err = numbers(f.row, features, f.size); err != nil {
		return fmt.Errorf("stream '%s': %w (reader.featureShape is %v)", f.features, err, f.shape)
	}
	f.set.values = append(f.set.values, f.row...)
	f.set.labels = append(f.set.labels, class)
	return nil
}

// cutStream returns what stands before the next bar. In a comment, #| is no end.
func cutStream(s []byte) (stream, rest []byte, more bool) {
	comment := bytes.HasPrefix(s, []byte("#"))
	for i, b := range s {
		if b == '|' && !(comment && i > 1 && s[i-1] == '#') {
			return s[:i], s[i+1:], true
		}
	}
	return s, nil, false
}

// class reads a label, one 1 among zeros.
func (f *ctf) class(text []byte) (int32, error) {
	if f.classes == 0 {
		if bytes.IndexByte(text, ':') >= 0 {
			return 0, fmt.Errorf("stream '%s': %s does not tell the number of classes: set reader.numClasses", f.labels, clip(text))
		}
		f.classes = len(bytes.Fields(text))
	}
	var err error
	f.row = f.row[:0]
	if f.row, err = numbers(f.row, text, f.classes); err != nil {
		return 0, fmt.Errorf("stream '%s': %w (%d classes)", f.labels, err, f.classes)
	}
	class := int32(-1)
	for i, v := range f.row {
		switch {
		case v == 0:
		case v == 1 && class < 0:
			class = int32(i)
		default:
			return 0, fmt.Errorf("stream '%s': %s is not one-hot: write one 1 among zeros", f.labels, clip(text))
		}
	}
	if class < 0 {
		return 0, fmt.Errorf("stream '%s': %s is not one-hot: write one 1 among zeros", f.labels, clip(text))
	}
	return class, nil
}

// numbers appends n values that are written dense or sparse.
func numbers(dst []float32, text []byte, n int) ([]float32, error) {
	if bytes.IndexByte(text, ':') < 0 {
		count := 0
		for word := range bytes.FieldsSeq(text) {
			v, err := number(word)
			if err != nil {
				return dst, err
			}
			if count++; count <= n {
				dst = append(dst, v)
			}
		}
		if count != n {
			return dst, fmt.Errorf("%d values, %d expected", count, n)
		}
		return dst, nil
	}
	for range n {
		dst = append(dst, 0)
	}
	for word := range bytes.FieldsSeq(text) {
		at, value, found := bytes.Cut(word, []byte(":"))
		index, err := strconv.ParseUint(string(at), 10, 31)
		if !found || err != nil {
			return dst, fmt.Errorf("%s is not index:value", clip(word))
		}
		if int(index) >= n {
			return dst, fmt.Errorf("index %d is not from 0 to %d", index, n-1)
		}
		if dst[index], err = number(value); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func number(word []byte) (float32, error) {
	if len(word) <= 3 { // most are the bytes of pictures
		v, digits := 0, len(word) > 0
		for _, b := range word {
			digits = digits && '0' <= b && b <= '9'
			v = 10*v + int(b-'0')
		}
		if digits {
			return float32(v), nil
		}
	}
	v, err := strconv.ParseFloat(string(word), 32)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%s is not a finite number", clip(word))
	}
	return float32(v), nil
}

// clip quotes what a message shows of a line.
func clip(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("'%s...'", b[:60])
	}
	return fmt.Sprintf("'%s'", b)
}
