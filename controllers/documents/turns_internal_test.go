package documents

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/config"
	"gateway/resources"
)

func TestMessagesWaitForThoseThatWereSentBefore(t *testing.T) {
	vm, err := config.Decode("test", []byte("apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: web}\nspec: {}\n"))
	require.NoError(t, err)

	first := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	later := first.Add(time.Second)

	for name, c := range map[string]struct{ a, b resources.EventAttributes }{
		"by when they came":            {resources.EventAttributes{Received: first}, resources.EventAttributes{Received: later}},
		"by their numbers in a stream": {resources.EventAttributes{Received: later, Sequence: 7}, resources.EventAttributes{Received: first, Sequence: 8}},
		"by when they came, with one number": {
			resources.EventAttributes{Received: first, Sequence: 7}, resources.EventAttributes{Received: later, Sequence: 7},
		},
		"by their numbers, although the clock was set back between them": {
			resources.EventAttributes{Received: later, Sequence: 1_800_000_000_000_000}, resources.EventAttributes{Received: first, Sequence: 1_800_000_000_000_001},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var order turns

			// The id would decide the other way round.
			order.take("a", message{attributes: &c.b}, vm)
			order.take("z", message{attributes: &c.a}, vm)

			require.True(t, order.has("z"))
			require.False(t, order.has("a"))

			order.end("z")
			require.True(t, order.has("a"))
		})
	}
}
