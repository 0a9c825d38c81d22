package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// formatVersion of the store file. A change that an older gateway would misread raises it.
const formatVersion = 2

// loggedVersion is the first format with a log.
const loggedVersion = 2

// Keys of the meta bucket.
var (
	metaVersion = []byte("version")
	metaID      = []byte("id")
	metaLog     = []byte("log") // the last generation of the log that is in the file
)

// mapSize is reserved in the address space at once: until the file has grown to it no writer waits for a reader to end.
const mapSize = 256 << 20

// errDamaged is what a file is that can't be read as a store.
var errDamaged = errors.New("the file is damaged")

// openFile opens or makes the store file and returns the gateway's id.
func openFile(dir *dataDir, stored, configured string) (*bbolt.DB, string, error) {
	path := dir.file(storeName)

	there, err := dir.has(storeName)
	if err != nil {
		return nil, "", err
	}

	if !there && stored != "" {
		return nil, "", fmt.Errorf("the store %s is missing, though %s says that there was one: restore a backup with `gateway store restore FILE`, "+
			"or remove %s to begin anew, and then import the domains that exist, which are NameTaken until then", path, dir.file(idName), dir.file(idName))
	}

	if !there {
		if err := makeFile(dir, stored, configured); err != nil {
			return nil, "", err
		}
	}

	db, err := openDB(path)
	if err != nil {
		return nil, "", fmt.Errorf("error opening %s: %w", path, err)
	}

	id, err := checkFile(dir, db, stored, configured)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("error opening %s: %w", path, err), db.Close())
	}

	return db, id, nil
}

// makeFile makes an empty store under another name first, so that one that is there is whole.
func makeFile(dir *dataDir, stored, configured string) error {
	id, err := dir.chooseID(stored, configured)
	if err != nil {
		return err
	}

	path, temporary := dir.file(storeName), dir.file(storeName+".new")

	if err := os.RemoveAll(temporary); err != nil {
		return fmt.Errorf("error creating %s: %w", path, err)
	}

	db, err := openDB(temporary)
	if err != nil {
		return fmt.Errorf("error creating %s: %w", path, err)
	}

	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketResources, bucketJournal, bucketKeys} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}

		return errors.Join(
			tx.Bucket(bucketMeta).Put(metaVersion, []byte(strconv.Itoa(formatVersion))),
			tx.Bucket(bucketMeta).Put(metaID, []byte(id)),
			tx.Bucket(bucketMeta).Put(metaLog, []byte("0")),
		)
	})

	if err = errors.Join(err, db.Close()); err == nil {
		err = makeLogs(dir) // a store that is there has its log
	}

	if err == nil {
		err = os.Rename(temporary, path)
	}

	if err != nil {
		return fmt.Errorf("error creating %s: %w", path, err)
	}

	return syncDir(dir.path)
}

// openDB opens a bolt file. Damage that bolt meets as a panic or a fault of the memory map is an error.
func openDB(path string) (db *bbolt.DB, err error) {
	defer damage(&err)()

	db, err = bbolt.Open(path, fileMode, &bbolt.Options{
		Timeout: time.Second, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapSize,
	})

	return db, boltError(err)
}

// boltError says what an error of bolt is about.
func boltError(err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("%w (%w)", errDamaged, err)
	case errors.Is(err, bolterrors.ErrTimeout):
		return errors.New("another process has it open")
	}

	return err
}

// damage makes an error of a panic and of a fault while a file is read. Its result is deferred.
func damage(err *error) func() {
	old := debug.SetPanicOnFault(true)

	return func() {
		debug.SetPanicOnFault(old)

		if p := recover(); p != nil {
			*err = fmt.Errorf("%w (%v)", errDamaged, p)
		}
	}
}

// checkFile checks that the file is whole, of a version that this program knows, and of this gateway.
func checkFile(dir *dataDir, db *bbolt.DB, stored, configured string) (id string, err error) {
	defer damage(&err)()

	info, err := os.Stat(db.Path())
	if err != nil {
		return "", err
	}

	old := false

	err = db.View(func(tx *bbolt.Tx) error {
		version, err := readMeta(tx, info.Size())
		if err != nil {
			return err
		}

		if version > formatVersion {
			return fmt.Errorf("its format has version %d, and this gateway reads up to %d: start the newer gateway that wrote it", version, formatVersion)
		}

		id, old = string(tx.Bucket(bucketMeta).Get(metaID)), version < formatVersion

		return nil
	})
	if err != nil {
		return "", err
	}

	if stored != "" && stored != id {
		return "", fmt.Errorf("it belongs to gateway %q, but %s says %q: restore the store that belongs to this directory, "+
			"or remove %s to go on as %q", id, dir.file(idName), stored, dir.file(idName), id)
	}

	if id, err = dir.chooseID(id, configured); err == nil && old {
		err = upgrade(dir, db)
	}

	return id, err
}

