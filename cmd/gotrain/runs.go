package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gotrain/archive"
)

// runsCommands are those over the record of all runs.
func runsCommands() []*command {
	return []*command{runsCommand(), runsShowCommand(), runsCompareCommand(), runsExportCommand(), runsImportCommand(), runsVerifyCommand(), runsRemoveCommand(), runsPruneCommand(), runsReindexCommand()}
}

// runsDir adds the flag that says where the runs are.
func (c *command) runsDir() *string {
	return c.flags.String("runs", "runs", "the folder with the runs' folders, `DIR`: the outputDir of their configurations")
}

// withRuns opens the index and lists all runs. Folders that cannot be read are told of.
func withRuns(s streams, dir string, do func(ctx context.Context, x *archive.Index, runs []archive.Run) error) error {
	ctx := context.Background()
	x, err := archive.Open(ctx, dir)
	if err != nil {
		return usage("%w", err)
	}
	defer x.Close()
	runs, faults, err := x.Runs(ctx)
	if err != nil {
		return err
	}
	for _, f := range faults {
		fmt.Fprintf(s.log, "warning: %v: this run is not up to date in the list\n", f)
	}
	return do(ctx, x, runs)
}

// find gives the runs that words mean, at least one.
func findRuns(c *command, runs []archive.Run, dir string, words []string) (found []archive.Run, err error) {
	if len(words) == 0 {
		return nil, usage("%s: no run: give its name, folder, hash, or latest", c.name)
	}
	for _, w := range words {
		r, err := archive.Find(runs, dir, w)
		if err != nil {
			return nil, usage("%w", err)
		}
		if !slices.ContainsFunc(found, func(o archive.Run) bool { return o.Folder == r.Folder }) {
			found = append(found, r)
		}
	}
	return found, nil
}

// writeJSON writes v for a program.
func writeJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

const runWords = "RUN is a name, of whose runs the newest is meant, the name of a folder, at least 4 digits of a hash, or latest."

func runsCommand() *command {
	c := &command{
		name: "runs", alone: true, args: "[KEY=VALUE ...]", short: "lists the runs", flags: newFlags(),
		long: "Lists all runs, or those for which all conditions hold: KEY=VALUE, !=, <, >, <= or >=, where KEY is one of " + strings.Join(archive.FieldNames(), ", ") + "\n" +
			"or a key of the configuration, and texts may have * and ?. crashed is the status of a run whose process is gone and has not said why.",
		examples: []example{
			{"gotrain runs", "lists all runs, the newest first"},
			{"gotrain runs status=finished error<10 -sort speed -desc", "lists those that came under 10 % error, the fastest first"},
			{"gotrain runs -json distributed.bits=1", "lists those with 1-bit gradients for a program"},
		},
	}
	dir := c.runsDir()
	by := c.flags.String("sort", "", "sort by `KEY`: "+strings.Join(archive.FieldNames(), ", "))
	descending := c.flags.Bool("desc", false, "sort from the greatest to the least")
	asJSON := c.flags.Bool("json", false, "write an array of objects")
	c.run = func(s streams, args []string) error {
		for _, a := range args {
			if !strings.ContainsAny(a, "=<>") {
				return unknownCommand("runs "+a, runsCommands())
			}
		}
		return withRuns(s, *dir, func(ctx context.Context, x *archive.Index, runs []archive.Run) error {
			runs, err := x.Filter(ctx, runs, args)
			if err != nil {
				return usage("%w", err)
			}
			if *by != "" {
				if err := archive.Sort(runs, *by, *descending); err != nil {
					return usage("-sort %w", err)
				}
			}
			if *asJSON {
				return writeJSON(s.out, append([]archive.Run{}, runs...))
			}
			if len(runs) == 0 {
				fmt.Fprintf(s.log, "no runs in %s, or none for which all conditions hold\n", *dir)
				return nil
			}
			return archive.Table(s.out, runs)
		})
	}
	return c
}

func runsShowCommand() *command {
	c := &command{
		name: "runs show", alone: true, args: "RUN", short: "shows the record of a run", flags: newFlags(),
		long: runWords + " Shows what became of it, on what and with what it ran, its attempts, epochs, data,\n" +
			"and every value of its configuration that is no default, with where it came from.",
		examples: []example{{"gotrain runs show latest", "shows the newest run"}},
	}
	dir := c.runsDir()
	all := c.flags.Bool("all", false, "show defaults and all files of the data too")
	asJSON := c.flags.Bool("json", false, "write an object")
	c.run = func(s streams, args []string) error {
		if len(args) > 1 {
			return usage("runs show: shows one run at a time: gotrain runs compare sets several side by side")
		}
		return withRuns(s, *dir, func(_ context.Context, _ *archive.Index, runs []archive.Run) error {
			found, err := findRuns(c, runs, *dir, args)
			if err != nil {
				return err
			}
			d, err := archive.Read(*dir, found[0])
			if err != nil {
				return err
			}
			if *asJSON {
				return writeJSON(s.out, d)
			}
			return d.Show(s.out, *all)
		})
	}
	return c
}

func runsCompareCommand() *command {
	c := &command{
		name: "runs compare", alone: true, args: "RUN RUN...", short: "sets runs side by side", flags: newFlags(),
		long:     runWords + " Shows the keys of the configurations that differ, and the epochs.",
		examples: []example{{"gotrain runs compare four onebit", "compares the newest runs of the two names"}},
	}
	dir := c.runsDir()
	asJSON := c.flags.Bool("json", false, "write an object")
	c.run = func(s streams, args []string) error {
		return withRuns(s, *dir, func(_ context.Context, _ *archive.Index, runs []archive.Run) error {
			found, err := findRuns(c, runs, *dir, args)
			if err != nil {
				return err
			}
			if len(found) < 2 {
				return usage("runs compare: give two runs or more")
			}
			var all []archive.Details
			for _, r := range found {
				d, err := archive.Read(*dir, r)
				if err != nil {
					return err
				}
				all = append(all, d)
			}
			comparison := archive.Compare(all)
			if *asJSON {
				return writeJSON(s.out, comparison)
			}
			return comparison.Show(s.out)
		})
	}
	return c
}

