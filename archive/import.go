package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"gotrain/pipeline"
)

// MaxBytes is what the files of a bundle may take, unless more is allowed.
const MaxBytes = 64 << 30

// Import makes a run's folder of a bundle, below a folder of runs, and returns its name. A bundle that differs from its
// manifest in anything leaves nothing.
func Import(ctx context.Context, dir, file string, limit int64) (folder string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(dir, ".import-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temporary)
	run := filepath.Join(temporary, "run")
	if err := os.Mkdir(run, 0o777); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(run) // no name leads out of it
	if err != nil {
		return "", err
	}
	defer root.Close()
	m, err := readFile(ctx, file, limit, func(m Manifest) error {
		if _, err := os.Lstat(filepath.Join(dir, m.Folder)); err == nil {
			return fmt.Errorf("%s is there already: remove it with gotrain runs rm, or import into another folder with -runs DIR", filepath.Join(dir, m.Folder))
		}
		return nil
	}, func(name string, content io.Reader) error {
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		if _, err = io.Copy(f, content); err == nil {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	})
	if err != nil {
		return "", err
	}
	if _, err := pipeline.ReadRecord(run); err != nil {
		return "", fmt.Errorf("%s: there is no run in it: %w", file, problem(err))
	}
	if err := os.Rename(run, filepath.Join(dir, m.Folder)); err != nil {
		return "", err
	}
	return m.Folder, nil
}

// problem leaves the path of a temporary file away.
func problem(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return fmt.Errorf("%s: %w", filepath.Base(p.Path), p.Err)
	}
	return err
}

// VerifyBundle reads a bundle and compares it with its manifest.
func VerifyBundle(ctx context.Context, file string) (Manifest, error) {
	return readFile(ctx, file, 1<<62, func(Manifest) error { return nil }, func(_ string, content io.Reader) error {
		_, err := io.Copy(io.Discard, content)
		return err
	})
}

func readFile(ctx context.Context, file string, limit int64, begin func(Manifest) error, each func(name string, content io.Reader) error) (Manifest, error) {
	f, err := os.Open(file)
	if err != nil {
		return Manifest{}, err
	}
	defer f.Close()
	m, err := readBundle(&reader{ctx, f}, limit, begin, each)
	if err != nil {
		return m, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// readBundle reads a bundle, of which nothing is believed. begin sees the manifest, each every file, whose content ends with an
// error where it is not what the manifest says: what was made of it until then is to be thrown away.
func readBundle(r io.Reader, limit int64, begin func(Manifest) error, each func(name string, content io.Reader) error) (m Manifest, err error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return m, err
	}
	defer z.Close()
	t := tar.NewReader(z)
	h, err := next(t, manifestName)
	if errors.Is(err, io.EOF) {
		return m, errors.New("is empty")
	}
	if err != nil {
		return m, err
	}
	if h.Name != manifestName || h.Size > maxManifest {
		return m, fmt.Errorf("is no bundle of gotrain: it begins with %q, and not with %s", h.Name, manifestName)
	}
	var text bytes.Buffer
	if _, err := io.Copy(&text, t); err != nil {
		return m, unreadable(manifestName, err)
	}
	if m, err = parseManifest(text.Bytes(), limit); err != nil {
		return m, err
	}
	if err := begin(m); err != nil {
		return m, err
	}
	for _, f := range m.Files {
		h, err := next(t, f.Name)
		switch {
		case errors.Is(err, io.EOF):
			return m, fmt.Errorf("%s is missing", f.Name)
		case err != nil:
			return m, err
		case h.Name != f.Name:
			return m, fmt.Errorf("has %q, where %s says %q", h.Name, manifestName, f.Name)
		case h.Size != f.Size:
			return m, fmt.Errorf("%s has %d bytes, where %s says %d", f.Name, h.Size, manifestName, f.Size)
		}
		hash := sha256.New()
		if err := each(f.Name, io.TeeReader(t, hash)); err != nil {
			return m, unreadable(f.Name, err)
		}
		if sum := hex.EncodeToString(hash.Sum(nil)); sum != f.SHA256 {
			return m, fmt.Errorf("%s has the SHA-256 %.8s..., where %s says %.8s...: the bundle was changed or damaged", f.Name, sum, manifestName, f.SHA256)
		}
	}
	if h, err := next(t, "its end"); err == nil {
		return m, fmt.Errorf("has %q, of which %s says nothing", h.Name, manifestName)
	} else if !errors.Is(err, io.EOF) {
		return m, err
	}
	switch n, err := io.CopyN(io.Discard, z, 1); {
	case n > 0:
		return m, errors.New("has more behind its end")
	case !errors.Is(err, io.EOF):
		return m, unreadable("its end", err)
	}
	return m, nil
}

// next gives the header of the next entry, which has to be a plain file; name is the one that is expected.
func next(t *tar.Reader, name string) (*tar.Header, error) {
	h, err := t.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, err
	case err != nil:
		return nil, unreadable(name, err)
	case h.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("has %q, which is no plain file: a bundle has no links, folders or devices", h.Name)
	}
	return h, nil
}

// unreadable says what is wrong with a stream, at the file that was read or looked for.
func unreadable(name string, err error) error {
	switch {
	case errors.Is(err, zstd.ErrMagicMismatch):
		return errors.New("is not compressed with Zstandard: is it a bundle of gotrain?")
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fmt.Errorf("is compressed with a window of more than %d bytes, which no bundle is", maxWindow)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("ends in the middle, at %s: copy or fetch it again", name)
	case errors.As(err, new(*fs.PathError)), errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("is damaged at %s: %w: copy or fetch it again", name, err)
}
