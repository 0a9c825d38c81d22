package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// Repaired is what Repair did.
type Repaired struct {
	// Damage is what was wrong with the log; empty: nothing was, and nothing was changed.
	Damage string
	// Lost names what was acknowledged and is given up, as far as it can be known.
	Lost string
	// Aside is the directory with the log as it was.
	Aside string
}

// Repair ends the log of a data directory, which no gateway works on, at its first damage: what stands before it is kept, what stands
// behind it is given up, and the log is kept aside. A store file that is damaged can't be repaired.
func Repair(path string) (_ Repaired, err error) {
	dir, err := openExisting(path)
	if err != nil {
		return Repaired{}, err
	}

	defer func() { err = errors.Join(err, dir.close()) }()

	report := &Report{Path: dir.path}

	f, err := report.file(dir.file(storeName), storeName)
	if err != nil {
		return Repaired{}, err
	}

	if f == nil || len(report.Problems) > 0 {
		return Repaired{}, fmt.Errorf("only the log can be repaired: %s", report.Problems[0])
	}

	if !f.logged {
		return Repaired{}, nil
	}

	s, err := scanLog(dir, f.applied)
	if err != nil || s.damage == nil {
		return Repaired{}, err
	}

	done := Repaired{Damage: s.damage.file + ": " + s.damage.problem, Lost: s.damage.names()}

	return done, done.cut(dir, s)
}

// cut keeps the log aside, brings what is whole of it into the store file, and begins a new log. Cut off, it can be done again.
func (done *Repaired) cut(dir *dataDir, s *scannedLog) (err error) {
	defer damage(&err)()

	if done.Aside, err = copyAside(dir); err != nil {
		return err
	}

	db, err := openDB(dir.file(storeName))
	if err != nil {
		return fmt.Errorf("error opening the store: %w", err)
	}

	err = db.Update(func(tx *bbolt.Tx) error {
		for _, g := range s.generations {
			if err := g.changes.apply(tx, g.number); err != nil {
				return err
			}
		}

		return renew(tx, "the log was cut at its damage: "+done.Damage, time.Now())
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("error writing the store: %w", err)
	}

	if err := makeLogs(dir); err != nil {
		return fmt.Errorf("error making the log: %w", err)
	}

	return nil
}

// copyAside copies the files of the log into a new directory beside them.
func copyAside(dir *dataDir) (string, error) {
	aside, err := os.MkdirTemp(dir.path, "damaged-"+time.Now().UTC().Format("20060102T150405Z")+"-")
	if err != nil {
		return "", fmt.Errorf("error making a directory for the log: %w", err)
	}

	for _, name := range logNames {
		there, err := dir.has(name)
		if err == nil && there {
			err = copyFile(dir.file(name), filepath.Join(aside, name))
		}

		if err != nil {
			return "", fmt.Errorf("error keeping %s aside: %w", name, err)
		}
	}

	return aside, syncDir(aside)
}

// copyFile makes a durable copy.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // it was only read

	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}

	_, err = io.Copy(f, source)
	if err == nil {
		err = f.Sync()
	}

	return errors.Join(err, f.Close())
}
