package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gotrain/configs"
	"gotrain/pipeline"
)

// The data that came with a bundle lies in the run's folder.
const (
	dataFolder = "data"
	dataKeys   = dataFolder + "/keys.json" // a map from keys of the reader to paths below the run's folder
)

// readerPaths are the keys that name data, and their values.
func readerPaths(r configs.Reader) map[string]string {
	all := map[string]string{"reader.path": r.Path, "reader.testPath": r.TestPath, "reader.trainImages": r.TrainImages, "reader.trainLabels": r.TrainLabels,
		"reader.testImages": r.TestImages, "reader.testLabels": r.TestLabels}
	for key, path := range all {
		if path == "" {
			delete(all, key)
		}
	}
	return all
}

// dataSources are the files that a run's data was read from, as they go into a bundle.
func dataSources(run string) (all []source, err error) {
	h, err := ReadHistory(run)
	if err != nil {
		return nil, err
	}
	a, ok, err := LastAttempt(run, h)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("the record does not say what it was")
	}
	files, err := pipeline.ReadData(run, a.Number)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the run ended before its checksums were known: continue the run with gotrain resume")
	}
	if err != nil {
		return nil, err
	}
	cfg, err := configs.Load(filepath.Join(run, pipeline.ConfigFile), nil)
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	roots := readerPaths(cfg.Reader)
	for key, root := range roots {
		keys[key] = dataFolder + "/" + key + "/" + filepath.Base(root)
		if err := movable(cfg.Reader, root); err != nil {
			return nil, err
		}
	}
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return nil, err
	}
	all = append(all, source{BundleFile: BundleFile{Name: dataKeys}, text: text})
	for _, f := range files {
		names := placed(f.Path, roots)
		if len(names) == 0 {
			return nil, fmt.Errorf("%s lies outside of what the reader's keys name, and would not be found elsewhere: put the data into one folder", f.Path)
		}
		for _, name := range names {
			if !bundleName(name) {
				return nil, fmt.Errorf("%s: a name that a bundle cannot have: rename it", f.Path)
			}
			all = append(all, source{BundleFile: BundleFile{Name: name}, path: f.Path})
		}
	}
	return all, nil
}

// placed gives a file's names in a bundle, one for each key that leads to it: below a folder that the key names, the file that
// it names, or, beside a map, a picture of it.
func placed(path string, roots map[string]string) (names []string) {
	for key, root := range roots {
		base := filepath.Dir(root)
		if info, err := os.Stat(root); err == nil && info.IsDir() && !strings.HasPrefix(path, root+string(filepath.Separator)) {
			continue
		}
		if name, err := filepath.Rel(base, path); err == nil && filepath.IsLocal(name) {
			names = append(names, dataFolder+"/"+key+"/"+filepath.ToSlash(name))
		}
	}
	slices.Sort(names)
	return names
}

// movable refuses a map of pictures that names them by absolute paths.
func movable(r configs.Reader, path string) error {
	info, err := os.Stat(path)
	if err != nil || r.Type != "images" || info.IsDir() {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		n++
		if filepath.IsAbs(line) {
			return fmt.Errorf("%s:%d: an absolute path, which leads nowhere elsewhere: write paths relative to the map", path, n)
		}
	}
	return nil
}

// dataOverrides are arguments that lead a configuration to the data that came with a run's bundle; none where none came.
func dataOverrides(run string) (overrides []string, err error) {
	text, err := os.ReadFile(filepath.Join(run, filepath.FromSlash(dataKeys)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(run, dataKeys), err)
	}
	abs, err := filepath.Abs(run)
	if err != nil {
		return nil, err
	}
	for key, name := range keys {
		if !strings.HasPrefix(key, "reader.") || !bundleName(name) || !strings.HasPrefix(name, dataFolder+"/") {
			return nil, fmt.Errorf("%s: %s: %q is no data of the run", filepath.Join(run, dataKeys), key, name)
		}
		overrides = append(overrides, key+"="+filepath.Join(abs, filepath.FromSlash(name)))
	}
	slices.Sort(overrides)
	return overrides, nil
}
