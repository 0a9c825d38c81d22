package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxBytes is the size of the largest file that is taken.
const MaxBytes = 4 << 20

// Look is one entry of a directory as it was seen.
type Look struct {
	Path string
	// Digest and Bytes are of the content; zero when Err is set.
	Digest string
	Bytes  int64
	// Err says why there is no content.
	Err string
	// Changed is when the file system last noted a change of the file.
	Changed time.Time
	// Group is the directory whose files belong together, as those of a mounted ConfigMap do; empty for all others.
	Group string

	stamp stamp
	// verified is the number of the verifying scan that last read the content.
	verified int
}

// stamp tells without reading whether a file was changed. The change time is the file system's own: no program sets it.
type stamp struct {
	device, inode uint64
	size          int64
	modified      unix.Timespec
	changed       unix.Timespec
}

func stampOf(info fs.FileInfo) stamp {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{size: info.Size()}
	}

	return stamp{
		device: uint64(sys.Dev), inode: sys.Ino, size: sys.Size,
		modified: unix.Timespec(sys.Mtim), changed: unix.Timespec(sys.Ctim),
	}
}

func (s stamp) time() time.Time { return time.Unix(s.changed.Unix()) }

// lookAt looks at a file. It reads the content only where the stamp differs from that of the look before, or verify is set. It
// reports false when there is nothing of this name (any more).
func lookAt(path string, before *Look, verify bool) (Look, bool) {
	look := Look{Path: path}

	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err != nil {
			return look, false
		}

		look.Err = "the symbolic link leads nowhere"

		return look, true
	}

	if err != nil {
		look.Err = reason(err)

		return look, true
	}

	look.stamp = stampOf(info)
	look.Changed = look.stamp.time()

	if look.Err = unsuitable(info); look.Err != "" {
		return look, true
	}

	if before != nil && before.Err == "" && before.stamp == look.stamp && !verify {
		look.Digest, look.Bytes = before.Digest, before.Bytes

		return look, true
	}

	if err := look.read(); err != nil {
		look.Err = reason(err)
	}

	return look, true
}

// unsuitable says why the entry is not a file that can be taken.
func unsuitable(info fs.FileInfo) string {
	switch {
	case info.IsDir():
		return "is a directory, not a file"
	case !info.Mode().IsRegular():
		return fmt.Sprintf("is not a regular file (%s)", info.Mode().Type())
	case info.Size() > MaxBytes:
		return fmt.Sprintf("%d bytes, at most %d are allowed", info.Size(), MaxBytes)
	}

	return ""
}

// read sets the digest. The file is opened so that it can't block, and checked again once it is open: what the name means may
// have changed since.
func (l *Look) read() error {
	file, err := os.OpenFile(l.Path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read from

	info, err := file.Stat()
	if err != nil {
		return err
	}

	l.stamp = stampOf(info)
	l.Changed = l.stamp.time()

	if why := unsuitable(info); why != "" {
		return errors.New(why)
	}

	hash := sha256.New()

	n, err := io.Copy(hash, io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return err
	}

	if n > MaxBytes {
		return fmt.Errorf("grew over %d bytes while it was read", MaxBytes)
	}

	l.Digest, l.Bytes = hex.EncodeToString(hash.Sum(nil)), n

	return nil
}

// reason is an error without the operation and the path, which stand beside it already.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}

	return err.Error()
}
