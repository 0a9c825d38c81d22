package store

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// loggedBuckets are the parts of the store that the log has writes of; a record names one by its place here, from 1.
var loggedBuckets = [][]byte{bucketResources, bucketJournal, bucketKeys}

// placeOf returns the place of a part of the store, from 0.
func placeOf(bucket []byte) int {
	return slices.IndexFunc(loggedBuckets, func(name []byte) bool { return string(name) == string(bucket) })
}

// deletion marks a write without a value.
const deletion = 0x80

// appendOps encodes a batch: for each write its bucket, its key, and its value.
func appendOps(b []byte, ops []op) []byte {
	for i := range ops {
		o := &ops[i]
		code := byte(1 + placeOf(o.bucket))

		if o.value == nil {
			b = append(b, code|deletion)
			b = appendPart(b, o.key)

			continue
		}

		b = append(b, code)
		b = appendPart(b, o.key)
		b = appendPart(b, o.value)
	}

	return b
}

// decodeOps visits the writes of a record. Keys and values point into b.
func decodeOps(b []byte, visit func(o op)) error {
	for len(b) > 0 {
		code := b[0]
		b = b[1:]

		place := int(code&^deletion) - 1
		if place < 0 || place >= len(loggedBuckets) {
			return fmt.Errorf("%w (a write names part %d of the store)", errDamaged, place+1)
		}

		o := op{bucket: loggedBuckets[place]}

		var err error
		if o.key, b, err = cutPart(b); err != nil {
			return fmt.Errorf("%w (%w)", errDamaged, err)
		}

		if code&deletion == 0 {
			if o.value, b, err = cutPart(b); err != nil {
				return fmt.Errorf("%w (%w)", errDamaged, err)
			}
		}

		if place == 1 && o.value != nil && len(o.key) == 8 {
			o.entry = binary.BigEndian.Uint64(o.key)
		}

		visit(o)
	}

	return nil
}
