package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	cosistore "github.com/cosi-project/runtime/pkg/state/impl/store"
	"go.etcd.io/bbolt"
)

// marshaler is how resources are written: COSI's own protobuf form.
var marshaler cosistore.Marshaler = cosistore.ProtobufMarshaler{}

// backing implements inmem.BackingStore for one namespace. COSI calls it under the lock of a collection, before what it
// writes can be read.
type backing struct {
	queue  *queue
	ns     resource.Namespace
	loaded []resource.Resource
}

var _ inmem.BackingStore = (*backing)(nil)

// Load implements inmem.BackingStore. It is called once.
func (b *backing) Load(_ context.Context, handler inmem.LoadHandler) error {
	for _, r := range b.loaded {
		if err := handler(r.Metadata().Type(), r); err != nil {
			return err
		}
	}

	b.loaded = nil

	return nil
}

// Put implements inmem.BackingStore.
func (b *backing) Put(ctx context.Context, typ resource.Type, r resource.Resource) error {
	value, err := marshaler.MarshalResource(r)
	if err != nil {
		return fmt.Errorf("error encoding %s: %w", r.Metadata(), err)
	}

	o := op{bucket: bucketResources, key: resourceKey(b.ns, typ, r.Metadata().ID()), value: value}

	if t := jointOf(ctx); t != nil {
		return t.put(ctx, b.queue, o)
	}

	return b.queue.put(ctx, o)
}

// Destroy implements inmem.BackingStore.
func (b *backing) Destroy(ctx context.Context, typ resource.Type, ptr resource.Pointer) error {
	return b.queue.put(ctx, op{bucket: bucketResources, key: resourceKey(b.ns, typ, ptr.ID())})
}

// resourceKey joins namespace, type and id. The first two are constants of programs and have no NUL; the id is the rest.
func resourceKey(ns resource.Namespace, typ resource.Type, id resource.ID) []byte {
	return []byte(ns + "\x00" + typ + "\x00" + id)
}

func splitResourceKey(key []byte) (ns resource.Namespace, typ resource.Type, ok bool) {
	first, rest, ok := bytes.Cut(key, []byte{0})
	if !ok {
		return "", "", false
	}

	second, _, ok := bytes.Cut(rest, []byte{0})

	return string(first), string(second), ok
}

// boltJournal implements journalDisk.
type boltJournal struct {
	queue *queue
	db    *bbolt.DB
}

func (b *boltJournal) push(ops ...op) error { return b.queue.push(ops...) }

// scanChunk is how many entries are read in one transaction: a longer one would keep the file from being mapped anew when it
// grows, and with it the committer.
const scanChunk = 4096

func (b *boltJournal) scan(ctx context.Context, first uint64, visit func(number uint64, encoded []byte) (bool, error)) (err error) {
	defer damage(&err)()

	var from []byte // the entry after the next one
	if first > 0 {
		from = numberKey(first)
	}

	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}

		more := false

		err := b.db.View(func(tx *bbolt.Tx) error {
			c := tx.Bucket(bucketJournal).Cursor()

			for n, key, value := 0, []byte(nil), []byte(nil); ; n++ {
				if n == 0 {
					key, value = before(c, from)
				} else {
					key, value = c.Prev()
				}

				if key == nil {
					return nil
				}

				if n == scanChunk {
					more = true

					return nil
				}

				from = bytes.Clone(key)

				if again, err := visit(numberOf(key), value); err != nil || !again {
					return err
				}
			}
		})
		if err != nil || !more {
			return err
		}
	}
}

// before moves a cursor to the last entry before a key; nil: to the last of all.
func before(c *bbolt.Cursor, key []byte) (k, v []byte) {
	if key == nil {
		return c.Last()
	}

	if k, _ := c.Seek(key); k == nil {
		return c.Last()
	}

	return c.Prev()
}
