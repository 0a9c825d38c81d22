package subscriptions

import (
	"testing"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"gateway/broker"
	"gateway/resources"
)

// FuzzEvents: whatever a message has in subject, headers and data, it is refused, or its events can be stored: text that is
// UTF-8, bounded headers without credentials, a hop count below the limit.
func FuzzEvents(f *testing.F) {
	f.Add("ops.vm.restarted", "Content-Type", "application/json", []byte(`{"by": "ops"}`))
	f.Add("ops.vm", "ce-specversion", "1.0", []byte(`{}`))
	f.Add("ops.vm", "content-type", "application/cloudevents-batch+json", []byte(`[{"specversion":"1.0","id":"1","source":"/s","type":"t"}]`))
	f.Add("a\xffb", "Gateway-Hops", "8", []byte{0})
	f.Add("x", "AUTHORIZATION", "Bearer secret", []byte(`secret`))

	f.Fuzz(func(t *testing.T, subject, name, value string, data []byte) {
		for _, content := range []string{"json", "any", "cloudevents"} {
			spec := resources.NewSubscription("s").TypedSpec()
			spec.Content = content
			w := &worker{name: "s", spec: *spec}

			events, err := w.events(subject, nats.Header{name: {value, value}, "Authorization": {"Bearer secret"}}, data, "d")
			if err != nil {
				require.Empty(t, events)

				continue
			}

			for _, e := range events {
				a := e.TypedSpec().Event
				require.NotEmpty(t, a.ID)
				require.Less(t, a.Hops, broker.MaxHops)
				require.LessOrEqual(t, len(a.Headers), maxHeaders)
				require.NotContains(t, a.Headers, "authorization")

				for _, text := range []string{a.Subject, a.Type, a.CESource, a.DataContentType} {
					require.True(t, utf8.ValidString(text), "%q", text)
				}
			}
		}
	})
}
