package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/store"
)

func TestAMarkIsAboutLettersBeforeItOfItsSourceNameAndEvent(t *testing.T) {
	letter := store.Entry{Number: 5, Class: store.ClassDead, Source: "webhook", Name: "inbox", EventID: "e1"}

	for name, tc := range map[string]struct {
		mark store.Entry
		want bool
	}{
		"the event":           {store.Entry{Number: 6, Class: store.ClassPurged, Source: "webhook", Name: "inbox", EventID: "e1"}, true},
		"all of the name":     {store.Entry{Number: 6, Class: store.ClassPurged, Source: "webhook", Name: "inbox"}, true},
		"all of the source":   {store.Entry{Number: 6, Class: store.ClassPurged, Source: "webhook"}, true},
		"another event":       {store.Entry{Number: 6, Class: store.ClassPurged, Source: "webhook", Name: "inbox", EventID: "e2"}, false},
		"another name":        {store.Entry{Number: 6, Class: store.ClassPurged, Source: "webhook", Name: "deploy"}, false},
		"another source":      {store.Entry{Number: 6, Class: store.ClassPurged, Source: "subscription", Name: "inbox", EventID: "e1"}, false},
		"an earlier mark":     {store.Entry{Number: 4, Class: store.ClassPurged, Source: "webhook", Name: "inbox", EventID: "e1"}, false},
		"an entry of a class": {store.Entry{Number: 6, Class: store.ClassEvent, Source: "webhook", Name: "inbox", EventID: "e1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.mark.Purges(&letter))

			left := store.Outstanding([]store.Entry{letter, tc.mark})
			require.Equal(t, tc.want, len(left) == 0)
		})
	}
}
