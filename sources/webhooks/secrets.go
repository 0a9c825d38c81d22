package webhooks

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// maxSecret is more than any key needs: HMAC hashes keys that are longer than a block.
	maxSecret = 64 << 10
	// reread is how often a secret file is looked at: a rotated secret is in force after it.
	reread = time.Second
)

// secrets holds what a route's secret files say, read again when they change.
type secrets struct {
	paths []string

	mu      sync.Mutex // guards the following
	checked time.Time
	stamps  []stamp
	values  [][]byte
	err     error
}

// stamp tells one version of a file from another.
type stamp struct {
	modified time.Time
	size     int64
}

// get returns all secrets, none of them empty. An error names the file, never what is in it.
func (s *secrets) get() ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	now := time.Now()
	if now.Sub(s.checked) < reread && !s.checked.IsZero() {
		return s.values, s.err
	}

	s.checked = now

	stamps := make([]stamp, len(s.paths))
	same := s.err == nil && len(s.stamps) == len(stamps)

	for i, path := range s.paths {
		info, err := os.Stat(path)
		if err != nil {
			s.values, s.err = nil, fmt.Errorf("the secret can't be read: %w", err)

			return nil, s.err
		}

		stamps[i] = stamp{info.ModTime(), info.Size()}
		same = same && stamps[i] == s.stamps[i]
	}

	if same {
		return s.values, nil
	}

	s.values, s.err = readSecrets(s.paths)
	s.stamps = stamps

	return s.values, s.err
}

func readSecrets(paths []string) ([][]byte, error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("no secret file is named")
	}

	values := make([][]byte, 0, len(paths))

	for _, path := range paths {
		value, err := readSecret(path)
		if err != nil {
			return nil, err
		}

		values = append(values, value)
	}

	return values, nil
}

func readSecret(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the secret can't be read: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only

	value, err := io.ReadAll(io.LimitReader(file, maxSecret+1))

	switch value = bytes.TrimSpace(value); {
	case err != nil:
		return nil, fmt.Errorf("the secret can't be read: %w", err)
	case len(value) == 0:
		return nil, fmt.Errorf("the secret file %s is empty", path)
	case len(value) > maxSecret:
		return nil, fmt.Errorf("the secret file %s is longer than %d bytes", path, maxSecret)
	}

	return value, nil
}
