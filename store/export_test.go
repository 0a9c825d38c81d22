package store

import (
	"io"
	"time"
)

// Sealed writes a content with the seal of a backup.
func Sealed(content []byte) func(w io.Writer) error {
	return func(w io.Writer) error {
		s := newSealer(w)
		if _, err := s.Write(content); err != nil {
			return err
		}

		return s.seal(time.Now())
	}
}
