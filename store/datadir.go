package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"gateway/resources"
)

// Names in a data directory.
const (
	lockName  = "lock"
	idName    = "id"
	storeName = "store.db"
)

// ErrInUse means that another process has the data directory.
var ErrInUse = errors.New("in use")

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// dataDir is a data directory that this process alone uses until it is closed.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir makes the directory where it is missing, and locks it.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("error finding the data directory: %w", err)
	}

	if err := os.MkdirAll(path, dirMode); err != nil {
		return nil, fmt.Errorf("error creating the data directory: %w", err)
	}

	if err := closeToOthers(path); err != nil {
		return nil, err
	}

	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}

	return &dataDir{path: path, lock: lock}, nil
}

// openExisting locks a data directory that is there, and changes nothing of it. A disk that can't be written can be read.
func openExisting(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("error finding the data directory: %w", err)
	}

	info, err := os.Stat(path)

	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no data directory %s: name the gateway's with --data-dir or --config", path)
	case err != nil:
		return nil, fmt.Errorf("error reading the data directory: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory: name the gateway's data directory with --data-dir or --config", path)
	}

	lock, err := takeLock(path)
	if errors.Is(err, unix.EROFS) {
		lock, err = os.Open(path) // nobody can run a gateway there
	}

	if err != nil {
		return nil, err
	}

	return &dataDir{path: path, lock: lock}, nil
}

// closeToOthers takes the rights of group and others off a data directory, but not off a directory that is used for
// something else: that would lock out whoever uses it.
func closeToOthers(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("error reading the data directory: %w", err)
	}

	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}

	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("error reading the data directory: %w", err)
	}

	ours := len(entries) == 0
	for _, e := range entries {
		ours = ours || e.Name() == lockName || e.Name() == idName || e.Name() == storeName
	}

	if !ours {
		return fmt.Errorf("%s is open to other users and holds files that are not the gateway's: name an empty directory as dataDir, or `chmod 700` this one", path)
	}

	if err := os.Chmod(path, dirMode); err != nil {
		return fmt.Errorf("error closing the data directory to other users: %w", err)
	}

	return nil
}

// takeLock locks the directory for as long as the process lives, and writes who holds it. The file stays when the lock is
// released: removing it would let two processes lock two files of the same name.
func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("error opening the lock of the data directory: %w", err)
	}

	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, readErr := os.ReadFile(f.Name())
		err = fmt.Errorf("data directory %s is %w by %s", dir, ErrInUse, strings.TrimSpace(string(holder)))

		if readErr != nil || len(holder) == 0 {
			err = fmt.Errorf("data directory %s is %w by another gateway", dir, ErrInUse)
		}

		return nil, errors.Join(err, f.Close())
	}

	if err == nil {
		err = f.Truncate(0)
	}

	if err == nil {
		_, err = fmt.Fprintf(f, "gateway pid %d since %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("error locking data directory %s: %w", dir, err), f.Close())
	}

	return f, nil
}

func (d *dataDir) close() error {
	if d == nil {
		return nil
	}

	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("error releasing the data directory: %w", err)
	}

	return nil
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

func (d *dataDir) has(name string) (bool, error) {
	_, err := os.Stat(d.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}

	if err != nil {
		return false, fmt.Errorf("error reading the data directory: %w", err)
	}

	return true, nil
}

// storedID returns the gateway's id that DATADIR/id holds, or "".
func (d *dataDir) storedID() (string, error) {
	text, err := os.ReadFile(d.file(idName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}

	if err != nil {
		return "", fmt.Errorf("error reading the gateway's id: %w", err)
	}

	id := strings.TrimSpace(string(text))
	if err := resources.ValidateName(id); err != nil {
		return "", fmt.Errorf("%s does not hold a gateway's id: %w", d.file(idName), err)
	}

	return id, nil
}

// writeID stores the id, whole or not at all.
func (d *dataDir) writeID(id string) error {
	if err := renameio.WriteFile(d.file(idName), []byte(id+"\n"), fileMode, renameio.WithTempDir(d.path)); err != nil {
		return fmt.Errorf("error writing the gateway's id: %w", err)
	}

	return syncDir(d.path)
}

// chooseID returns the gateway's id: the stored one, which a configured one must equal, else the configured one, else a new one.
func (d *dataDir) chooseID(stored, configured string) (string, error) {
	switch {
	case configured == "" && stored == "":
		return uuid.NewString(), nil
	case configured == "":
		return stored, nil
	}

	if err := resources.ValidateName(configured); err != nil {
		return "", fmt.Errorf("error in the configured id: %w", err)
	}

	if stored != "" && stored != configured {
		return "", fmt.Errorf("id %q is configured, but data directory %s belongs to gateway %q, and the domains that it made carry that id: "+
			"take `id` out of the configuration, or name another dataDir", configured, d.path, stored)
	}

	return configured, nil
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("error opening %s: %w", path, err)
	}

	err = f.Sync()
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("error syncing the names in %s: %w", path, err)
	}

	return nil
}

// Holder returns nil where a data directory is there and nobody works on it, and an error that wraps ErrInUse and names who does
// otherwise.
func Holder(path string) error {
	dir, err := openExisting(path)
	if err != nil {
		return err
	}

	return dir.close()
}

// DirectoryID returns the id of the gateway that a data directory belongs to, or "" where none can be read.
func DirectoryID(path string) string {
	id, err := (&dataDir{path: path}).storedID()
	if err != nil {
		return ""
	}

	return id
}
