package status

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func tombstone(name, uid string) *resources.Tombstone {
	t := resources.NewTombstone(uid)
	*t.TypedSpec() = resources.TombstoneSpec{Kind: "VM", Name: name, UID: uid}

	return t
}

func statusOf(name, uid string) *resources.VMStatus {
	s := resources.NewVMStatus(name)
	s.TypedSpec().UID = uid

	return s
}

// The kinds are watched side by side, and what was read by a list comes through its watch once more.
func TestNothingIsToldOfAnObjectAfterItsEnd(t *testing.T) {
	o := newOutbox()
	require.False(t, o.addTombstone(tombstone("web", "u1")))
	require.False(t, o.addTombstone(tombstone("web", "u1")), "it is on its way")

	e := o.take(1)[0]
	e.tombstones, e.flying = nil, false // acknowledged

	o.setStatus("VM", statusOf("web", "u1"))
	require.True(t, o.addTombstone(tombstone("web", "u1")))
	require.Empty(t, o.queue, "late, or told already")

	o.setStatus("VM", statusOf("web", "u2"))
	require.Len(t, o.queue, 1, "another object of the same name")
}

func TestWhatIsRememberedOfTheGoneIsBounded(t *testing.T) {
	r := recent{known: map[string]bool{}}

	for i := range 2 * maxRecent {
		require.True(t, r.add(fmt.Sprint(i)))
	}

	require.False(t, r.add(fmt.Sprint(2*maxRecent-1)))
	require.Len(t, r.known, maxRecent)
	require.Len(t, r.order, maxRecent)
}

// A tombstone that is found between the taking and the sending goes with the message that is about to be sent.
func TestWhatIsNotedOfATakenEntryDoesNotQueueItOnceMore(t *testing.T) {
	o := newOutbox()
	o.setStatus("VM", statusOf("web", "u2"))

	e := o.take(1)[0]
	require.False(t, o.addTombstone(tombstone("web", "u1")))
	o.setStatus("VM", statusOf("web", "u2"))
	require.Empty(t, o.queue)
	require.Len(t, e.tombstones, 1)

	e.flying = false
	o.enqueue(e)
	require.Len(t, o.queue, 1)
}
