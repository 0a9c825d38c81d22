package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/resources"
	"gateway/sinks/events"
	"gateway/store"
)

func TestPurgedDeadLettersDoNotComeBackAfterARestart(t *testing.T) {
	s, st := start(t), store.NewMemory("home")
	stop := run(t, st, events.JetStream{JetStream: s.js}, zap.NewNop())

	letter := dead(2, resources.SourceWebhook, "inbox", "attributes", "x")
	add(t, st, entry(1, resources.SourceWebhook, "deploy", "attributes", "x"), letter, dead(3, resources.SourceWebhook, "other", "attributes", "x"))
	s.waitFor(names.DeadStream(), 2)
	stop()

	add(t, st, store.Entry{Class: store.ClassPurged, Source: letter.Source, Name: letter.Name, EventID: letter.EventID})

	// Without the newest letter nothing in the stream says how far publishing came, nor, two minutes later, what was in it.
	require.NoError(t, s.js.DeleteStream(t.Context(), names.DeadStream()))

	for _, cfg := range names.Streams() {
		_, err := s.js.CreateOrUpdateStream(t.Context(), cfg)
		require.NoError(t, err)
	}

	run(t, st, events.JetStream{JetStream: s.js}, zap.NewNop())
	add(t, st, entry(4, resources.SourceWebhook, "deploy", "attributes", "x"))
	s.waitFor(names.EventStream(), 2)

	left := s.stored(names.DeadStream())
	require.Len(t, left, 1)
	require.Equal(t, names.Dead(resources.SourceWebhook, "other"), left[0].Subject)
}
