package status

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gateway/resources"
)

// What is written by hand says the same as encoding/json.
func TestEventsAreEncodedAsTheirTypesSay(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "host-1", `</name>"\<&>`, "\x00\n\t", "ä\u2028", "\xff"}))
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "seconds"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")).UTC()
	})
	condition := rapid.Custom(func(t *rapid.T) resources.Condition {
		return resources.Condition{
			Type: text.Draw(t, "type"), Status: resources.ConditionStatus(text.Draw(t, "status")), Reason: text.Draw(t, "reason"),
			Message: text.Draw(t, "message"), Since: instant.Draw(t, "since"),
		}
	})

	var reused scratch

	rapid.Check(t, func(t *rapid.T) {
		event := cloudEvent{
			SpecVersion: "1.0", ID: text.Draw(t, "id"), Source: text.Draw(t, "source"), Type: text.Draw(t, "type"),
			Subject: text.Draw(t, "subject"), Time: instant.Draw(t, "time"), DataContentType: "application/json", Revision: text.Draw(t, "revision"),
			Cause: text.Draw(t, "cause"),
		}

		conditions := rapid.SliceOfN(condition, 0, 4).Draw(t, "conditions")

		event.Data = rapid.SampledFrom([]any{
			vmData{Name: text.Draw(t, "name"), VMStatusSpec: &resources.VMStatusSpec{
				State: text.Draw(t, "state"), Conditions: conditions, Started: instant.Draw(t, "started"),
				Addresses: []resources.Address{{Address: text.Draw(t, "address")}},
			}},
			hostData{Name: text.Draw(t, "host"), HostStatusSpec: &resources.HostStatusSpec{LastError: text.Draw(t, "error")}},
			deletedData{Name: text.Draw(t, "deleted"), LeftBehind: []string{text.Draw(t, "left")}},
		}).Draw(t, "data")

		want, err := json.Marshal(event)
		require.NoError(t, err)

		got, err := reused.marshal(&event)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))

		// The next message is put together in the same place.
		_, err = reused.marshal(&cloudEvent{ID: "another"})
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
	})
}

// A field that conditions get has to be written, too.
func TestAConditionHasTheFieldsThatAreWritten(t *testing.T) {
	c := resources.Condition{Type: "a", Status: "b", Reason: "c", Message: "d", Since: time.Unix(1, 2).UTC()}

	var all, written map[string]any

	want, err := json.Marshal(c)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(want, &all))
	require.NoError(t, json.Unmarshal(appendCondition(nil, &c), &written))
	require.Equal(t, all, written)
	require.Len(t, all, 5, "each field is set above")
}
