package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"gateway/hypervisor"
)

// minCompaction is how many superseded records a state file may have however small the host is.
const minCompaction = 10_000

// stateFile keeps a host in a log of records, one a line. A change is in the file before the call that made it returns,
// which outlives the process and not a power cut: like the host that it simulates, it lives in memory. The lock of the host
// is held around append, wantsCompaction and compact.
type stateFile struct {
	name string
	lock *os.File // flock on NAME.lock: rename replaces the file itself

	mu      sync.Mutex // guards what follows; taken after the lock of the host
	file    *os.File
	size    int64 // up to here all lines are whole
	pending bytes.Buffer
	records int    // in the file and pending
	added   uint64 // records appended so far
	written uint64 // of these, in the file
}

// useFile makes the host keep itself in a file, and loads what is in there.
func (h *Host) useFile(name string) error {
	switch {
	case h.file != nil && h.file.name == name, h.file == nil && name == "":
		return nil
	case h.file != nil && name == "":
		return fmt.Errorf("%w: the host keeps its state in %s: say ?state= there", hypervisor.ErrInvalid, h.file.name)
	case h.file != nil:
		return fmt.Errorf("%w: the host keeps its state in %s already", hypervisor.ErrInvalid, h.file.name)
	}

	f, err := openStateFile(name)
	if err != nil {
		return err
	}

	if f.size > 0 && h.objects() > 0 {
		return errors.Join(fmt.Errorf("%w: the host has domains, networks, volumes or images, and so has %s", hypervisor.ErrInvalid, name), f.close())
	}

	if f.size == 0 {
		err = f.compact(h.records())
	} else {
		err = h.load(f)
	}

	if err != nil {
		return errors.Join(err, f.close())
	}

	h.file = f

	return nil
}

func openStateFile(name string) (*stateFile, error) {
	lock, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("error locking the state file: %w", err)
	}

	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: another host keeps its state in %s: %w", hypervisor.ErrInvalid, name, err), lock.Close())
	}

	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("error opening the state file: %w", err), lock.Close())
	}

	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("error reading the state file: %w", err), file.Close(), lock.Close())
	}

	return &stateFile{name: name, lock: lock, file: file, size: info.Size()}, nil
}

// load replays the file. A last line that is not whole was never acknowledged, and is cut off.
func (h *Host) load(f *stateFile) error {
	reader := bufio.NewReaderSize(f.file, 1<<20)
	whole := int64(0)

	for line := 1; ; line++ {
		text, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return fmt.Errorf("error reading the state file: %w", err)
		}

		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return h.unload(fmt.Errorf("error reading %s:%d: %w", f.name, line, err))
		}

		if err := h.apply(&r); err != nil {
			return h.unload(fmt.Errorf("error reading %s:%d: %w", f.name, line, err))
		}

		whole += int64(len(text))
		f.records++
	}

	f.size = whole

	return f.truncate()
}

// unload forgets what was loaded so far, so that a host is never there by half.
func (h *Host) unload(err error) error {
	clear(h.domains)
	clear(h.names)
	clear(h.networks)
	clear(h.volumes)
	clear(h.images)

	return err
}

// append adds a record to what is to be written.
func (f *stateFile) append(r record) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("a record that is no JSON: %s", err)) // it has only strings, numbers and booleans
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	f.pending.Write(line)
	f.pending.WriteByte('\n')
	f.records++
	f.added++
}

// committer returns what writes everything that was appended before it was called. Whoever comes first writes for all.
func (f *stateFile) committer() func() error {
	f.mu.Lock()
	upTo := f.added
	f.mu.Unlock()

	return func() error {
		f.mu.Lock()
		defer f.mu.Unlock()

		if f.written >= upTo {
			return nil
		}

		return f.write()
	}
}

// write appends what is pending to the file. What was written by half is cut off again, and tried with the next change.
func (f *stateFile) write() error {
	n, err := f.file.WriteAt(f.pending.Bytes(), f.size)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, f.truncate())
		}

		return fmt.Errorf("error writing the state file: %w", err)
	}

	f.size += int64(n)
	f.pending.Reset()
	f.written = f.added

	return nil
}

func (f *stateFile) truncate() error {
	if err := f.file.Truncate(f.size); err != nil {
		return fmt.Errorf("error cutting off the state file: %w", err)
	}

	return nil
}

// wantsCompaction reports whether the file is much longer than a host of so many objects needs.
func (f *stateFile) wantsCompaction(objects int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.records > minCompaction+4*objects
}

// compact replaces the file by one with these records, atomically. When that fails the old one stays in use, which loses
// nothing, and it is tried again after as many changes.
func (f *stateFile) compact(records []record) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	next, size, err := writeRecords(f.name, records)
	if err != nil {
		f.records = 0

		return fmt.Errorf("error rewriting the state file: %w", err)
	}

	// The new file has everything: the old one is not needed, even where closing it fails.
	_ = f.file.Close()
	f.file, f.size, f.records, f.written = next, size, len(records), f.added
	f.pending.Reset()

	return nil
}

// writeRecords writes a new file beside the old one and renames it.
func writeRecords(name string, records []record) (*os.File, int64, error) {
	temporary := name + ".tmp"

	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, 0, err
	}

	buffer := bufio.NewWriterSize(file, 1<<20)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)

	for i := range records {
		if err = encoder.Encode(&records[i]); err != nil {
			break
		}
	}

	if err == nil {
		err = buffer.Flush()
	}

	if err == nil {
		err = os.Rename(temporary, name)
	}

	if err != nil {
		return nil, 0, errors.Join(err, file.Close(), os.Remove(temporary))
	}

	size, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}

	return file, size, nil
}

// close gives the file to others.
func (f *stateFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()

	return errors.Join(f.file.Close(), f.lock.Close())
}
