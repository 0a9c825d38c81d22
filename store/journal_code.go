package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Buckets of the store file.
var (
	bucketMeta      = []byte("meta")
	bucketResources = []byte("resources")
	bucketJournal   = []byte("journal")
	bucketKeys      = []byte("journal-keys")
)

// op is one write to the store file.
type op struct {
	bucket []byte
	key    []byte
	// value is nil for a deletion.
	value []byte
	// entry is the number of the journal entry that the op writes; 0 for all others.
	entry uint64
}

// opOverhead is what an op costs in memory beside its key and value.
const opOverhead = 96

func (o *op) size() int64 { return int64(len(o.key) + len(o.value) + opOverhead) }

// numberKey sorts as the numbers do.
func numberKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func entryOp(number uint64, encoded []byte) op {
	return op{bucket: bucketJournal, key: numberKey(number), value: encoded, entry: number}
}

// keyOp encodes the key of an entry: time, hash, source and name, event id.
func keyOp(e *Entry) op {
	hash := hashKey(e.Key)

	v := binary.BigEndian.AppendUint64(nil, uint64(e.Time.UnixNano()))
	v = append(v, hash[:]...)
	v = appendPart(v, groupName(e.Source, e.Name))
	v = append(v, e.EventID...)

	return op{bucket: bucketKeys, key: numberKey(e.Number), value: v}
}

var errShort = errors.New("the record is cut off")

// decodeKey reads what keyOp wrote.
func decodeKey(number uint64, v []byte) (group string, hash keyHash, k seenKey, err error) {
	if len(v) < 8+len(hash) {
		return "", hash, k, errShort
	}

	k.number, k.at = number, int64(binary.BigEndian.Uint64(v))
	copy(hash[:], v[8:])

	part, rest, err := cutPart(v[8+len(hash):])
	if err != nil {
		return "", hash, k, err
	}

	k.id = string(rest)

	return string(part), hash, k, nil
}

// encodeEntry writes time and source in front, so that a search passes over other entries without decoding them, then the
// entry as JSON, its attributes, and its data as they are.
func encodeEntry(e *Entry) []byte {
	head := *e
	head.Number, head.Attributes, head.Data = 0, nil, nil

	text, err := json.Marshal(&head)
	if err != nil {
		// Strings, times and numbers only: it can't fail but for a year beyond 9999.
		text = []byte("{}")
	}

	v := make([]byte, 0, 20+len(e.Source)+len(text)+len(e.Attributes)+len(e.Data))
	v = binary.BigEndian.AppendUint64(v, uint64(e.Time.UnixNano()))
	v = appendPart(v, e.Source)
	v = appendPart(v, text)
	v = appendPart(v, e.Attributes)

	return append(v, e.Data...)
}

// entryFront reads only the time and the source of an encoded entry.
func entryFront(v []byte) (at int64, source, rest []byte, err error) {
	if len(v) < 8 {
		return 0, nil, nil, errShort
	}

	source, rest, err = cutPart(v[8:])

	return int64(binary.BigEndian.Uint64(v)), source, rest, err
}

// decodeEntry reads what encodeEntry wrote. Nothing in the result points into v.
func decodeEntry(number uint64, v []byte) (e Entry, err error) {
	_, _, rest, err := entryFront(v)
	if err != nil {
		return e, fmt.Errorf("error decoding journal entry %d: %w", number, err)
	}

	text, rest, err := cutPart(rest)
	if err == nil {
		err = json.Unmarshal(text, &e)
	}

	var attributes, data []byte
	if err == nil {
		attributes, data, err = cutPart(rest)
	}

	if err != nil {
		return e, fmt.Errorf("error decoding journal entry %d: %w", number, err)
	}

	e.Number = number
	e.Attributes, e.Data = cloneBytes(attributes), cloneBytes(data)

	return e, nil
}

// cloneBytes copies; nothing stays nil.
func cloneBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}

	return slices.Clone(b)
}

func appendPart[T string | []byte](v []byte, part T) []byte {
	v = binary.AppendUvarint(v, uint64(len(part)))

	return append(v, part...)
}

func cutPart(v []byte) (part, rest []byte, err error) {
	n, w := binary.Uvarint(v)
	if w <= 0 || n > uint64(len(v)-w) {
		return nil, nil, errShort
	}

	end := w + int(n)

	return v[w:end], v[end:], nil
}

// mayMatch reports whether an encoded entry can be among what q chooses, without decoding all of it.
func (q *Query) mayMatch(encoded []byte, oldest int64) bool {
	at, source, _, err := entryFront(encoded)
	if err != nil {
		return true // decoding it names the fault
	}

	return at >= oldest && (q.Source == "" || q.Source == string(source)) && (q.Since.IsZero() || at >= q.Since.UnixNano())
}

func (q *Query) matches(e *Entry) bool {
	return (len(q.Classes) == 0 || slices.Contains(q.Classes, e.Class)) &&
		(q.Source == "" || q.Source == e.Source) &&
		(q.Name == "" || q.Name == e.Name) &&
		(q.EventID == "" || q.EventID == e.EventID) &&
		(q.Object == "" || q.Object == e.Object) &&
		e.Number > q.After &&
		(q.Since.IsZero() || !e.Time.Before(q.Since))
}
