package archive

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"gotrain/pipeline"
)

// source is a file that goes into a bundle.
type source struct {
	BundleFile
	path string // on disk; "" where text is the file
	text []byte
}

func (s source) open() (io.ReadCloser, error) {
	if s.path == "" {
		return io.NopCloser(strings.NewReader(string(s.text))), nil
	}
	return os.Open(s.path)
}

// Export writes a run as a bundle; with data, the data set too, so that whoever imports it needs nothing else. A run that goes
// on is refused. After an error there is no file.
func Export(ctx context.Context, dir string, r Run, file string, data bool) (size int64, err error) {
	run := filepath.Join(dir, r.Folder)
	release, err := pipeline.Hold(run)
	if err != nil {
		return 0, fmt.Errorf("%w: export it when it has ended", err)
	}
	defer release()
	files, err := sources(run)
	if err != nil {
		return 0, err
	}
	has := slices.ContainsFunc(files, func(s source) bool { return s.Name == dataKeys })
	switch {
	case !data:
		files = slices.DeleteFunc(files, func(s source) bool { return strings.HasPrefix(s.Name, dataFolder+"/") })
	case !has:
		set, err := dataSources(run)
		if err != nil {
			return 0, fmt.Errorf("%s: exporting its data: %w", r.Folder, err)
		}
		files = append(files, set...)
	}
	slices.SortFunc(files, func(a, b source) int { return strings.Compare(a.Name, b.Name) })
	for i := range files {
		if files[i].Size, files[i].SHA256, err = files[i].digest(ctx); err != nil {
			return 0, err
		}
	}
	out, err := os.CreateTemp(filepath.Dir(file), ".export-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(out.Name())
	err = write(ctx, out, r.Folder, files)
	if err == nil {
		err = out.Chmod(0o644)
	}
	if err == nil {
		err = out.Sync()
	}
	if info, e := out.Stat(); e == nil {
		size = info.Size()
	}
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		return 0, fmt.Errorf("writing %s: %w", file, err)
	}
	return size, os.Rename(out.Name(), file)
}

// sources lists the files of a run's folder.
func sources(run string) (files []source, err error) {
	err = filepath.WalkDir(run, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(run, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if name == pipeline.LockFile || strings.HasSuffix(name, ".tmp") {
			return nil
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s: neither a file nor a folder: move it out of the run", p)
		}
		if !bundleName(name) {
			return fmt.Errorf("%s: a name that a bundle cannot have: rename it", p)
		}
		files = append(files, source{BundleFile: BundleFile{Name: name}, path: p})
		return nil
	})
	return files, err
}

func (s source) digest(ctx context.Context) (size int64, sum string, err error) {
	f, err := s.open()
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	hash := sha256.New()
	size, err = io.Copy(hash, &reader{ctx, f})
	return size, hex.EncodeToString(hash.Sum(nil)), err
}

// reader ends when its context does.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// write writes a bundle of files that are sorted and have their checksums.
func write(ctx context.Context, w io.Writer, folder string, files []source) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(8<<20), zstd.WithEncoderCRC(true))
	if err != nil {
		return err
	}
	m := Manifest{Version: bundleVersion, Folder: folder, Files: []BundleFile{}}
	for _, f := range files {
		m.Files = append(m.Files, f.BundleFile)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	manifest := source{BundleFile: BundleFile{Name: manifestName, Size: int64(len(text))}, text: text}
	if _, manifest.SHA256, err = manifest.digest(ctx); err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range append([]source{manifest}, files...) {
		if err := addFile(ctx, t, f); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// addFile writes a file of a bundle, which has to be as it was when its checksum was computed.
func addFile(ctx context.Context, t *tar.Writer, s source) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: s.Name, Size: s.Size, Mode: 0o644, Format: tar.FormatPAX}); err != nil {
		return err
	}
	f, err := s.open()
	if err != nil {
		return err
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(t, io.TeeReader(io.LimitReader(&reader{ctx, f}, s.Size), hash))
	if err != nil {
		return err
	}
	if n != s.Size || hex.EncodeToString(hash.Sum(nil)) != s.SHA256 {
		return fmt.Errorf("%s has changed meanwhile: export it again", path.Join(s.path))
	}
	return nil
}
