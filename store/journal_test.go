package store

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// tiny are limits that a test reaches.
func tiny() journalLimits {
	return journalLimits{age: 24 * time.Hour, entries: 10, keys: 5, totalKeys: 12, bytes: 1 << 20}
}

// mapDisk is a journalDisk that applies writes at once.
type mapDisk struct {
	entries, keys map[string][]byte
}

func newMapDisk() *mapDisk { return &mapDisk{entries: map[string][]byte{}, keys: map[string][]byte{}} }

func (d *mapDisk) push(ops ...op) error {
	for _, o := range ops {
		bucket := d.entries
		if bytes.Equal(o.bucket, bucketKeys) {
			bucket = d.keys
		}

		if o.value == nil {
			delete(bucket, string(o.key))
		} else {
			bucket[string(o.key)] = o.value
		}
	}

	return nil
}

func (d *mapDisk) scan(context.Context, uint64, func(uint64, []byte) (bool, error)) error { return nil }

func event(source, name string, i int) Entry {
	return Entry{Class: ClassEvent, Source: source, Name: name, EventID: fmt.Sprintf("e%d", i), Key: fmt.Sprintf("k%d", i)}
}

func TestTheJournalKeepsTheNewestOfEachSource(t *testing.T) {
	d := newMapDisk()
	j := newJournal(tiny(), d)

	for i := range 100 {
		require.NoError(t, j.Append(event("webhook", "a", i)))
		require.NoError(t, j.Append(Entry{Class: ClassHypervisor, Source: "vm", Object: "VM/a"}))
	}

	require.Len(t, d.entries, 20, "ten of each source")
	require.Len(t, d.keys, 5)

	entries, err := j.Query(t.Context(), Query{Source: "webhook"})
	require.NoError(t, err)
	require.Len(t, entries, 10)
	require.Equal(t, "e99", entries[9].EventID)

	_, ok := j.Seen("webhook", "a", "k94")
	require.False(t, ok)

	id, ok := j.Seen("webhook", "a", "k95")
	require.True(t, ok)
	require.Equal(t, "e95", id)
}

func TestABusyRouteDoesNotPushOutTheKeysOfAnother(t *testing.T) {
	j := newJournal(tiny(), nil)
	require.NoError(t, j.Append(event("webhook", "quiet", 0)))

	for i := range 1000 {
		require.NoError(t, j.Append(event("webhook", "busy", i)))
	}

	_, ok := j.Seen("webhook", "quiet", "k0")
	require.True(t, ok, "though its entry is gone")
	require.LessOrEqual(t, j.keys.groups[groupName("webhook", "busy")].order.len(), 10)
}

func TestTheMemoryOfAllKeysIsBounded(t *testing.T) {
	d := newMapDisk()
	j := newJournal(tiny(), d)

	for i := range 100 {
		for route := range 5 {
			require.NoError(t, j.Append(event("webhook", fmt.Sprint(route), i)))
		}
	}

	require.Equal(t, 12, j.keys.total)
	require.Len(t, d.keys, 12)
}

func TestTheJournalForgetsWhatIsADayOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMapDisk()
		j := newJournal(tiny(), d)
		require.NoError(t, j.Append(event("webhook", "a", 1)))

		time.Sleep(23 * time.Hour)
		require.NoError(t, j.Append(event("webhook", "b", 2)))

		_, ok := j.Seen("webhook", "a", "k1")
		require.True(t, ok)

		time.Sleep(2 * time.Hour)

		_, ok = j.Seen("webhook", "a", "k1")
		require.False(t, ok)

		entries, err := j.Query(t.Context(), Query{})
		require.NoError(t, err)
		require.Len(t, entries, 1)

		require.NoError(t, j.Append(event("webhook", "c", 3)))
		require.Len(t, d.entries, 2, "the next entry takes the old ones away")
		require.Len(t, d.keys, 2)
	})
}

func TestAForgottenDeliveryIsProcessedAgain(t *testing.T) {
	d := newMapDisk()
	j := newJournal(tiny(), d)

	for i := range 100 {
		e := event("webhook", "a", 1)
		e.EventID = fmt.Sprint("attempt ", i)
		require.NoError(t, j.Append(e))

		id, ok := j.Seen("webhook", "a", "k1")
		require.True(t, ok)
		require.Equal(t, e.EventID, id)

		j.Forget("webhook", "a", "k1")

		_, ok = j.Seen("webhook", "a", "k1")
		require.False(t, ok)
	}

	j.Forget("webhook", "a", "never seen")
	require.Empty(t, d.keys)
	require.Zero(t, j.keys.total)
}

