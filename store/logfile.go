package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// The write-ahead log is two files that take turns. Each begins with a block that names its generation and a salt; behind it
// stand records, one for each batch of writes, each with its place in the file and a checksum over salt, place and content. A
// file is written over when its turn comes again, so that its blocks need not be allocated anew, and what an earlier generation
// left behind does not pass the checks of the present one.
const (
	logMagic       = "gwlog\x00v1"
	logBlock       = 4096 // the first block, so that its write touches nothing else
	logHeaderSize  = len(logMagic) + 8 + 8 + 8 + 4
	recordHeadSize = 4 + 4 + 8 + 4
	// logChunk is how much space is allocated at a time, so that most records change nothing of the file but its data.
	logChunk = 4 << 20
	// maxRecord of the log: one batch, and the largest write in it.
	maxRecord = maxBatchBytes + 2*maxRecordBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errNoLog says that a file does not begin as one of the log does.
var errNoLog = errors.New("it is not a file of the log")

// logFile is one of the two files of the log. One goroutine at a time uses it.
type logFile struct {
	f          *os.File
	generation uint64
	// before is how many records the generation before had: so many it has to have still.
	before uint64
	salt   uint64
	// records is how many there are, end where the next one begins, and allocated how far the file reaches.
	records        uint64
	end, allocated int64
	buffer         []byte
}

// begin makes the file that of a generation, without records, which follows one with so many.
func (l *logFile) begin(generation, before uint64) error {
	info, err := l.f.Stat()
	if err != nil {
		return err
	}

	salt := rand.Uint64()

	block := make([]byte, 0, logBlock)
	block = append(block, logMagic...)
	block = binary.LittleEndian.AppendUint64(block, generation)
	block = binary.LittleEndian.AppendUint64(block, before)
	block = binary.LittleEndian.AppendUint64(block, salt)
	block = binary.LittleEndian.AppendUint32(block, crc32.Checksum(block, castagnoli))

	if _, err := l.f.WriteAt(block[:logBlock], 0); err != nil {
		return err
	}

	if err := l.f.Sync(); err != nil {
		return err
	}

	l.generation, l.before, l.salt = generation, before, salt
	l.records, l.end, l.allocated = 0, logBlock, max(info.Size(), logBlock)

	return nil
}

// read takes what the file says of itself; errNoLog: nothing that is whole.
func (l *logFile) read() error {
	block := make([]byte, logHeaderSize)

	_, err := l.f.ReadAt(block, 0)
	if errors.Is(err, io.EOF) {
		return errNoLog
	}

	if err != nil {
		return err
	}

	sum := logHeaderSize - 4
	if !bytes.HasPrefix(block, []byte(logMagic)) || crc32.Checksum(block[:sum], castagnoli) != binary.LittleEndian.Uint32(block[sum:]) {
		return errNoLog
	}

	l.generation = binary.LittleEndian.Uint64(block[len(logMagic):])
	l.before = binary.LittleEndian.Uint64(block[len(logMagic)+8:])
	l.salt = binary.LittleEndian.Uint64(block[len(logMagic)+16:])

	return nil
}

// append makes a record durable. After an error the next record takes its place.
func (l *logFile) append(fill func(payload []byte) []byte) error {
	b := append(l.buffer[:0], make([]byte, recordHeadSize)...)
	b = fill(b)
	l.buffer = b[:0]

	payload := b[recordHeadSize:]
	binary.LittleEndian.PutUint32(b, l.mark())
	binary.LittleEndian.PutUint32(b[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(b[8:], l.records)
	binary.LittleEndian.PutUint32(b[16:], l.sum(b[:16], payload))

	if err := l.allocate(l.end + int64(len(b))); err != nil {
		return err
	}

	if _, err := l.f.WriteAt(b, l.end); err != nil {
		return err
	}

	if err := unix.Fdatasync(int(l.f.Fd())); err != nil {
		return fmt.Errorf("fdatasync: %w", err)
	}

	l.records++
	l.end += int64(len(b))

	return nil
}

// allocate makes the file reach to an offset. A file system that can't do it ahead grows with each record.
func (l *logFile) allocate(to int64) error {
	if to <= l.allocated {
		return nil
	}

	want := (to + logChunk - 1) / logChunk * logChunk

	err := unix.Fallocate(int(l.f.Fd()), 0, 0, want)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		l.allocated = to

		return nil
	}

	if errors.Is(err, unix.ENOSPC) { // perhaps the record itself has room
		if err = unix.Fallocate(int(l.f.Fd()), 0, 0, to); err == nil {
			want = to
		}
	}

	if err != nil {
		return fmt.Errorf("error making room in %s: %w", l.f.Name(), err)
	}

	l.allocated = want

	return nil
}

// mark begins each record of the generation.
func (l *logFile) mark() uint32 { return uint32(l.salt) | 1 }

// sum is the checksum of a record: over the salt, the first part of its head, and the payload.
func (l *logFile) sum(head, payload []byte) uint32 {
	c := crc32.Update(0, castagnoli, binary.LittleEndian.AppendUint64(nil, l.salt))
	c = crc32.Update(c, castagnoli, head)

	return crc32.Update(c, castagnoli, payload)
}

// replay visits the payloads in their order and leaves the file ready for the next record. A record that is not whole ends the
// log if it is the last one, as a crash while it was written leaves it; one with a whole record behind it is damage, since each
// is written after the one before it was durable.
func (l *logFile) replay(visit func(payload []byte) error) error {
	content, err := os.ReadFile(l.f.Name())
	if err != nil {
		return err
	}

	l.records, l.end, l.allocated = 0, logBlock, int64(len(content))

	for l.end < int64(len(content)) {
		payload, whole := l.record(content[l.end:], l.records)
		if !whole {
			break
		}

		if err := visit(payload); err != nil {
			return fmt.Errorf("error in %s at byte %d: %w", l.f.Name(), l.end, err)
		}

		l.end += int64(recordHeadSize + len(payload))
		l.records++
	}

	if at, found := l.later(content[min(l.end, int64(len(content))):]); found {
		return fmt.Errorf("%w (%s can't be read from byte %d to %d)", errDamaged, l.f.Name(), l.end, l.end+int64(at))
	}

	return nil
}

// record reads the record with a number at the start of b.
func (l *logFile) record(b []byte, number uint64) (payload []byte, whole bool) {
	if len(b) < recordHeadSize || binary.LittleEndian.Uint32(b) != l.mark() || binary.LittleEndian.Uint64(b[8:]) != number {
		return nil, false
	}

	size := l.size(b)
	if size > maxRecord || size > len(b)-recordHeadSize {
		return nil, false
	}

	payload = b[recordHeadSize : recordHeadSize+size]

	return payload, l.sum(b[:16], payload) == binary.LittleEndian.Uint32(b[16:])
}

// size and number are what the head of the record at the start of b says.
func (*logFile) size(b []byte) int { return int(binary.LittleEndian.Uint32(b[4:])) }

func (*logFile) number(b []byte) uint64 { return binary.LittleEndian.Uint64(b[8:]) }

// later looks for a whole record of this generation that comes after the one that should begin b.
func (l *logFile) later(b []byte) (at int, found bool) {
	mark := binary.LittleEndian.AppendUint32(nil, l.mark())

	for at < len(b) {
		next := bytes.Index(b[at:], mark)
		if next < 0 || at+next+recordHeadSize > len(b) {
			return 0, false
		}

		at += next

		if number := binary.LittleEndian.Uint64(b[at+8:]); number > l.records {
			if _, whole := l.record(b[at:], number); whole {
				return at, true
			}
		}

		at++
	}

	return 0, false
}
