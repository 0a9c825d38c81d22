package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"go.etcd.io/bbolt"

	"gateway/resources"
)

// numbersAhead is by how much the numbers go on that are told to the outside, when changes were lost: nobody has seen 4 billion versions of
// one object, or journal entries, between a backup and what came after it.
const numbersAhead = 1 << 32

// SourceStore is the source of the journal's entry which says that changes were lost: what was told to the outside before is older.
const SourceStore = "store"

// renew makes a store that lacks what happened last one that can go on: the gateway did things that it no longer knows of.
//   - Where a VM is placed may have changed. It is looked for on all hosts before it is placed, as a VM that was never placed is.
//   - Messages with numbers that are used again would be taken for old ones. All numbers go far ahead.
//
// why is told in the journal.
func renew(tx *bbolt.Tx, why string, now time.Time) error {
	changed := map[string][]byte{}

	err := tx.Bucket(bucketResources).ForEach(func(key, value []byte) error {
		r, err := marshaler.UnmarshalResource(value)
		if err != nil {
			return fmt.Errorf("error decoding %s: %w", writtenName(key), err)
		}

		if !renewed(r) {
			return nil
		}

		encoded, err := marshaler.MarshalResource(r)
		if err != nil {
			return fmt.Errorf("error encoding %s: %w", writtenName(key), err)
		}

		changed[string(key)] = encoded

		return nil
	})
	if err != nil {
		return err
	}

	for key, value := range changed {
		if err := tx.Bucket(bucketResources).Put([]byte(key), value); err != nil {
			return err
		}
	}

	entry := Entry{Number: lastNumber(tx) + numbersAhead, Time: now.UTC().Round(0), Class: ClassCommand, Source: SourceStore, Name: "restore", Message: why}
	o := entryOp(entry.Number, encodeEntry(&entry))

	return errors.Join(o.apply(tx.Bucket(bucketJournal)), tx.Bucket(bucketMeta).Put(metaLog, []byte("0")))
}

// renewed changes an object, if it has to be changed.
func renewed(r resource.Resource) bool {
	switch r := r.(type) {
	case *resources.VMPlacement:
		spec := r.TypedSpec()

		// One that ends, ends where it is: nothing is started for it.
		if spec.Host == "" || r.Metadata().Phase() != resource.PhaseRunning {
			return false
		}

		spec.Former, spec.Host = spec.Host, ""
		spec.Reason, spec.Message = resources.ReasonPending, "it is looked for on every host: it may have moved since the backup"
		spec.Reserved = resources.Capacity{}

		resources.SetLabels(r.Metadata(), nil)
	case *resources.VMStatus, *resources.HostStatus:
	default:
		return false
	}

	version, err := resource.ParseVersion(fmt.Sprint(r.Metadata().Version().Value() + numbersAhead))
	if err != nil {
		return false // it is a number
	}

	r.Metadata().SetVersion(version)

	return true
}

// lastNumber is the number of the newest journal entry, or of a key whose entry is gone.
func lastNumber(tx *bbolt.Tx) (last uint64) {
	for _, bucket := range [][]byte{bucketJournal, bucketKeys} {
		if key, _ := tx.Bucket(bucket).Cursor().Last(); key != nil {
			last = max(last, numberOf(key))
		}
	}

	return last
}
