package archive

import (
	"context"
	"database/sql"
	"fmt"
)

// migrations bring the index from one version of its schema to the next; the version is SQLite's user_version. What has been
// released is never changed: a new version is a new entry.
var migrations = []string{`
CREATE TABLE runs (
	id          INTEGER PRIMARY KEY,
	folder      TEXT NOT NULL UNIQUE,
	name        TEXT NOT NULL,
	hash        TEXT NOT NULL,
	status      TEXT NOT NULL,
	error       TEXT NOT NULL DEFAULT '',
	started     INTEGER NOT NULL,            -- nanoseconds since 1970
	ended       INTEGER NOT NULL DEFAULT 0,
	attempts    INTEGER NOT NULL DEFAULT 0,
	device      TEXT NOT NULL DEFAULT '',
	precision   TEXT NOT NULL DEFAULT '',
	workers     INTEGER NOT NULL DEFAULT 0,
	bits        TEXT NOT NULL DEFAULT '',
	max_epochs  INTEGER NOT NULL DEFAULT 0,
	epochs      INTEGER NOT NULL DEFAULT 0,
	steps       INTEGER NOT NULL DEFAULT 0,
	loss        REAL,
	best_error  REAL,                        -- percent
	best_of     TEXT NOT NULL DEFAULT '',
	samples     REAL NOT NULL DEFAULT 0,     -- of the finished epochs
	seconds     REAL NOT NULL DEFAULT 0,
	version     TEXT NOT NULL,
	engine      TEXT NOT NULL,
	team        TEXT NOT NULL,
	record_size INTEGER NOT NULL DEFAULT -1, -- of run.json when it was read
	record_time INTEGER NOT NULL DEFAULT 0,
	read        INTEGER NOT NULL DEFAULT 0   -- bytes of metrics.jsonl
);
CREATE TABLE attempts (
	run     INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
	number  INTEGER NOT NULL,
	step    INTEGER NOT NULL,                -- updates made before
	began   INTEGER NOT NULL,
	ended   INTEGER NOT NULL DEFAULT 0,
	status  TEXT NOT NULL DEFAULT '',        -- empty: it runs, or was killed
	error   TEXT NOT NULL DEFAULT '',
	host    TEXT NOT NULL DEFAULT '',
	process INTEGER NOT NULL DEFAULT 0,
	version TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE config (
	run    INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
	key    TEXT NOT NULL COLLATE NOCASE,
	value  TEXT NOT NULL,
	origin TEXT NOT NULL,
	PRIMARY KEY (key, run)
) WITHOUT ROWID;
CREATE INDEX config_run ON config (run);
CREATE TABLE minibatches (
	run       INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
	step      INTEGER NOT NULL,
	attempt   INTEGER NOT NULL,
	epoch     INTEGER NOT NULL,
	minibatch INTEGER NOT NULL,
	loss      REAL,                          -- sums over samples
	errors    REAL,
	samples   REAL,
	rate      REAL,
	norm      REAL,
	bits      INTEGER NOT NULL,
	seconds   REAL,                          -- since the epoch began
	PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE epochs (
	run         INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
	epoch       INTEGER NOT NULL,
	attempt     INTEGER NOT NULL,
	step        INTEGER NOT NULL,
	loss        REAL,
	errors      REAL,
	samples     REAL,
	seconds     REAL,
	minibatches INTEGER NOT NULL,            -- that the times are of
	compute     REAL,
	quantize    REAL,
	decode      REAL,
	exchange    REAL,
	data        REAL,
	bytes       INTEGER NOT NULL,
	PRIMARY KEY (run, epoch)
) WITHOUT ROWID;
CREATE TABLE tests (
	run         INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
	step        INTEGER NOT NULL,
	attempt     INTEGER NOT NULL,
	epoch       INTEGER NOT NULL,
	loss        REAL,
	errors      REAL,
	samples     REAL,
	minibatches INTEGER NOT NULL,
	PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE checkpoints (
	run    INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
	step   INTEGER NOT NULL,
	part   TEXT NOT NULL,
	sha256 TEXT NOT NULL,
	PRIMARY KEY (run, step, part)
) WITHOUT ROWID;
`}

// migrate brings the schema to the newest version.
func migrate(ctx context.Context, db *sql.DB, path string) error {
	version := 0
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version == len(migrations) {
		return nil
	}
	return transact(ctx, db, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil { // another may have been first
			return err
		}
		if version > len(migrations) {
			return fmt.Errorf("the index has version %d, and this gotrain knows %d: use the newer gotrain, or remove %s, for the folders have all that is in it", version, len(migrations), path)
		}
		for ; version < len(migrations); version++ {
			if _, err := tx.ExecContext(ctx, migrations[version]); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
		return err
	})
}

// transact commits what f does, or nothing of it.
func transact(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return indexFault{err}
	}
	if err := f(tx); err != nil {
		tx.Rollback()
		return err
	}
	if err := tx.Commit(); err != nil {
		return indexFault{err}
	}
	return nil
}

// indexFault is an error of the database, and not of a run's folder.
type indexFault struct{ error }

func (f indexFault) Unwrap() error { return f.error }
