package documents

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"gateway/config"
	"gateway/resources"
)

// errOther reports that the file is not the one that its event describes: it changed since, and another event follows.
var errOther = errors.New("the file is not the one of its event")

// errTooLarge reports that a file is larger than config.MaxFileBytes.
var errTooLarge = fmt.Errorf("the file is larger than %d MiB", config.MaxFileBytes>>20)

// readFile returns the content of the event's file when it is the version that the event describes, else errOther: a file
// that is gone or can't be read is another version too, and its source says why.
func readFile(event *resources.FileEventSpec) ([]byte, error) {
	if event.Bytes > config.MaxFileBytes {
		return nil, errTooLarge
	}

	// A FIFO in the place of the file must not block.
	file, err := os.OpenFile(event.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errOther
	}

	defer file.Close() //nolint:errcheck // it was only read

	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errOther
	}

	data, err := io.ReadAll(io.LimitReader(file, config.MaxFileBytes+1))
	if err != nil || resources.Digest(data) != event.Digest {
		return nil, errOther
	}

	return data, nil
}