func TestTheSpaceOfAllEntriesIsBounded(t *testing.T) {
	limits := tiny()
	limits.bytes = 100 << 10
	j := newJournal(limits, nil)

	require.NoError(t, j.Append(Entry{Source: "vm"}))

	for range 10 {
		require.NoError(t, j.Append(Entry{Source: "webhook", Data: make([]byte, 40<<10)}))
	}

	require.LessOrEqual(t, j.bytes, limits.bytes)
	require.Equal(t, 3, j.held.len(), "two large ones, and the one of a source that does not use the space")
}

func TestWhatIsTooLargeIsCut(t *testing.T) {
	j := newJournal(tiny(), nil)
	data := bytes.Repeat([]byte("x"), 100<<10)
	require.NoError(t, j.Append(Entry{Source: "webhook", Data: data, Message: string(data), Attributes: data}))
	data[0] = 'y'

	entries, err := j.Query(t.Context(), Query{})
	require.NoError(t, err)
	require.Len(t, entries[0].Data, maxEntryData)
	require.Equal(t, byte('x'), entries[0].Data[0], "the caller's buffer is its own")
	require.Len(t, entries[0].Message, maxEntryMessage)
	require.Empty(t, entries[0].Attributes)

	require.ErrorContains(t, j.Append(Entry{}), "source")
}

func TestAQueryChoosesByEveryField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(tiny(), nil)
		require.NoError(t, j.Append(Entry{Class: ClassEvent, Source: "webhook", Name: "a", EventID: "1"}))
		time.Sleep(time.Minute)

		since := time.Now()

		require.NoError(t, j.Append(Entry{Class: ClassRefused, Source: "webhook", Name: "b", EventID: "2"}))
		require.NoError(t, j.Append(Entry{Class: ClassHypervisor, Source: "vm", EventID: "1", Object: "VM/a"}))

		for name, test := range map[string]struct {
			query Query
			want  []uint64
		}{
			"all":           {Query{}, []uint64{1, 2, 3}},
			"by class":      {Query{Classes: []Class{ClassEvent, ClassRefused}}, []uint64{1, 2}},
			"by source":     {Query{Source: "webhook"}, []uint64{1, 2}},
			"by name":       {Query{Source: "webhook", Name: "b"}, []uint64{2}},
			"by event":      {Query{EventID: "1"}, []uint64{1, 3}},
			"by object":     {Query{Object: "VM/a"}, []uint64{3}},
			"after":         {Query{After: 1}, []uint64{2, 3}},
			"since":         {Query{Since: since}, []uint64{2, 3}},
			"the newest":    {Query{Limit: 1}, []uint64{3}},
			"none of these": {Query{Name: "c"}, nil},
		} {
			entries, err := j.Query(t.Context(), test.query)
			require.NoError(t, err)

			var got []uint64
			for _, e := range entries {
				got = append(got, e.Number)
			}

			require.Equal(t, test.want, got, name)
		}
	})
}

func TestAFollowerWaitsForTheNextEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(tiny(), nil)
		require.NoError(t, j.Append(Entry{Source: "vm"}))
		require.NoError(t, j.Wait(t.Context(), 0))

		woken := make(chan error, 1)
		go func() { woken <- j.Wait(t.Context(), 1) }()

		synctest.Wait()
		require.Empty(t, woken)
		require.NoError(t, j.Append(Entry{Source: "vm"}))
		require.NoError(t, <-woken)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, j.Wait(ctx, 2), context.DeadlineExceeded)
	})
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(encodeEntry(&Entry{Source: "webhook", Attributes: []byte("{}"), Data: []byte("x")}))
	f.Add([]byte{})

	f.Fuzz(func(t *testing.T, v []byte) {
		e, err := decodeEntry(1, v)
		if err != nil {
			return
		}

		again, err := decodeEntry(1, encodeEntry(&e))
		if err == nil {
			require.Equal(t, e.Data, again.Data)
		}
	})
}
