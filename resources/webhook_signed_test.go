package resources_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func TestWhatASenderSigns(t *testing.T) {
	body, stamp := resources.SignedPart{Body: true}, resources.SignedPart{Timestamp: true}
	literal := func(text string) resources.SignedPart { return resources.SignedPart{Literal: text} }

	for name, tc := range map[string]struct {
		text, header string
		want         []resources.SignedPart
	}{
		"the body, when nothing is said":         {"", "", []resources.SignedPart{body}},
		"the time before it, where there is one": {"", "X-Time", []resources.SignedPart{stamp, literal("."), body}},
		"Slack":                                  {"v0:{timestamp}:{body}", "X-Time", []resources.SignedPart{literal("v0:"), stamp, literal(":"), body}},
		"a header, and the time behind":          {"{header.X-Id}{body}{timestamp}", "X-Time", []resources.SignedPart{{Header: "X-Id"}, body, stamp}},
		"a brace that closes nothing":            {"}{body}", "", []resources.SignedPart{literal("}"), body}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&resources.HMACAuth{SignedText: tc.text, TimestampHeader: tc.header}).SignedParts()
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}

	for text, want := range map[string]string{
		"{timestamp}":                        "{body} is required",
		"x":                                  "{body} is required",
		"{body}{body}{timestamp}":            "{body} is required, once",
		"{body}":                             "{timestamp} is required",
		"{timestamp}{body":                   "{ without its }",
		"{time}{body}":                       `"{time}" is not known`,
		"{header.}{timestamp}{body}":         `"{header.}" is not known`,
		"{header.A B}{timestamp}{body}":      `"{header.A B}" is not known`,
		strings.Repeat("x", 2000) + "{body}": "at most 1024",
	} {
		_, err := (&resources.HMACAuth{SignedText: text, TimestampHeader: "X-Time"}).SignedParts()
		require.ErrorContains(t, err, want, text)
	}

	_, err := (&resources.HMACAuth{SignedText: "{timestamp}{body}"}).SignedParts()
	require.ErrorContains(t, err, "needs timestampHeader")
}
