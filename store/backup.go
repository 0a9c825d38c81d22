package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// Backuper is a store that can be copied while it works.
type Backuper interface {
	// Backup writes a copy of everything that was durable before the call. begin is called once, before the first byte, with the size of
	// the copy. The store file can't be mapped anew until it returns, so that changes stay in the log when it has to grow: w should
	// take the bytes quickly.
	Backup(ctx context.Context, w io.Writer, begin func(size int64)) error
}

// Backup implements Backuper.
func (s *boltStore) Backup(ctx context.Context, w io.Writer, begin func(size int64)) error {
	if err := s.Barrier(ctx); err != nil {
		return err
	}

	if err := s.log.flush(ctx); err != nil {
		return fmt.Errorf("error bringing the log into %s: %w", s.db.Path(), err)
	}

	taken := time.Now()

	return s.db.View(func(tx *bbolt.Tx) error {
		begin(tx.Size() + int64(sealSize))

		return writeSealed(ctx, tx, w, taken)
	})
}

func writeSealed(ctx context.Context, tx *bbolt.Tx, w io.Writer, taken time.Time) error {
	sealed := newSealer(&untilEnd{ctx, w})
	if _, err := tx.WriteTo(sealed); err != nil {
		err = errors.Join(err, context.Cause(ctx)) // bolt wraps no errors

		return fmt.Errorf("error copying the store: %w", err)
	}

	return sealed.seal(taken)
}

// untilEnd writes until its context ends.
type untilEnd struct {
	ctx context.Context //nolint:containedctx // it is a writer for one call
	w   io.Writer
}

func (u *untilEnd) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, context.Cause(u.ctx)
	}

	return u.w.Write(p)
}

// BackupOffline writes a copy of a data directory that no gateway works on to a new file, and changes nothing of the directory. ErrInUse
// is the error when one does; then Backup is asked for over its socket.
func BackupOffline(ctx context.Context, path, to string) (err error) {
	dir, err := openExisting(path)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, dir.close()) }()

	db, err := copyStoreFile(dir, filepath.Dir(to))
	if err != nil {
		return err
	}

	copied := db.Path()

	defer func() { err = errors.Join(err, db.Close(), os.Remove(copied)) }()

	if err := followLog(dir, db); err != nil {
		return err
	}

	return WriteBackup(to, func(w io.Writer) error {
		return db.View(func(tx *bbolt.Tx) error { return writeSealed(ctx, tx, w, time.Now()) })
	})
}

// copyStoreFile opens a copy of the store file, in another directory.
func copyStoreFile(dir *dataDir, parent string) (*bbolt.DB, error) {
	from, err := os.Open(dir.file(storeName))
	if err != nil {
		return nil, fmt.Errorf("error opening the store: %w: `gateway store check` tells more", err)
	}
	defer from.Close() //nolint:errcheck // it was only read

	copied, err := os.CreateTemp(parent, ".gateway-backup-*")
	if err != nil {
		return nil, fmt.Errorf("error making a copy: %w", err)
	}

	_, err = io.Copy(copied, from)
	if err = errors.Join(err, copied.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("error copying the store: %w", err), os.Remove(copied.Name()))
	}

	db, err := openDB(copied.Name())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("error opening %s: %w: `gateway store check` tells more", dir.file(storeName), err), os.Remove(copied.Name()))
	}

	return db, nil
}

// followLog brings what the log of a directory holds into a copy of its store file.
func followLog(dir *dataDir, db *bbolt.DB) (err error) {
	defer damage(&err)()

	report := &Report{Path: dir.path}

	info, err := os.Stat(db.Path())
	if err != nil {
		return fmt.Errorf("error reading the copy: %w", err)
	}

	f, err := report.content(db, storeName, info.Size())
	if err != nil {
		return err
	}

	var scanned *scannedLog
	if f.logged {
		if scanned, err = scanLog(dir, f.applied); err != nil {
			return err
		}

		if scanned.damage != nil {
			report.problem(scanned.damage.file, "", "%s", scanned.damage.problem)
		}
	}

	if len(report.Problems) > 0 {
		return fmt.Errorf("%s is not whole (%s: %s), and a copy of it would be no backup: `gateway store check` tells more", dir.path, report.Problems[0].Part, report.Problems[0].Text)
	}

	if scanned == nil {
		return nil
	}

	return db.Update(func(tx *bbolt.Tx) error {
		for _, g := range scanned.generations {
			if err := g.changes.apply(tx, g.number); err != nil {
				return err
			}
		}

		return nil
	})
}

// WriteBackup makes a file of a backup: under another name until all of it is on the disk and its seal is right, mode 0600. A file
// that has the name is replaced only then.
func WriteBackup(path string, write func(w io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("error making the backup: %w", err)
	}

	err = write(f)
	if err == nil {
		err = f.Sync()
	}

	if err = errors.Join(err, f.Close()); err == nil {
		_, err = readSeal(f.Name())
	}

	if err == nil {
		err = os.Rename(f.Name(), path)
	}

	if err != nil {
		return errors.Join(fmt.Errorf("error writing the backup %s: %w", path, err), os.Remove(f.Name()))
	}

	return syncDir(filepath.Dir(path))
}
