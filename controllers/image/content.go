package image

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"

	"gateway/resources"
)

// maxImage is more than any image has, and keeps a server that never stops from filling a host.
const maxImage = 1 * resources.TiB

// content is the content of an image on its way: it is counted, and checked at its end.
type content struct {
	from io.Reader
	// want is the checksum, in hex.
	want string
	sum  hash.Hash
	// count is how far it is, for those who watch.
	count *atomic.Int64

	mu sync.Mutex // guards failed: a call that was given up may still read
	// failed is what reading failed with, so that it can be told from a failure of the host.
	failed error
}

func newContent(from io.Reader, want string, count *atomic.Int64) *content {
	count.Store(0)

	return &content{from: from, want: want, sum: sha256.New(), count: count}
}

// Read implements io.Reader. It ends with io.EOF only when the whole content has the checksum.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.sum.Write(p[:n]) // a hash never fails

	if total := c.count.Add(int64(n)); total > int64(maxImage) {
		err = fmt.Errorf("%w: it has more than %s", errInvalid, maxImage)
	}

	if errors.Is(err, io.EOF) {
		if wrong := c.check(); wrong != nil {
			err = wrong
		}
	}

	if err != nil && !errors.Is(err, io.EOF) {
		c.mu.Lock()
		c.failed = err
		c.mu.Unlock()
	}

	return n, err
}

// failure returns what reading failed with; nil: it did not.
func (c *content) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.failed
}

// Write implements io.Writer, for content that comes from the host.
func (c *content) Write(p []byte) (int, error) {
	c.count.Add(int64(len(p)))

	return c.sum.Write(p)
}

// check compares the checksum of what went through.
func (c *content) check() error {
	if got := fmt.Sprintf("%x", c.sum.Sum(nil)); got != c.want {
		return fmt.Errorf("%w: its checksum is sha256 %s, and %s is declared", errInvalid, got, c.want)
	}

	return nil
}

// start keeps the first bytes of what is written to it.
type start struct{ bytes []byte }

// Write implements io.Writer.
func (s *start) Write(p []byte) (int, error) {
	if room := headerBytes - len(s.bytes); room > 0 {
		s.bytes = append(s.bytes, p[:min(room, len(p))]...)
	}

	return len(p), nil
}