// readMeta checks that a file of so many bytes is all there, and returns the version of its format.
func readMeta(tx *bbolt.Tx, size int64) (version int, err error) {
	if tx.Size() > size {
		return 0, fmt.Errorf("%w (%d bytes are missing at its end)", errDamaged, tx.Size()-size)
	}

	for _, name := range [][]byte{bucketMeta, bucketResources, bucketJournal, bucketKeys} {
		if tx.Bucket(name) == nil {
			return 0, fmt.Errorf("%w (it has no part %q)", errDamaged, name)
		}
	}

	if version, err = strconv.Atoi(string(tx.Bucket(bucketMeta).Get(metaVersion))); err != nil {
		return 0, fmt.Errorf("%w (it has no version)", errDamaged)
	}

	return version, nil
}

// load reads the whole file once: resources by namespace, and the journal's numbers and keys.
func load(db *bbolt.DB, j *journal) (loaded map[resource.Namespace][]resource.Resource, err error) {
	defer damage(&err)()

	err = db.View(func(tx *bbolt.Tx) error {
		var err error
		if loaded, err = loadResources(tx.Bucket(bucketResources)); err != nil {
			return err
		}

		return loadJournal(tx.Bucket(bucketJournal), tx.Bucket(bucketKeys), j)
	})

	return loaded, err
}

// bucket is what is read of a bolt bucket, in order of the keys.
type bucket interface {
	ForEach(visit func(key, value []byte) error) error
}

func loadResources(b bucket) (map[resource.Namespace][]resource.Resource, error) {
	loaded, unknown := map[resource.Namespace][]resource.Resource{}, map[resource.Type]int{}

	err := b.ForEach(func(key, value []byte) error {
		ns, typ, ok := splitResourceKey(key)
		if !ok {
			return fmt.Errorf("%w (%.80q is not the key of an object)", errDamaged, key)
		}

		r, err := marshaler.UnmarshalResource(value)
		if err != nil {
			return fmt.Errorf("%w (%.80q can't be decoded: %w)", errDamaged, key, err)
		}

		// COSI hands out the encoded form of types that the program does not know.
		if _, raw := r.(*protobuf.Resource); raw {
			unknown[typ]++

			return nil
		}

		loaded[ns] = append(loaded[ns], r)

		return nil
	})
	if err != nil {
		return nil, err
	}

	if len(unknown) > 0 {
		var names []string
		for _, typ := range slices.Sorted(maps.Keys(unknown)) {
			names = append(names, fmt.Sprintf("%s (%d)", typ, unknown[typ]))
		}

		return nil, fmt.Errorf("it holds objects of kinds that this gateway does not know: %s: start the newer gateway that wrote them", strings.Join(names, ", "))
	}

	return loaded, nil
}

// loadJournal fills the index of the journal. What is above its limits goes with the next entries.
func loadJournal(entries, keys bucket, j *journal) error {
	j.mu.Lock()
	defer j.mu.Unlock()

	err := entries.ForEach(func(key, value []byte) error {
		f, _, err := decodeFront(value)
		if err != nil || len(key) != 8 {
			return fmt.Errorf("%w (%x is not a journal entry)", errDamaged, key)
		}

		number := numberOf(key)
		j.last = max(j.last, number)
		j.note(string(f.source), logged{number: number, at: f.at, size: int64(len(value))})

		return nil
	})
	if err != nil {
		return err
	}

	return keys.ForEach(func(key, value []byte) error {
		if len(key) != 8 {
			return fmt.Errorf("%w (%x is not a key of the journal)", errDamaged, key)
		}

		group, hash, k, err := decodeKey(numberOf(key), value)
		if err != nil {
			return fmt.Errorf("%w (%x is not a key of the journal)", errDamaged, key)
		}

		// A number is never used twice, even when the entry itself is gone.
		j.last = max(j.last, k.number)
		j.dead = append(j.dead, j.keys.insert(group, hash, k)...)

		return nil
	})
}

func numberOf(key []byte) uint64 { return binary.BigEndian.Uint64(key) }
