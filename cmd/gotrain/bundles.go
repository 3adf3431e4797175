package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"gotrain/archive"
)

// bundleSuffix tells bundles from names of runs.
const bundleSuffix = ".tar.zst"

func runsExportCommand() *command {
	c := &command{
		name: "runs export", alone: true, args: "RUN", short: "writes a run as one file", flags: newFlags(),
		long: runWords + " The file has all of the run's folder, with checksums: gotrain runs import makes a run of it elsewhere.\n" +
			"Equal runs give equal bytes.",
		examples: []example{
			{"gotrain runs export latest -o run.tar.zst", "writes the newest run"},
			{"gotrain runs export quickstart -with-data -o run.tar.zst", "writes the data that it was trained on too"},
		},
	}
	dir := c.runsDir()
	out := c.flags.String("o", "", "write to `FILE`; without it, to the folder's name"+bundleSuffix)
	data := c.flags.Bool("with-data", false, "the data set too")
	c.run = func(s streams, args []string) error {
		if len(args) > 1 {
			return usage("runs export: writes one run at a time")
		}
		return withRuns(s, *dir, func(ctx context.Context, _ *archive.Index, runs []archive.Run) error {
			found, err := findRuns(c, runs, *dir, args)
			if err != nil {
				return err
			}
			file := *out
			if file == "" {
				file = found[0].Folder + bundleSuffix
			}
			size, err := archive.Export(ctx, *dir, found[0], file, *data)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.out, "%s: %d bytes\n", file, size)
			return nil
		})
	}
	return c
}

func runsImportCommand() *command {
	c := &command{
		name: "runs import", alone: true, args: "FILE", short: "makes a run of a file that runs export wrote", flags: newFlags(),
		long: "Every file is compared with its checksum. What could lie outside of the run's folder, links, and anything that the file's\n" +
			"manifest does not say are refused. Checksums find damage, not forgery: replay a stranger's run only if you trust them.",
		examples: []example{{"gotrain runs import run.tar.zst", "makes a folder of the run below runs"}},
	}
	dir := c.runsDir()
	most := c.flags.String("max-bytes", strconv.FormatInt(archive.MaxBytes, 10), "refuse files that take more, `N` bytes")
	c.run = func(s streams, args []string) error {
		if len(args) != 1 {
			return usage("runs import: give one file that runs export wrote")
		}
		limit, err := strconv.ParseInt(*most, 10, 64)
		if err != nil || limit < 0 {
			return usage("-max-bytes %s: not a number of bytes", *most)
		}
		folder, err := archive.Import(context.Background(), *dir, args[0], limit)
		if err != nil {
			return err
		}
		fmt.Fprintln(s.out, "imported", filepath.Join(*dir, folder))
		return withRuns(s, *dir, func(context.Context, *archive.Index, []archive.Run) error { return nil }) // the index knows it now
	}
	return c
}

// verifyBundles verifies what are bundles among words, and returns the others.
func verifyBundles(s streams, words []string) (rest []string, err error) {
	for _, w := range words {
		if !strings.HasSuffix(w, bundleSuffix) {
			rest = append(rest, w)
			continue
		}
		m, err := archive.VerifyBundle(context.Background(), w)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(s.out, "%s: %d files of %s are as they were written\n", w, len(m.Files), m.Folder)
	}
	return rest, nil
}