func runsVerifyCommand() *command {
	c := &command{
		name: "runs verify", alone: true, args: "RUN|FILE.tar.zst ...", short: "compares a run's files with their checksums", flags: newFlags(),
		long: runWords + " The configuration, the model and every checkpoint are read,\n" +
			"or everything of a file that runs export wrote.",
		examples: []example{{"gotrain runs verify latest -data", "verifies the newest run, and the data that it was trained on"}},
	}
	dir := c.runsDir()
	data := c.flags.Bool("data", false, "the files that the data was read from too")
	c.run = func(s streams, args []string) error {
		bundles := len(args)
		args, err := verifyBundles(s, args)
		if err != nil || bundles > 0 && len(args) == 0 {
			return err
		}
		return withRuns(s, *dir, func(ctx context.Context, _ *archive.Index, runs []archive.Run) error {
			found, err := findRuns(c, runs, *dir, args)
			if err != nil {
				return err
			}
			bad := 0
			for _, r := range found {
				good, faults, err := archive.Verify(ctx, *dir, r, *data)
				if err != nil {
					return err
				}
				for _, f := range faults {
					fmt.Fprintln(s.out, f)
				}
				fmt.Fprintf(s.out, "%s: %d files are as they were written, %d are not\n", r.Folder, good, len(faults))
				bad += len(faults)
			}
			if bad > 0 {
				return fmt.Errorf("%d files differ from their record", bad)
			}
			return nil
		})
	}
	return c
}

func runsRemoveCommand() *command {
	c := &command{
		name: "runs rm", alone: true, args: "RUN...", short: "removes runs with their folders", flags: newFlags(),
		long:     runWords + " A run that goes on is refused.",
		examples: []example{{"gotrain runs rm quickstart-20260131-120000-70f66a4d", "removes that run"}},
	}
	dir := c.runsDir()
	c.run = func(s streams, args []string) error {
		return withRuns(s, *dir, func(ctx context.Context, x *archive.Index, runs []archive.Run) error {
			found, err := findRuns(c, runs, *dir, args)
			if err != nil {
				return err
			}
			return remove(ctx, s, x, found)
		})
	}
	return c
}

func remove(ctx context.Context, s streams, x *archive.Index, runs []archive.Run) error {
	for _, r := range runs {
		if err := x.Remove(ctx, r); err != nil {
			return err
		}
		fmt.Fprintln(s.out, "removed", r.Folder)
	}
	return nil
}

func runsPruneCommand() *command {
	c := &command{
		name: "runs prune", alone: true, args: "[KEY=VALUE ...]", short: "removes old runs with their folders", flags: newFlags(),
		long: "Removes the runs for which all conditions hold (see gotrain help runs), without the newest of each name, and without\n" +
			"those that go on. One of -older and conditions has to be given, for otherwise it would remove nearly all.",
		examples: []example{
			{"gotrain runs prune -dry-run status=failed -keep 0", "says which failed runs it would remove"},
			{"gotrain runs prune -older 720h", "removes runs that ended more than 30 days ago, but the newest of each name"},
		},
	}
	dir := c.runsDir()
	older := c.flags.String("older", "", "only runs that ended `DURATION` ago, 720h for instance")
	keep := c.flags.String("keep", "1", "how many of each name are kept, the newest, `N`")
	dry := c.flags.Bool("dry-run", false, "only say what would be removed")
	c.run = func(s streams, args []string) error {
		before := time.Now()
		if *older != "" {
			d, err := time.ParseDuration(*older)
			if err != nil || d < 0 {
				return usage("-older %s: not a duration: write 720h, or 90m", *older)
			}
			before = before.Add(-d)
		} else if len(args) == 0 {
			return usage("runs prune: neither -older nor a condition: it would remove nearly all runs: give one of them")
		}
		var kept int
		if n, err := fmt.Sscanf(*keep, "%d", &kept); n != 1 || err != nil || kept < 0 || fmt.Sprint(kept) != *keep {
			return usage("-keep %s: not a number of runs", *keep)
		}
		return withRuns(s, *dir, func(ctx context.Context, x *archive.Index, runs []archive.Run) error {
			chosen := archive.Prunable(runs, kept, before)
			chosen, err := x.Filter(ctx, chosen, args)
			if err != nil {
				return usage("%w", err)
			}
			if !*dry {
				return remove(ctx, s, x, chosen)
			}
			for _, r := range chosen {
				fmt.Fprintln(s.out, "would remove", r.Folder)
			}
			return nil
		})
	}
	return c
}

func runsReindexCommand() *command {
	c := &command{
		name: "runs reindex", alone: true, short: "makes the index of the runs anew from their folders", flags: newFlags(),
		examples: []example{{"gotrain runs reindex -runs /data/runs", "makes the index of another folder anew"}},
	}
	dir := c.runsDir()
	c.run = func(s streams, args []string) error {
		if len(args) > 0 {
			return usage("runs reindex: takes no arguments")
		}
		n, faults, err := archive.Reindex(context.Background(), *dir)
		if err != nil {
			return usage("%w", err)
		}
		for _, f := range faults {
			fmt.Fprintln(s.log, "warning:", f)
		}
		fmt.Fprintf(s.out, "%d runs in %s\n", n, *dir)
		return nil
	}
	return c
}
