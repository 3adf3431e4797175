package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gotrain/configs"
	"gotrain/pipeline"
)

// batch is the most events of a transaction: others that write wait for it.
const batch = 2000

// seen is what the index has read of a run's folder.
type seen struct {
	id, size, time, read int64
	status               string
}

// Sync brings the index to what a run's folder says. It reads of the metrics what is new.
func (x *Index) Sync(ctx context.Context, folder string) error {
	err := x.sync(ctx, folder)
	if errors.As(err, new(indexFault)) {
		return indexError(filepath.Join(x.dir, IndexFile), err)
	}
	return err
}

func (x *Index) sync(ctx context.Context, folder string) error {
	dir := filepath.Join(x.dir, folder)
	info, err := os.Stat(filepath.Join(dir, pipeline.RecordFile)) // before it is read: what is written meanwhile is read the next time
	if err != nil {
		return err
	}
	record, err := pipeline.ReadRecord(dir)
	if err != nil {
		return err
	}
	status, err := effective(dir, record.Status)
	if err != nil {
		return err
	}
	for {
		more, err := x.advance(ctx, folder, record, status, info)
		if err != nil || !more {
			return err
		}
	}
}

// errMoved tells that another process has read the metrics meanwhile.
var errMoved = errors.New("another process was first")

// advance reads some events, and writes them and the record in one transaction.
func (x *Index) advance(ctx context.Context, folder string, record pipeline.Record, status string, info os.FileInfo) (more bool, err error) {
	var before seen
	err = x.db.QueryRowContext(ctx, "SELECT id, read FROM runs WHERE folder = ?", folder).Scan(&before.id, &before.read)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, indexFault{err}
	}
	path := filepath.Join(x.dir, folder, pipeline.MetricsFile)
	from := before.read
	if size, err := os.Stat(path); err == nil && size.Size() < from { // it is another file
		from = 0
	}
	events, end, fault := someEvents(path, from) // with a fault, what is before it counts
	err = transact(ctx, x.db, func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx, dir: filepath.Join(x.dir, folder)}
		w.exec(`INSERT INTO runs (folder, name, hash, status, started, version, engine, team) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (folder) DO UPDATE SET name = excluded.name, hash = excluded.hash, status = excluded.status, started = excluded.started,
			version = excluded.version, engine = excluded.engine, team = excluded.team`,
			folder, record.Name, record.Hash, status, record.Started.UnixNano(), record.Version, record.Engine, record.Team)
		var now int64
		w.row("SELECT id, read FROM runs WHERE folder = ?", folder)(&w.run, &now)
		w.row("SELECT coalesce(max(number), 0) FROM attempts WHERE run = ?", w.run)(&w.attempt)
		if w.err == nil && now != before.read {
			return errMoved
		}
		if from < before.read {
			for _, table := range []string{"attempts", "minibatches", "epochs", "tests", "checkpoints"} {
				w.exec("DELETE FROM "+table+" WHERE run = ?", w.run)
			}
		}
		for _, e := range events {
			w.event(e)
		}
		if len(events) < batch { // all there is: of the record too
			w.exec("UPDATE runs SET record_size = ?, record_time = ? WHERE id = ?", info.Size(), info.ModTime().UnixNano(), w.run)
		}
		w.exec("UPDATE runs SET read = ? WHERE id = ?", end, w.run)
		w.summarize()
		return w.err
	})
	switch {
	case errors.Is(err, errMoved):
		return true, nil
	case err != nil:
		return false, err
	}
	return len(events) == batch && fault == nil, fault
}

var errEnough = errors.New("enough")

// someEvents reads as many events as one transaction takes.
func someEvents(path string, from int64) (events []pipeline.Event, end int64, err error) {
	end, err = pipeline.ReadEvents(path, from, func(e pipeline.Event) error {
		if len(events) == batch {
			return errEnough
		}
		events = append(events, e)
		return nil
	})
	if errors.Is(err, errEnough) || errors.Is(err, fs.ErrNotExist) { // a run of an older program has none
		err = nil
	}
	return events, end, err
}

// writer writes to the index, until the first error.
type writer struct {
	ctx     context.Context
	tx      *sql.Tx
	dir     string // the run's folder
	run     int64  // the run's id
	attempt int
	err     error
}

func (w *writer) exec(query string, args ...any) {
	if w.err == nil {
		if _, err := w.tx.ExecContext(w.ctx, query, args...); err != nil {
			w.err = indexFault{err}
		}
	}
}

func (w *writer) row(query string, args ...any) func(into ...any) {
	return func(into ...any) {
		if w.err == nil {
			if err := w.tx.QueryRowContext(w.ctx, query, args...).Scan(into...); err != nil {
				w.err = indexFault{err}
			}
		}
	}
}

// real is a number as SQLite has it, which has none that is not a number.
func real(f pipeline.Float) any {
	if math.IsNaN(float64(f)) {
		return nil
	}
	return float64(f)
}

