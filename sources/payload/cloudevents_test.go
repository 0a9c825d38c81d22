package payload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/sources/payload"
)

const structured = "application/cloudevents+json"

// binary are the headers of an event in binary mode.
func binary(more map[string][]string) map[string][]string {
	headers := map[string][]string{"ce-specversion": {"1.0"}, "ce-id": {"7"}, "ce-source": {"/shop"}, "ce-type": {"order.placed"}}
	maps.Copy(headers, more)

	return headers
}

func TestCaseS65AttributesAreFoundUnderEitherCase(t *testing.T) {
	for name, headers := range map[string]map[string][]string{
		"as NATS senders write them": {"ce-specversion": {"1.0"}, "ce-id": {"7"}, "ce-source": {"/shop"}, "ce-type": {"a.b"}, "ce-subject": {"caf%C3%A9"}},
		"as HTTP libraries do":       {"Ce-Specversion": {"1.0"}, "Ce-Id": {"7"}, "Ce-Source": {"/shop"}, "Ce-Type": {"a.b"}, "Ce-Subject": {"caf%C3%A9"}},
		"in capitals":                {"CE-SPECVERSION": {"1.0"}, "CE-ID": {"7"}, "CE-SOURCE": {"/shop"}, "CE-TYPE": {"a.b"}, "CE-SUBJECT": {"caf%C3%A9"}},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := payload.DecodeCloudEvents("application/json", "application/json; charset=utf-8", headers, []byte(`{"n":1}`))
			require.NoError(t, err)
			require.Len(t, events, 1)
			require.JSONEq(t, `{"n":1}`, string(events[0].Data))

			var a resources.EventAttributes

			events[0].Into(&a)
			require.Equal(t, "/shop", a.CESource)
			require.Equal(t, "a.b", a.Type)
			require.Equal(t, "café", a.Subject)
			require.Equal(t, "/shop\n7", a.DeliveryID)
			require.Equal(t, "application/json; charset=utf-8", a.DataContentType)
		})
	}
}

func TestCaseS12BatchesAreTakenWholeOrNotAtAll(t *testing.T) {
	one := `{"specversion":"1.0","id":"%d","source":"/s","type":"t"}`
	batch := func(texts ...string) []byte { return []byte("[" + strings.Join(texts, ",") + "]") }

	events, err := payload.DecodeCloudEvents("application/cloudevents-batch+json", "", nil, batch(fmt.Sprintf(one, 1), fmt.Sprintf(one, 2), fmt.Sprintf(one, 3)))
	require.NoError(t, err)
	require.Len(t, events, 3)
	require.Equal(t, "2", events[1].Attributes["id"])

	events, err = payload.DecodeCloudEvents("application/cloudevents-batch+json", "", nil, batch())
	require.NoError(t, err)
	require.Empty(t, events)

	events, err = payload.DecodeCloudEvents("application/cloudevents-batch+json", "", nil, batch(fmt.Sprintf(one, 1), `{"id":"x"}`))
	require.ErrorContains(t, err, "event 1")
	require.Empty(t, events)

	_, err = payload.DecodeCloudEvents("application/cloudevents-batch+json", "", nil, batch(strings.Split(strings.Repeat(fmt.Sprintf(one, 1)+"\n", 1001), "\n")[:1001]...))

	fault, ok := errors.AsType[*payload.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "too-large", fault.Reason)
}

