package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
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
	// joined reports that the next op of the queue becomes durable with this one, or neither does.
	joined bool
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

// entryRest is the part of an entry that no query asks for.
type entryRest struct {
	Key     string `json:"key,omitempty"`
	Peer    string `json:"peer,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// encodeEntry writes what queries ask for in front, so that a search passes over other entries without decoding them, then
// the rest as JSON, the attributes, and the data as they are.
func encodeEntry(e *Entry) []byte {
	// Marshal fails on no value of strings.
	rest, _ := json.Marshal(entryRest{Key: e.Key, Peer: e.Peer, Reason: e.Reason, Message: e.Message})

	size := 64 + len(e.Source) + len(e.Name) + len(e.EventID) + len(e.Object) + len(rest) + len(e.Attributes) + len(e.Data)
	v := make([]byte, 0, size)
	v = binary.BigEndian.AppendUint64(v, uint64(e.Time.UnixNano()))

	for _, part := range []string{e.Source, string(e.Class), e.Name, e.EventID, e.Object} {
		v = appendPart(v, part)
	}

	v = appendPart(v, rest)
	v = appendPart(v, e.Attributes)

	return append(v, e.Data...)
}

// front is the first part of an encoded entry. Its slices point into it.
type front struct {
	at                                   int64
	source, class, name, eventID, object []byte
}

// decodeFront reads only the first part of an encoded entry and returns what follows it.
func decodeFront(v []byte) (f front, rest []byte, err error) {
	if len(v) < 8 {
		return f, nil, errShort
	}

	f.at, rest = int64(binary.BigEndian.Uint64(v)), v[8:]

	for _, part := range []*[]byte{&f.source, &f.class, &f.name, &f.eventID, &f.object} {
		if *part, rest, err = cutPart(rest); err != nil {
			return f, nil, err
		}
	}

	return f, rest, nil
}

// decodeEntry reads what encodeEntry wrote. Nothing in the result points into v.
func decodeEntry(number uint64, v []byte) (e Entry, err error) {
	f, rest, err := decodeFront(v)

	var text, attributes []byte
	if err == nil {
		text, rest, err = cutPart(rest)
	}

	var more entryRest
	if err == nil {
		err = json.Unmarshal(text, &more)
	}

	if err == nil {
		attributes, rest, err = cutPart(rest)
	}

	if err != nil {
		return e, fmt.Errorf("error decoding journal entry %d: %w", number, err)
	}

	return Entry{
		Number: number, Time: time.Unix(0, f.at).UTC(), Class: Class(f.class), Source: string(f.source), Name: string(f.name),
		EventID: string(f.eventID), Object: string(f.object), Key: more.Key, Peer: more.Peer, Reason: more.Reason, Message: more.Message,
		Attributes: cloneBytes(attributes), Data: cloneBytes(rest),
	}, nil
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

// matches reports whether q chooses the entry.
func (q *Query) matches(e *Entry) bool {
	return (len(q.Classes) == 0 || slices.Contains(q.Classes, e.Class)) &&
		(q.Source == "" || q.Source == e.Source) &&
		(q.Name == "" || q.Name == e.Name) &&
		(q.EventID == "" || q.EventID == e.EventID) &&
		(q.Object == "" || q.Object == e.Object) &&
		e.Number > q.After && (q.Before == 0 || e.Number < q.Before) &&
		(q.Since.IsZero() || !e.Time.Before(q.Since))
}

// matchesEncoded is matches for an entry that is not decoded, and leaves out those before oldest (Unix nanoseconds).
func (q *Query) matchesEncoded(number uint64, encoded []byte, oldest int64) (bool, error) {
	f, _, err := decodeFront(encoded)
	if err != nil {
		return false, fmt.Errorf("error decoding journal entry %d: %w", number, err)
	}

	return f.at >= oldest &&
		(len(q.Classes) == 0 || slices.Contains(q.Classes, Class(f.class))) &&
		(q.Source == "" || q.Source == string(f.source)) &&
		(q.Name == "" || q.Name == string(f.name)) &&
		(q.EventID == "" || q.EventID == string(f.eventID)) &&
		(q.Object == "" || q.Object == string(f.object)) &&
		number > q.After &&
		(q.Since.IsZero() || f.at >= q.Since.UnixNano()), nil
}
