package payload_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/sources/payload"
)

func TestAMemberIsFoundWhereverItStands(t *testing.T) {
	const value = ` {"a": "x", "deep": {"list": [1, {"n": -2.5e3}, "}]\""], "q\u0041": "\u00e9"}, "t": true, "o": {}, "z": null} `

	for path, want := range map[string]string{
		"a": "x", "deep.list.0": "1", "deep.list.1.n": "-2.5e3", "deep.list.2": `}]"`, "deep.qA": "é",
		"t": "", "o": "", "z": "", "missing": "", "a.b": "", "deep.list.3": "", "deep.list.x": "", "deep": "",
	} {
		require.Equal(t, want, payload.Lookup([]byte(value), strings.Split(path, ".")...), path)
	}
}

// FuzzLookup compares with encoding/json on what CheckJSON takes, and asks that nothing else makes it fail.
func FuzzLookup(f *testing.F) {
	f.Add([]byte(`{"a":{"b":["x",2]}}`), "a.b.0")
	f.Add([]byte(`{"a":"\\\"","b":1}`), "b")
	f.Add([]byte(`{"":1,"a":[[],{}]}`), "")
	f.Add([]byte(`{`), "a")

	f.Fuzz(func(t *testing.T, value []byte, path string) {
		steps := strings.Split(path, ".")
		got := payload.Lookup(value, steps...)

		if payload.CheckJSON(value) != nil {
			return
		}

		var decoded any

		decoder := json.NewDecoder(strings.NewReader(string(value)))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&decoded))
		require.Equal(t, expected(decoded, steps), got)
	})
}

func expected(value any, steps []string) string {
	if len(steps) == 0 {
		switch v := value.(type) {
		case string:
			return v
		case json.Number:
			return v.String()
		}

		return ""
	}

	switch v := value.(type) {
	case map[string]any:
		if inner, ok := v[steps[0]]; ok {
			return expected(inner, steps[1:])
		}
	case []any:
		for i := range v {
			if number, _ := json.Marshal(i); string(number) == steps[0] {
				return expected(v[i], steps[1:])
			}
		}
	}

	return ""
}