func TestEventsThatAreNoneAreRefused(t *testing.T) {
	event := func(members string) []byte {
		return []byte(`{"specversion":"1.0","id":"7","source":"/s","type":"t"` + members + `}`)
	}

	for name, test := range map[string]struct {
		mediaType string
		headers   map[string][]string
		body      []byte
		want      string
	}{
		"a format other than JSON":             {"application/cloudevents+xml", nil, nil, "only JSON"},
		"damaged JSON":                         {structured, nil, []byte(`{`), "not acceptable JSON"},
		"an array":                             {structured, nil, []byte(`[]`), "not an object"},
		"null":                                 {structured, nil, []byte(`null`), "not an object"},
		"a batch that is null":                 {"application/cloudevents-batch+json", nil, []byte(`null`), "not an array"},
		"another version":                      {structured, nil, []byte(`{"specversion":"0.3","id":"7","source":"/s","type":"t"}`), "specversion"},
		"a version that is a number":           {structured, nil, []byte(`{"specversion":1.0,"id":"7","source":"/s","type":"t"}`), "not a string"},
		"no id":                                {structured, nil, []byte(`{"specversion":"1.0","source":"/s","type":"t"}`), "id is required"},
		"a blank id":                           {structured, nil, []byte(`{"specversion":"1.0","id":" ","source":"/s","type":"t"}`), "id is required"},
		"an extension that is an object":       {structured, nil, event(`,"x":{}`), "neither a string"},
		"a name with an underscore":            {structured, nil, event(`,"x_y":"1"`), "not of a-z"},
		"both kinds of data":                   {structured, nil, event(`,"data":1,"data_base64":"YQ=="`), "exclude"},
		"data_base64 that is none":             {structured, nil, event(`,"data_base64":"*"`), "not base64"},
		"data_base64 that is no string":        {structured, nil, event(`,"data_base64":1`), "not a string"},
		"a time that is none":                  {structured, nil, event(`,"time":"yesterday"`), "RFC 3339"},
		"an empty subject":                     {structured, nil, event(`,"subject":""`), "is empty"},
		"a schema without a scheme":            {structured, nil, event(`,"dataschema":"/a"`), "dataschema"},
		"a type of data that is none":          {structured, nil, event(`,"datacontenttype":"a b c"`), "datacontenttype"},
		"a control character":                  {structured, nil, event(`,"subject":"a\u0000b"`), "control character"},
		"an endless attribute":                 {structured, nil, event(`,"subject":"` + strings.Repeat("x", 5000) + `"`), "at most 4096"},
		"an attribute that is there twice":     {"", binary(map[string][]string{"Ce-Id": {"8"}}), nil, "twice"},
		"a header that is there twice":         {"", binary(map[string][]string{"ce-subject": {"8", "9"}}), nil, "twice"},
		"a header that is not percent-encoded": {"", binary(map[string][]string{"ce-subject": {"%zz"}}), nil, "percent-encoded"},
		"a header that is no UTF-8":            {"", binary(map[string][]string{"ce-subject": {"%ff"}}), nil, "UTF-8"},
		"JSON data that is damaged":            {"application/json", binary(nil), []byte(`{"a":1,"a":2}`), "there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := payload.DecodeCloudEvents(test.mediaType, test.mediaType, test.headers, test.body)
			require.ErrorContains(t, err, test.want)
			require.Empty(t, events)
		})
	}
}

func TestDataIsWhatTheSenderMeant(t *testing.T) {
	for members, want := range map[string]string{
		`,"data":{"n": 12345678901234567890}`:                                            `{"n": 12345678901234567890}`,
		`,"data":"text"`:                                                                 `"text"`,
		`,"data":"a\nb","datacontenttype":"text/plain"`:                                  "a\nb",
		`,"data":{"a":1},"datacontenttype":"application/vnd.x+json"`:                     `{"a":1}`,
		`,"data_base64":"AP8=","datacontenttype":"application/octet-stream"`:             "\x00\xff",
		`,"datacontenttype":"application/json","subject":null,"extension1":true,"ext":7`: "",
	} {
		events, err := payload.DecodeCloudEvents(structured, structured, nil, []byte(`{"specversion":"1.0","id":"7","source":"/s","type":"t"`+members+`}`))
		require.NoError(t, err, members)
		require.Equal(t, want, string(events[0].Data), members)
	}
}

// FuzzDecodeCloudEvents compares with the CloudEvents SDK: what is taken is an event to it too, and the same one.
func FuzzDecodeCloudEvents(f *testing.F) {
	for _, seed := range []string{
		`{"specversion":"1.0","id":"7","source":"/s","type":"t"}`,
		`{"specversion":"1.0","id":"7","source":"https://a.example/x?y#z","type":"t","time":"2026-01-02T03:04:05.678+01:00","subject":"s","data":{"a":[1]}}`,
		`{"data_base64":"AP8=","datacontenttype":"text/plain","specversion":"1.0","id":"7","source":"/s","type":"t","ext":"1"}`,
		`{"specversion":"1.0","id":"7","source":"urn:x","type":"t","data":"a\u00e9","datacontenttype":"text/plain; charset=utf-8","dataschema":"http://a/b"}`,
		`{"specversion":"1.0","id":null,"source":"%","type":"","subject":"","x":{},"time":"x"}`, `{}`, `[]`, `null`,
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := payload.DecodeCloudEvents(structured, structured, nil, body)
		if err != nil {
			return
		}

		require.Len(t, events, 1)
		ours := events[0]

		// The SDK refuses numbers that are no 32-bit integers, and data of other types that is no string: both are harmless.
		var members map[string]any
		require.NoError(t, json.Unmarshal(body, &members))

		for name, value := range members {
			if _, number := value.(float64); number || name == "data" && ours.DataType != "application/json" {
				return
			}
		}

		var theirs event.Event

		require.NoError(t, json.NewDecoder(bytes.NewReader(body)).Decode(&theirs), "%s", body)
		require.NoError(t, theirs.Validate(), "%s", body)

		var a resources.EventAttributes

		ours.Into(&a)
		require.Equal(t, theirs.ID(), ours.Attributes["id"])
		require.Equal(t, theirs.Type(), a.Type)
		require.Equal(t, theirs.Subject(), a.Subject)
		require.Equal(t, theirs.DataContentType(), ours.Attributes["datacontenttype"])
		require.True(t, theirs.Time().Equal(a.Time), "%s and %s", theirs.Time(), a.Time)

		if members["data"] != nil || members["data_base64"] != nil {
			require.Equal(t, strings.TrimSpace(string(theirs.Data())), strings.TrimSpace(string(ours.Data)))
		}
	})
}
