package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// An entry is one tensor of a header.
type entry struct {
	dtype      dtype
	shape      []int
	begin, end int64 // of its values, from the end of the header
}

// A header is what a file says of its tensors.
type header struct {
	metadata map[string]string
	entries  map[string]entry
}

// parseHeader reads a header and checks it against the bytes that follow it in the file. The decoder walks the tokens,
// because encoding/json's own mapping lets the last of two equal keys win and takes keys of another case.
func parseHeader(text []byte, dataBytes int64) (header, error) {
	h := header{entries: map[string]entry{}}
	if !utf8.Valid(text) {
		return h, fmt.Errorf("header is not UTF-8 text")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err := object(dec, "header", func(name string) (err error) {
		if name == metadataKey {
			h.metadata, err = parseMetadata(dec)
			return err
		}
		h.entries[name], err = parseEntry(dec)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return h, err
	}
	if rest := bytes.Trim(text[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return h, fmt.Errorf("header has %.20q after its end", rest)
	}
	return h, h.checkRanges(dataBytes)
}

// checkRanges demands that the tensors' values cover the data from the first byte to the last, each byte once.
func (h header) checkRanges(dataBytes int64) error {
	names := slices.SortedFunc(maps.Keys(h.entries), func(a, b string) int {
		x, y := h.entries[a], h.entries[b]
		return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(x.end, y.end), cmp.Compare(a, b))
	})
	at, last := int64(0), ""
	for _, name := range names {
		e := h.entries[name]
		switch {
		case e.end > dataBytes:
			return fmt.Errorf("tensor %q: its values end at byte %d of the data, which has %d: the file was cut short",
				name, e.end, dataBytes)
		case e.begin < at:
			return fmt.Errorf("tensor %q: its values begin at byte %d of the data, within those of %q, which end at %d",
				name, e.begin, last, at)
		case e.begin > at:
			return fmt.Errorf("tensor %q: its values begin at byte %d of the data, and bytes %d to %d belong to no tensor",
				name, e.begin, at, e.begin)
		}
		at, last = e.end, name
	}
	if at != dataBytes {
		return fmt.Errorf("the tensors end at byte %d of the data, which has %d: the rest belongs to no tensor", at, dataBytes)
	}
	return nil
}

func parseMetadata(dec *json.Decoder) (map[string]string, error) {
	m := map[string]string{}
	err := object(dec, metadataKey, func(key string) (err error) {
		m[key], err = text(dec, fmt.Sprintf("%s: %q", metadataKey, key))
		return err
	})
	return m, err
}

// parseEntry reads {"dtype": ..., "shape": ..., "data_offsets": ...}, in any order.
func parseEntry(dec *json.Decoder) (entry, error) {
	var e entry
	var offsets []int64
	seen := 0
	err := object(dec, "its entry", func(key string) (err error) {
		seen++
		switch key {
		case "dtype":
			var name string
			if name, err = text(dec, key); err != nil {
				return err
			}
			var ok bool
			if e.dtype, ok = dtypeNamed(name); !ok {
				return fmt.Errorf("dtype %.20q is unknown: use one of %s", name, readableNames())
			}
		case "shape":
			var extents []int64
			if extents, err = integers(dec, key); err != nil {
				return err
			}
			e.shape = make([]int, len(extents))
			for i, x := range extents {
				e.shape[i] = int(x)
			}
		case "data_offsets":
			offsets, err = integers(dec, key)
		default:
			return fmt.Errorf("key %.40q is unknown: an entry has dtype, shape and data_offsets", key)
		}
		return err
	})
	switch {
	case err != nil:
		return e, err
	case seen != 3: // unknown keys and repeated ones are refused above, so a count suffices
		return e, fmt.Errorf("its entry lacks one of dtype, shape and data_offsets")
	case len(offsets) != 2 || offsets[0] > offsets[1]:
		return e, fmt.Errorf("data_offsets %v is not a begin and an end", offsets)
	}
	e.begin, e.end = offsets[0], offsets[1]
	if bytes := e.end - e.begin; !holds(e.shape, e.dtype.size, bytes) {
		return e, fmt.Errorf("%s values of shape %v do not take the %d bytes of its data_offsets", e.dtype.name,
			e.shape, bytes)
	}
	return e, nil
}

// holds says whether values of a size and shape take exactly that many bytes, without a product that could overflow.
func holds(shape []int, size, bytes int64) bool {
	if slices.Contains(shape, 0) {
		return bytes == 0
	}
	if bytes == 0 {
		return false
	}
	product := size
	for _, extent := range shape {
		if int64(extent) > bytes/product {
			return false
		}
		product *= int64(extent)
	}
	return product == bytes
}

// object walks a JSON object; value is called at each key and reads what belongs to it. A key that comes twice is an
// error.
func object(dec *json.Decoder, what string, value func(key string) error) error {
	if err := delimiter(dec, '{', what+" is not a JSON object"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return notJSON(what, err)
		}
		key := t.(string) // the decoder takes nothing else there
		if seen[key] {
			return fmt.Errorf("%s has %.80q twice", what, key)
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	return delimiter(dec, '}', what+" has no end")
}

// integers reads a JSON array of integers that are not negative.
func integers(dec *json.Decoder, what string) ([]int64, error) {
	if err := delimiter(dec, '[', what+" is not a list of integers"); err != nil {
		return nil, err
	}
	list := []int64{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, notJSON(what, err)
		}
		number, ok := t.(json.Number)
		n, err := strconv.ParseInt(string(number), 10, strconv.IntSize)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("%s has %.20v, which is no integer from 0 on that fits", what, t)
		}
		list = append(list, n)
	}
	return list, delimiter(dec, ']', what+" has no end")
}

func text(dec *json.Decoder, what string) (string, error) {
	t, err := dec.Token()
	if err != nil {
		return "", notJSON(what, err)
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%s is %.20v and not a text", what, t)
	}
	return s, nil
}

func delimiter(dec *json.Decoder, want json.Delim, otherwise string) error {
	t, err := dec.Token()
	if err != nil {
		return notJSON(otherwise, err)
	}
	if t != want {
		return fmt.Errorf("%s", otherwise)
	}
	return nil
}

func notJSON(where string, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s: the header is not whole JSON: %w", where, err)
}
