package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gotrain/pipeline"
)

// Table writes a list of runs for a person.
func Table(w io.Writer, runs []Run) error {
	b := bufio.NewWriter(w) // a tabwriter writes each cell by itself
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STATUS\tNAME\tDEVICE\tWORKERS\tBITS\tEPOCHS\tBEST ERROR\tSAMPLES/S\tTIME\tRUN")
	for _, r := range runs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%d/%d\t%s\t%s\t%s\t%s\n", r.Status, r.Name, dash(r.Device), r.Workers, dash(r.Bits), r.Epochs, r.MaxEpochs,
			bestError(r), speed(r), span(r.Seconds), r.Folder)
	}
	return errors.Join(t.Flush(), b.Flush())
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func bestError(r Run) string {
	if r.BestError == nil {
		return "-"
	}
	text := fmt.Sprintf("%.2f%%", *r.BestError)
	if r.BestOf == "training" {
		text += " (training)"
	}
	return text
}

func speed(r Run) string {
	if r.Seconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", r.SamplesPerSecond)
}

// span writes seconds for a person.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Details are what the record of a run says.
type Details struct {
	Run     Run                 `json:"run"`
	History History             `json:"history"`
	Attempt *pipeline.Attempt   `json:"attempt"` // the last one; nil in a run of an older program
	Data    []pipeline.DataFile `json:"data"`
}

// Read reads the record of a run below a folder.
func Read(dir string, r Run) (d Details, err error) {
	run := filepath.Join(dir, r.Folder)
	d.Run = r
	if d.History, err = ReadHistory(run); err != nil {
		return d, err
	}
	a, ok, err := LastAttempt(run, d.History)
	if err != nil || !ok {
		return d, err
	}
	d.Attempt = &a
	if files, err := pipeline.ReadData(run, a.Number); err == nil { // it may not have come to it
		d.Data = files
	}
	return d, nil
}

// Show writes the record of a run for a person; with all, the configuration's defaults and all files of the data too.
func (d Details) Show(w io.Writer, all bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, text)
		}
	}
	line("run", "%s", d.Run.Folder)
	line("status", "%s", d.Run.Status)
	line("error", "%s", d.Run.Error)
	line("configuration", "%s", d.Run.Hash)
	line("started", "%s", d.Run.Started.Format(time.RFC3339))
	if !d.Run.Ended.IsZero() {
		line("ended", "%s", d.Run.Ended.Format(time.RFC3339))
	}
	line("trained", "%d of %d epochs, %d steps, %s", d.Run.Epochs, d.Run.MaxEpochs, d.Run.Steps, span(d.Run.Seconds))
	line("best error", "%s", bestError(d.Run))
	line("speed", "%s samples/s", speed(d.Run))
	line("team", "%s", d.Run.Team)
	line("engine", "%s", d.Run.Engine)
	line("gotrain", "%s", d.Run.Version)
	if a := d.Attempt; a != nil {
		line("program", "SHA-256 %s, %s", a.Binary, a.Go)
		for _, l := range a.Libraries {
			line("library", "%s %s", l.Name, l.Version)
		}
		line("device", "%s, %s, %d cores, %d threads a worker", a.Device.Kind, a.Device.Model, a.Device.Cores, a.Threads)
		line("hosts", "%s", strings.Join(a.Hosts, ", "))
		line("command", "%s", strings.Join(a.Arguments, " "))
		for _, name := range slices.Sorted(maps.Keys(a.Environment)) {
			line("environment", "%s=%s", name, a.Environment[name])
		}
		d.data(line, all)
	}
	t.Flush()
	d.attempts(w)
	d.epochs(w)
	return d.configuration(w, all)
}

func (d Details) data(line func(name, format string, args ...any), all bool) {
	var size int64
	for _, f := range d.Data {
		size += f.Size
	}
	if len(d.Data) > 0 {
		line("data", "%d files, %d bytes", len(d.Data), size)
	}
	for i, f := range d.Data {
		if i == 10 && !all {
			line("data", "and %d more files: -all shows them", len(d.Data)-i)
			break
		}
		line("data", "%s, SHA-256 %s", f.Path, f.SHA256)
	}
}

func (d Details) attempts(w io.Writer) {
	if len(d.History.Attempts) < 2 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nATTEMPT\tBEGAN\tFROM STEP\tENDED\tERROR")
	for i, a := range d.History.Attempts {
		end, why := "was killed", ""
		switch {
		case a.End != nil:
			end, why = a.End.Status, a.End.Error
		case i == len(d.History.Attempts)-1:
			end = d.Run.Status
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\n", a.Attempt, a.Time.Format(time.RFC3339), a.Step, end, dash(why))
	}
	t.Flush()
}

func (d Details) epochs(w io.Writer) {
	if len(d.History.Epochs) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nEPOCH\tLOSS\tERROR\tSAMPLES/S\tCOMPUTE\tQUANTIZE\tEXCHANGE\tDATA")
	for _, e := range d.History.Epochs {
		fmt.Fprintf(t, "%d\t%s\t%s\t%.0f\t%.2fs\t%.2fs\t%.2fs\t%.2fs\n", e.Epoch, lossOf(e.Sums), errorOf(e.Sums), float64(e.Count)/max(float64(e.Seconds), 1e-9),
			float64(e.Compute), float64(e.Quantize), float64(e.Exchange), float64(e.Data))
	}
	for _, e := range d.History.Tests {
		fmt.Fprintf(t, "test after %d\t%s\t%s\t\t\t\t\t\n", e.Epoch, lossOf(e.Sums), errorOf(e.Sums))
	}
	t.Flush()
}

func lossOf(s pipeline.Sums) string {
	return fmt.Sprintf("%.6g", float64(s.Loss)/max(float64(s.Count), 1))
}
func errorOf(s pipeline.Sums) string {
	return fmt.Sprintf("%.2f%%", 100*float64(s.Errors)/max(float64(s.Count), 1))
}

func (d Details) configuration(w io.Writer, all bool) error {
	if d.Attempt == nil {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nKEY\tVALUE\tFROM")
	for _, v := range d.Attempt.Values {
		if all || v.Origin != "default" {
			fmt.Fprintf(t, "%s\t%s\t%s\n", v.Key, v.Value, v.Origin)
		}
	}
	return t.Flush()
}