func (w *writer) event(e pipeline.Event) {
	switch {
	case e.Begin != nil:
		w.begin(*e.Begin)
	case e.Minibatch != nil:
		m := e.Minibatch
		w.exec("INSERT OR REPLACE INTO minibatches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", w.run, m.Step, w.attempt, m.Epoch, m.Minibatch,
			real(m.Loss), real(m.Errors), real(m.Count), real(m.Rate), real(m.Norm), m.Bits, real(m.Seconds))
	case e.Epoch != nil:
		p := e.Epoch
		w.exec("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", w.run, p.Epoch, w.attempt, p.Step,
			real(p.Loss), real(p.Errors), real(p.Count), real(p.Seconds), p.Minibatches, real(p.Compute), real(p.Quantize), real(p.Decode),
			real(p.Exchange), real(p.Data), p.Bytes)
	case e.Test != nil:
		t := e.Test
		w.exec("INSERT OR REPLACE INTO tests VALUES (?, ?, ?, ?, ?, ?, ?, ?)", w.run, t.Step, w.attempt, t.Epoch, real(t.Loss), real(t.Errors), real(t.Count), t.Minibatches)
	case e.Checkpoint != nil:
		for part, sum := range e.Checkpoint.Parts {
			w.exec("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)", w.run, e.Checkpoint.Step, part, sum)
		}
	case e.End != nil:
		w.exec("UPDATE attempts SET ended = ?, status = ?, error = ? WHERE run = ? AND number = ?", e.End.Time.UnixNano(), e.End.Status, e.End.Error, w.run, w.attempt)
	}
}

// begin notes an attempt, and forgets the steps that it makes again.
func (w *writer) begin(b pipeline.BeginEvent) {
	w.attempt = b.Attempt
	a, err := pipeline.ReadAttempt(w.dir, b.Attempt)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && w.err == nil {
		w.err = err
		return
	}
	w.exec("INSERT OR REPLACE INTO attempts (run, number, step, began, host, process, version) VALUES (?, ?, ?, ?, ?, ?, ?)",
		w.run, b.Attempt, b.Step, b.Time.UnixNano(), a.Host, a.Process, a.Version)
	for _, table := range []string{"minibatches", "epochs", "tests", "checkpoints"} {
		w.exec("DELETE FROM "+table+" WHERE run = ? AND step > ?", w.run, b.Step)
	}
	if len(a.Values) == 0 {
		return
	}
	w.exec("DELETE FROM config WHERE run = ?", w.run)
	for _, v := range a.Values {
		w.exec("INSERT INTO config (run, key, value, origin) VALUES (?, ?, ?, ?)", w.run, v.Key, v.Value, v.Origin)
	}
	w.exec("UPDATE runs SET device = ? WHERE id = ?", a.Device.Kind, w.run)
}

// summarize brings what a list shows to what the other tables say.
func (w *writer) summarize() {
	var configured int
	if w.row("SELECT count(*) FROM config WHERE run = ?", w.run)(&configured); w.err == nil && configured == 0 { // of an older program
		if cfg, err := configs.Load(filepath.Join(w.dir, pipeline.ConfigFile), nil); err == nil {
			for _, v := range cfg.Values() {
				w.exec("INSERT INTO config (run, key, value, origin) VALUES (?, ?, ?, ?)", w.run, v.Key, v.Value, "")
			}
		}
	}
	value := func(key string) string {
		return fmt.Sprintf("coalesce((SELECT value FROM config WHERE key = '%s' AND run = runs.id), '')", key)
	}
	last := func(column, table, order string) string {
		return fmt.Sprintf("(SELECT %s FROM %s WHERE run = runs.id ORDER BY %s DESC LIMIT 1)", column, table, order)
	}
	w.exec(strings.Join([]string{"UPDATE runs SET",
		"precision = " + value("precision") + ", bits = trim(" + value("distributed.bits") + ", '\"'),",
		"workers = cast(" + value("distributed.workers") + " AS INTEGER), max_epochs = cast(" + value("learner.maxEpochs") + " AS INTEGER),",
		"attempts = (SELECT count(*) FROM attempts WHERE run = runs.id),",
		"epochs = (SELECT coalesce(max(epoch), 0) FROM epochs WHERE run = runs.id),",
		"steps = (SELECT coalesce(max(step), 0) FROM minibatches WHERE run = runs.id),",
		"loss = " + last("loss / max(samples, 1)", "epochs", "epoch") + ",",
		"samples = (SELECT coalesce(sum(samples), 0) FROM epochs WHERE run = runs.id),",
		"seconds = (SELECT coalesce(sum(seconds), 0) FROM epochs WHERE run = runs.id),",
		"ended = coalesce(" + last("ended", "attempts", "number") + ", 0),",
		"error = coalesce(" + last("error", "attempts", "number") + ", ''),",
		"best_of = CASE WHEN EXISTS (SELECT 1 FROM tests WHERE run = runs.id) THEN 'test' WHEN EXISTS (SELECT 1 FROM epochs WHERE run = runs.id) THEN 'training' ELSE '' END,",
		"best_error = coalesce((SELECT min(100 * errors / max(samples, 1)) FROM tests WHERE run = runs.id),",
		"	(SELECT min(100 * errors / max(samples, 1)) FROM epochs WHERE run = runs.id))",
		"WHERE id = ?"}, "\n"), w.run)
}
