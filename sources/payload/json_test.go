package payload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gateway/sources/payload"
)

func TestCaseS13WhatEncodingJSONWouldMendIsRefused(t *testing.T) {
	for body, want := range map[string]string{
		"{\"a\":\"\xff\"}":          "invalid UTF-8",
		`{"a":1,"b":{"a":2},"a":3}`: `the key "a" is there twice`,
		`{"a":1,"\u0061":2}`:        `the key "a" is there twice`,
		strings.Repeat("[", 10_001): "nested deeper than 128 levels",
		``:                          "empty or cut off",
		`{"a":`:                     "empty or cut off",
		`"\u12`:                     "empty or cut off",
		`{"a":1} x`:                 "more after the value",
		`{"a":1,}`:                  "at byte 7",
		`[1,]`:                      "at byte 3",
		`[01]`:                      "at byte 2",
		`[1.]`:                      "at byte 3",
		`[+1]`:                      "at byte 1",
		`[NaN]`:                     "at byte 1",
		`{'a':1}`:                   "at byte 1",
		"[\"a\tb\"]":                "control characters",
		`["\x"]`:                    "at byte 3",
		"\ufeff{}":                  "at byte 0",
		`{"a" 1}`:                   "a colon",
		`nulL`:                      "at byte 3",
	} {
		require.ErrorContains(t, payload.CheckJSON([]byte(body)), want, "%.40q", body)
	}
}

func TestCaseS13JSONThatIsRightIsTaken(t *testing.T) {
	for _, body := range []string{
		`12345678901234567890`, `-0.5e+10`, `"\ud800"`, `{"a":{"a":[{"a":1},{"a":2}]}}`, `{"a":1,"A":2}`, " \t\r\n[]\n", `{"":1}`,
		strings.Repeat("[", 128) + strings.Repeat("]", 128), `"é\n\"\\\/"`, `true`, `null`, `{"ключ":"значение"}`,
	} {
		require.NoError(t, payload.CheckJSON([]byte(body)), "%.40q", body)
	}
}

func TestAnObjectWithManyKeysIsCheckedInReasonableTime(t *testing.T) {
	var b strings.Builder

	b.WriteByte('{')

	for i := range 100_000 {
		fmt.Fprintf(&b, `"k%d":{"x":%d},`, i, i)
	}

	require.NoError(t, payload.CheckJSON([]byte(b.String()+`"last":0}`)))
	require.ErrorContains(t, payload.CheckJSON([]byte(b.String()+`"k99999":0}`)), "there twice")
	require.ErrorContains(t, payload.CheckJSON([]byte(b.String()+`"k0":0}`)), "there twice")
}

func TestABodyOfTheUsualSizeCostsNextToNoMemory(t *testing.T) {
	body := pushBody()
	require.NoError(t, payload.CheckJSON(body)) // warm

	// None, but where the pool was emptied, as the race detector does at random; encoding/json's decoder makes 1,500.
	require.Less(t, testing.AllocsPerRun(100, func() { _ = payload.CheckJSON(body) }), 10.0)
}

// pushBody is as long, and as nested, as what GitHub sends for a push.
func pushBody() []byte {
	repository := map[string]any{}
	for i := range 60 {
		repository[fmt.Sprintf("some_url_%d", i)] = fmt.Sprintf("https://api.example.org/repos/octo/demo/%d{/sha}", i)
	}

	commits := []any{}
	for i := range 10 {
		commits = append(commits, map[string]any{"id": fmt.Sprint(i), "added": []string{"a", "b"}, "author": map[string]any{"name": "Mona", "email": "m@example.org"}})
	}

	body, err := json.Marshal(map[string]any{"ref": "refs/heads/main", "repository": repository, "commits": commits, "size": 12345678901})
	if err != nil {
		panic(err)
	}

	return body
}

func BenchmarkCheckJSON(b *testing.B) {
	body := pushBody()

	b.Run("CheckJSON", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()

		for b.Loop() {
			if err := payload.CheckJSON(body); err != nil {
				b.Fatal(err)
			}
		}
	})

	b.Run("limit: json.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(body)))

		for b.Loop() {
			if !json.Valid(body) {
				b.Fatal("invalid")
			}
		}
	})

	b.Run("peer: json.Decoder", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()

		for b.Loop() {
			if _, err := readValue(json.NewDecoder(bytes.NewReader(body)), 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

var errTwice = errors.New("twice")

// readValue reads a value token by token and returns the depth of the deepest array or object: the oracle.
func readValue(decoder *json.Decoder, depth int) (deepest int, err error) {
	token, err := decoder.Token()
	if err != nil {
		return depth, err
	}

	delim, ok := token.(json.Delim)
	if !ok {
		return depth, nil
	}

	depth++
	deepest = depth
	seen := map[string]bool{}

	for decoder.More() {
		if delim == '{' {
			key, err := decoder.Token()
			if err != nil {
				return deepest, err
			}

			name, _ := key.(string)
			if seen[name] {
				return deepest, errTwice
			}

			seen[name] = true
		}

		below, err := readValue(decoder, depth)
		if err != nil {
			return deepest, err
		}

		deepest = max(deepest, below)
	}

	_, err = decoder.Token()

	return deepest, err
}

func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e3,true,false,null,"x\u0041\n"],"b":{"a":{}}}`, `{"a":1,"\u0061":2}`, `[`, `"\ud800\udc00"`, `{"a":1}x`, "\xff",
		`{"a"`, `-`, `0.`, `1e`, `[1,]`, "\"\x01\"", strings.Repeat("[", 129) + strings.Repeat("]", 129), string(pushBody()),
		`{"\ud800":1,"\ud801":2}`, `""""`, `{"a":1 "b":2}`, "[\v]", `tru`, `{"":0,"":1}`,
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, body []byte) {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()

		valid := utf8.Valid(body) && json.Valid(body)

		if valid {
			deepest, err := readValue(decoder, 0)
			if err == nil {
				_, err = decoder.Token()
				require.ErrorIs(t, err, io.EOF)

				err = nil
			}

			valid = err == nil && deepest <= 128
		}

		err := payload.CheckJSON(body)
		require.Equal(t, valid, err == nil, "%q: %v", body, err)
	})
}
