package pipeline

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// DataFile is a file that a run's data was read from.
type DataFile struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`     // bytes
	Modified time.Time `json:"modified"` // when its sum was computed
	SHA256   string    `json:"sha256"`   // hexadecimal
}

// sumsFile is where the checksums of data are remembered, beside the runs' folders: a DataFile a line.
const sumsFile = "data-sums.jsonl"

func dataFile(number int) string { return fmt.Sprintf("%03d-data.json", number) }

// ReadData reads the files that the data of a run's attempt came from.
func ReadData(run string, number int) (files []DataFile, err error) {
	return files, readJSON(filepath.Join(run, attemptsFolder, dataFile(number)), &files)
}

// settled is how old a file's time has to be for its sum to be remembered: within it, a file may change again and keep its time.
const settled = 2 * time.Second

// SumData finds the checksums of files. They are computed once and remembered in a cache, for as long as size and time stay.
// Several processes may share a cache, and one that cannot be written is done without.
func SumData(ctx context.Context, cache string, paths []string) ([]DataFile, error) {
	known := readSums(cache)
	files, fresh := []DataFile{}, []byte{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("computing the checksums of the data: %w", err)
		}
		f, ok := known[path]
		if !ok || f.Size != info.Size() || !f.Modified.Equal(info.ModTime()) {
			sum, err := sumOf(ctx, path)
			if err != nil {
				return nil, fmt.Errorf("computing the checksums of the data: %w", err)
			}
			f = DataFile{path, info.Size(), info.ModTime(), sum}
			if line, err := json.Marshal(f); err == nil && time.Since(f.Modified) > settled {
				fresh = append(append(fresh, line...), '\n')
			}
		}
		files = append(files, f)
	}
	if len(fresh) > 0 {
		if c, err := os.OpenFile(cache, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666); err == nil {
			c.Write(fresh)
			c.Close()
		}
	}
	return files, nil
}

// readSums reads a cache. Lines that are not whole are passed over, later ones count.
func readSums(cache string) map[string]DataFile {
	known := map[string]DataFile{}
	f, err := os.Open(cache)
	if err != nil {
		return known
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var d DataFile
		if json.Unmarshal(lines.Bytes(), &d) == nil {
			known[d.Path] = d
		}
	}
	return known
}

// sumOf is the SHA-256 of a file.
func sumOf(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash, buffer := sha256.New(), make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.Read(buffer)
		hash.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(hash.Sum(nil)), nil
		}
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			return "", err
		} else if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
	}
}

// Differs says how the file is not what it was; "" where it is.
func (f DataFile) Differs(ctx context.Context) string {
	info, err := os.Stat(f.Path)
	if err != nil {
		return problem(err)
	}
	if info.Size() != f.Size {
		return fmt.Sprintf("has %d bytes, where the record says %d", info.Size(), f.Size)
	}
	sum, err := sumOf(ctx, f.Path)
	switch {
	case err != nil:
		return problem(err)
	case sum != f.SHA256:
		return fmt.Sprintf("has the SHA-256 %.8s..., where the record says %.8s...: it has changed since", sum, f.SHA256)
	}
	return ""
}
