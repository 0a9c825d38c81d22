package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"
)

// A backup is a store file with a seal behind it: when it was taken, how long the file is, and the SHA-256 of both, so that a copy
// that was cut off, or has changed since, is not taken for a whole one. Bolt has no checksums of its own pages.
const (
	sealMagic = "gwbackup\x00v1"
	sealSize  = 8 + 8 + sha256.Size + len(sealMagic)
)

// seal is the end of a backup.
type seal struct {
	taken time.Time
	size  int64 // of the store file before it
}

// errNoBackup is what a file is that has no seal.
var errNoBackup = errors.New("it is not a backup of a gateway, or it is cut off")

// sealer passes on what is written, and seals it.
type sealer struct {
	w    io.Writer
	hash hash.Hash
	size int64
}

func newSealer(w io.Writer) *sealer { return &sealer{w: w, hash: sha256.New()} }

// Write implements io.Writer.
func (s *sealer) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.hash.Write(p[:n])
	s.size += int64(n)

	return n, err
}

// seal writes the end.
func (s *sealer) seal(taken time.Time) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(taken.Unix()))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.size))
	s.hash.Write(b)
	b = append(s.hash.Sum(b), sealMagic...)

	if _, err := s.w.Write(b); err != nil {
		return fmt.Errorf("error writing the end of the backup: %w", err)
	}

	return nil
}

// readSeal reads a backup whole and checks that it is as it was written.
func readSeal(path string) (*seal, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("error opening the backup: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read

	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("error reading the backup: %w", err)
	}

	if info.Size() < int64(sealSize) {
		return nil, errNoBackup
	}

	end := make([]byte, sealSize)
	if _, err := f.ReadAt(end, info.Size()-int64(sealSize)); err != nil {
		return nil, fmt.Errorf("error reading the backup: %w", err)
	}

	s := &seal{taken: time.Unix(int64(binary.LittleEndian.Uint64(end)), 0), size: int64(binary.LittleEndian.Uint64(end[8:]))}
	if !bytes.HasSuffix(end, []byte(sealMagic)) || s.size != info.Size()-int64(sealSize) {
		return nil, errNoBackup
	}

	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, s.size)); err != nil {
		return nil, fmt.Errorf("error reading the backup: %w", err)
	}

	sum.Write(end[:16])

	if !bytes.Equal(sum.Sum(nil), end[16:16+sha256.Size]) {
		return nil, errors.New("it is not as it was written: its checksum is another")
	}

	return s, nil
}
