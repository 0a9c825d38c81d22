package domainevents

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
)

func TestMoreDomainsThanAreRememberedAreForgottenAndListedAnew(t *testing.T) {
	l := &listener{pending: map[string]hypervisor.Event{}, arrived: make(chan struct{}, 1)}

	for range 3 { // a storm of one domain is one event
		for i := range maxPending {
			l.note(hypervisor.Event{DomainUUID: fmt.Sprint(i)})
		}
	}

	l.mu.Lock()
	require.Len(t, l.pending, maxPending)
	l.mu.Unlock()

	l.note(hypervisor.Event{DomainUUID: "one more"})

	events, overflow := l.taken()
	require.True(t, overflow)
	require.Empty(t, events)

	_, overflow = l.taken()
	require.False(t, overflow, "it is told once")
}
