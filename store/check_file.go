package store

import (
	"fmt"
	"os"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"go.etcd.io/bbolt"
)

// examined is what a store file says of itself.
type examined struct {
	id      string
	applied uint64
	// logged reports whether it is of a version that has a log.
	logged bool
}

// maxProblems of one part of a file: the rest is of the same kind.
const maxProblems = 20

// file examines a store file. It returns nil when the file can't be read any further.
func (r *Report) file(path, name string) (*examined, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("error reading the store: %w", err)
	}

	db, err := openReadOnly(path)
	if err != nil {
		r.problem(name, remedyRestore, "%s", err)

		return nil, nil
	}

	f, err := r.content(db, name, info.Size())
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}

	if err != nil {
		r.problem(name, remedyRestore, "%s", err)

		return nil, nil
	}

	return f, nil
}

// openReadOnly opens a bolt file without changing it.
func openReadOnly(path string) (db *bbolt.DB, err error) {
	defer damage(&err)()

	db, err = bbolt.Open(path, fileMode, &bbolt.Options{
		Timeout: time.Second, FreelistType: bbolt.FreelistMapType, ReadOnly: true, PreLoadFreelist: true,
	})
	if err != nil {
		return nil, boltError(err)
	}

	return db, nil
}

// content reads every page. The error ends it: nothing more can be read.
func (r *Report) content(db *bbolt.DB, name string, size int64) (f *examined, err error) {
	defer damage(&err)()

	f = &examined{}

	return f, db.View(func(tx *bbolt.Tx) error {
		version, err := readMeta(tx, size)
		if err != nil {
			return err
		}

		meta := tx.Bucket(bucketMeta)
		f.id, f.logged = string(meta.Get(metaID)), version >= loggedVersion

		if version > formatVersion {
			r.problem(name, remedyNewer, "its format has version %d, and this gateway reads up to %d", version, formatVersion)

			return nil
		}

		if f.logged {
			if f.applied, err = appliedGeneration(tx); err != nil {
				return err
			}
		}

		counts := map[string]int{}

		for _, bucket := range loggedBuckets {
			if counts[string(bucket)], err = r.bucket(tx.Bucket(bucket), name, bucket); err != nil {
				return err
			}
		}

		// bolt's own check runs on a goroutine of its own, where a damaged page ends the process: after all was read once.
		for problem := range tx.Check() {
			r.problem(name, remedyRestore, "%s", problem)
		}

		r.part(name, "format %d, %d objects, %d journal entries, %d keys of deliveries, %s", version, counts[string(bucketResources)],
			counts[string(bucketJournal)], counts[string(bucketKeys)], megabytes(size))

		return nil
	})
}

func megabytes(size int64) string { return fmt.Sprintf("%.1f MiB", float64(size)/(1<<20)) }

// bucket decodes everything in a part of the file and returns how much it is.
func (r *Report) bucket(b *bbolt.Bucket, file string, name []byte) (n int, err error) {
	problems := 0

	err = b.ForEach(func(key, value []byte) error {
		n++

		if err := examine(&op{bucket: name, key: key, value: value}); err != nil {
			if problems++; problems <= maxProblems {
				r.problem(file, remedyRestore, "%s", err)
			}
		}

		return nil
	})
	if problems > maxProblems {
		r.problem(file, remedyRestore, "%d more of these in %q", problems-maxProblems, name)
	}

	return n, err
}

// examine decodes what a start of the gateway would decode, and what a query would.
func examine(o *op) error {
	switch string(o.bucket) {
	case string(bucketResources):
		return examineObject(o.key, o.value)
	case string(bucketJournal):
		if len(o.key) != 8 {
			return fmt.Errorf("%x, which is not the key of a journal entry", o.key)
		}

		if o.value == nil {
			return nil
		}

		if _, err := decodeEntry(numberOf(o.key), o.value); err != nil {
			return fmt.Errorf("journal entry %d, which can't be decoded: %w", numberOf(o.key), err)
		}
	case string(bucketKeys):
		if len(o.key) != 8 {
			return fmt.Errorf("%x, which is not a key of the journal", o.key)
		}

		if o.value == nil {
			return nil
		}

		if _, _, _, err := decodeKey(numberOf(o.key), o.value); err != nil {
			return fmt.Errorf("key %d of the journal, which can't be decoded: %w", numberOf(o.key), err)
		}
	}

	return nil
}

func examineObject(key, value []byte) error {
	if _, _, ok := splitResourceKey(key); !ok {
		return fmt.Errorf("%.80q, which is not the key of an object", key)
	}

	if value == nil {
		return nil
	}

	object, err := marshaler.UnmarshalResource(value)
	if err != nil {
		return fmt.Errorf("%s, which can't be decoded: %w", writtenName(key), err)
	}

	md := object.Metadata()
	if want := resourceKey(md.Namespace(), md.Type(), md.ID()); string(want) != string(key) {
		return fmt.Errorf("%s under the key of %s", writtenName(want), writtenName(key))
	}

	if _, raw := object.(*protobuf.Resource); raw {
		return fmt.Errorf("%s, of a kind that this gateway does not know: %s", writtenName(key), remedyNewer)
	}

	return nil
}
