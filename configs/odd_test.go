package configs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestWhatIsNotUTF8IsRefused(t *testing.T) {
	_, err := load(t, "\xff\xfea\x00:\x00")
	sameError(t, err, []string{"c.yaml: this is UTF-16: save the file as UTF-8"})

	dir := filepath.Join(t.TempDir(), "caf\xe9")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Skip("this file system takes names in UTF-8 only")
	}
	_, err = Load("quickstart", nil, WithDir(dir))
	if err == nil {
		t.Fatal("no error: the run's config.yaml could not be loaded again")
	}
	var e *Error
	if !errors.As(err, &e) || e.Key != "outputDir" {
		t.Fatalf("%v does not name outputDir", err)
	}
	if want := "runs is not a path: " + strconv.Quote(dir+"/runs") + " is not UTF-8 text: rename the folder, or write the path of another"; e.Message != want {
		t.Errorf("got  %s\nwant %s", e.Message, want)
	}
	if _, err = Load("quickstart", []string{"outputDir=/runs"}, WithDir(dir)); err != nil {
		t.Errorf("with a path of its own: %v", err)
	}

	path := filepath.Join(t.TempDir(), "caf\xe9.yaml")
	if err := os.WriteFile(path, []byte(good), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = Load(path, nil)
	if !errors.As(err, &e) || e.Key != "name" || e.Message != `"caf\xe9" cannot name a folder: write up to 100 letters, digits, - and _` {
		t.Errorf("%#v", e)
	}
}

func TestWorkingDirectoryThatIsGone(t *testing.T) {
	_, err := Load("quickstart", nil, WithDir(""))
	sameError(t, err, []string{"default: outputDir: runs is not a path: the working directory is not there any more, or cannot be read: go to another, or write the whole path"})
}

func TestRangesOfTransformsAreThoseOfTheReaders(t *testing.T) {
	_, err := load(t, good, "reader.transforms=[{crop: {padding: 1001}}, {scale: {width: 16385, height: 16384}}]")
	at := "argument reader.transforms=[{crop: {padding: 1001}}, {scale: {widt...: reader.transforms"
	sameError(t, err, []string{at + "[0].crop.padding: 1001 is not an integer from 1 to 1000",
		at + "[1].scale.width: 16385 is not an integer from 1 to 16384"})
}
