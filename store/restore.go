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

// Restored is what Restore did.
type Restored struct {
	// ID of the gateway.
	ID string
	// Taken is when the backup was taken: what was acknowledged later is not in it.
	Taken time.Time
	// Aside is the directory with the files that were there before; empty: there were none.
	Aside string
}

// Restore makes a data directory, which no gateway works on, one with the content of a backup. Files of a store that are there, or the
// id of another gateway, are refused unless force is given; then they are kept in a directory of their own. Nothing is changed before
// the backup was found to be whole. The gateway that starts on it looks for each VM on every host before it does anything with it.
func Restore(path string, backup io.Reader, force bool) (_ Restored, err error) {
	dir, err := openDataDir(path)
	if err != nil {
		return Restored{}, err
	}

	defer func() { err = errors.Join(err, dir.close()) }()

	temporary := dir.file(storeName + ".new")

	done, err := prepare(dir, backup, temporary)
	if err == nil {
		err = done.replace(dir, temporary, force)
	}

	if err != nil {
		return Restored{}, errors.Join(err, os.RemoveAll(temporary))
	}

	return done, nil
}

// prepare makes a store file of a backup, under another name.
func prepare(dir *dataDir, backup io.Reader, temporary string) (done Restored, err error) {
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return done, fmt.Errorf("error making the store: %w", err)
	}

	_, err = io.Copy(f, backup)
	if err = errors.Join(err, f.Close()); err != nil {
		return done, fmt.Errorf("error copying the backup: %w", err)
	}

	report, err := CheckBackup(temporary)
	if err != nil {
		return done, err
	}

	if len(report.Problems) > 0 {
		return done, fmt.Errorf("the backup can't be restored: %s", report.Problems[0].Text)
	}

	sealed, err := readSeal(temporary)
	if err != nil {
		return done, fmt.Errorf("the backup can't be restored: %w", err)
	}

	if err := os.Truncate(temporary, sealed.size); err != nil {
		return done, fmt.Errorf("error making the store: %w", err)
	}

	done.ID, done.Taken = report.ID, sealed.taken

	return done, renewFile(temporary, fmt.Sprintf("from the backup of %s", sealed.taken.UTC().Format(time.RFC3339)))
}

// renewFile renews a store file that nobody has open.
func renewFile(path, why string) (err error) {
	defer damage(&err)()

	db, err := openDB(path)
	if err != nil {
		return fmt.Errorf("error opening %s: %w", path, err)
	}

	err = db.Update(func(tx *bbolt.Tx) error { return renew(tx, why, time.Now()) })
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("error writing %s: %w", path, err)
	}

	return nil
}

// replace puts the new store file in the place of what is there. Whenever it is cut off, the next start of a gateway refuses the directory,
// or finds all of the backup: it never begins an empty store.
func (done *Restored) replace(dir *dataDir, temporary string, force bool) error {
	id, err := dir.storedID()
	foreign := err != nil || id != "" && id != done.ID

	present, err := presentFiles(dir, foreign)
	if err != nil {
		return err
	}

	switch {
	case len(present) > 0 && !force && foreign && id != "":
		return fmt.Errorf("%s belongs to gateway %q, and the backup is of %q: name the data directory of %q, or use --force to have this one "+
			"become it; what is there is kept aside", dir.path, id, done.ID, done.ID)
	case len(present) > 0 && !force:
		return fmt.Errorf("%s has a store already (%s): --force keeps its files aside and restores the backup", dir.path, present[0])
	}

	if id == "" && !foreign {
		if err := dir.writeID(done.ID); err != nil {
			return err
		}
	}

	if len(present) > 0 {
		if done.Aside, err = putAside(dir, present); err != nil {
			return err
		}
	}

	if err := makeLogs(dir); err != nil {
		return fmt.Errorf("error making the log: %w", err)
	}

	if err := os.Rename(temporary, dir.file(storeName)); err != nil {
		return fmt.Errorf("error naming the store: %w", err)
	}

	if foreign {
		return dir.writeID(done.ID)
	}

	return syncDir(dir.path)
}

// presentFiles are the files of a store that would be replaced.
func presentFiles(dir *dataDir, foreign bool) (present []string, err error) {
	names := append([]string{storeName}, logNames[:]...)
	if foreign {
		names = append(names, idName)
	}

	for _, name := range names {
		there, err := dir.has(name)
		if err != nil {
			return nil, err
		}

		if there {
			present = append(present, name)
		}
	}

	return present, nil
}

// putAside moves files into a new directory beside them. The id is only copied: while it is there, no gateway begins anew.
func putAside(dir *dataDir, names []string) (string, error) {
	aside, err := os.MkdirTemp(dir.path, "replaced-"+time.Now().UTC().Format("20060102T150405Z")+"-")
	if err != nil {
		return "", fmt.Errorf("error making a directory for what is there: %w", err)
	}

	for _, name := range names {
		move := os.Rename
		if name == idName {
			move = os.Link
		}

		if err := move(dir.file(name), filepath.Join(aside, name)); err != nil {
			return "", fmt.Errorf("error keeping %s aside: %w", name, err)
		}
	}

	return aside, errors.Join(syncDir(aside), syncDir(dir.path))
}
