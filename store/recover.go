package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"go.etcd.io/bbolt"
)

// logNames are the two files of the write-ahead log.
var logNames = [2]string{"store.log.0", "store.log.1"}

// makeLogs makes both files of the log of a new store.
func makeLogs(dir *dataDir) error {
	for _, name := range logNames {
		f, err := os.OpenFile(dir.file(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
		if err != nil {
			return err
		}

		if name == logNames[1] {
			err = (&logFile{f: f}).begin(1, 0)
		}

		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}

	return syncDir(dir.path)
}

// recoverLog brings what the log holds into the store file, and begins the next generation.
func recoverLog(dir *dataDir, db *bbolt.DB) (active, spare *logFile, err error) {
	defer damage(&err)()

	var applied uint64

	err = db.View(func(tx *bbolt.Tx) error {
		applied, err = appliedGeneration(tx)

		return err
	})
	if err != nil {
		return nil, nil, err
	}

	files, err := openLogs(dir)

	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("%w (a file of its log is missing, and with it the newest changes: %w)", errDamaged, err)
	case err != nil:
		return nil, nil, err
	}

	active, spare, err = bringOver(db, files, applied)
	if err != nil {
		err = errors.Join(err, files[0].f.Close(), files[1].f.Close())
	}

	return active, spare, err
}

// appliedGeneration returns up to which generation the store file has all.
func appliedGeneration(tx *bbolt.Tx) (uint64, error) {
	applied, err := strconv.ParseUint(string(tx.Bucket(bucketMeta).Get(metaLog)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w (it does not say which log belongs to it)", errDamaged)
	}

	return applied, nil
}

// bringOver writes the generations into the store file that it lacks, and returns the file that takes the next records. A generation
// is begun before the one before it is brought over, so that the one after the last in the store file is always there; the one after
// that only where a checkpoint was under way.
func bringOver(db *bbolt.DB, files [2]*logFile, applied uint64) (active, spare *logFile, err error) {
	for _, l := range files {
		if err := l.read(); err != nil && !errors.Is(err, errNoLog) {
			return nil, nil, err
		}
	}

	for {
		active, spare = files[0], files[1]
		if active.generation != applied+1 {
			active, spare = spare, active
		}

		if active.generation != applied+1 {
			return nil, nil, fmt.Errorf("%w (generation %d of its log, which comes next, is not there)", errDamaged, applied+1)
		}

		c := newChanges()
		if err := active.replay(func(payload []byte) error { return decodeOps(payload, func(o op) { c.add(&o) }) }); err != nil {
			return nil, nil, err
		}

		followed := spare.generation == applied+2

		switch {
		case followed && spare.before != active.records:
			return nil, nil, fmt.Errorf("%w (%s holds %d records, the log after it says %d)", errDamaged, active.f.Name(), active.records, spare.before)
		case !followed && active.records == 0:
			return active, spare, nil
		case !followed:
			if err := spare.begin(applied+2, active.records); err != nil {
				return nil, nil, err
			}
		}

		applied++

		if err := db.Update(func(tx *bbolt.Tx) error { return c.apply(tx, applied) }); err != nil {
			return nil, nil, err
		}
	}
}

// upgrade makes a store of the first version, which had no log, one of this version.
func upgrade(dir *dataDir, db *bbolt.DB) error {
	if err := makeLogs(dir); err != nil {
		return err
	}

	return db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(
			tx.Bucket(bucketMeta).Put(metaLog, []byte("0")),
			tx.Bucket(bucketMeta).Put(metaVersion, []byte(strconv.Itoa(formatVersion))),
		)
	})
}
