package main

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTableThatWasWrittenIsWhatTheNextOneComparesWith(t *testing.T) {
	rows := []row{
		{name: "a", ours: "1 s", limit: "0.5 s", ratio: 2, goal: "under 3", ok: "yes"},
		{name: "no ratio", ours: "skipped: no root"},
	}
	path := filepath.Join(t.TempDir(), "RESULTS.md")

	none, err := readResults(path)
	require.NoError(t, err)
	require.NoError(t, writeResults(path, format(rows, none.ratios), none))

	before, err := readResults(path)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "2.00", "no ratio": ""}, before.ratios)

	require.NoError(t, writeResults(path, format(rows[1:], before.ratios), before))

	kept, err := readResults(path)
	require.NoError(t, err)
	require.Equal(t, before.ratios, kept.ratios, "what was not measured stays")

	rows[0].ratio = 3
	require.Contains(t, format(rows, before.ratios), "| a | 1 s | 0.5 s | 3.00 | 2.00 (+50 %) | under 3 | yes |")

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(text), filepath.Dir(path), "no path of this machine is committed")
}

func TestAPushIsWhatTheServersExpect(t *testing.T) {
	body := pushBody()
	require.InDelta(t, pushBytes, len(body), 100)
	require.True(t, json.Valid(body))

	mac := hmac.New(sha256.New, []byte(pushSecret))
	mac.Write(body)
	require.Len(t, mac.Sum(nil), 32)
}

func TestAnAnswerIsReadToItsEnd(t *testing.T) {
	answers := bufio.NewReader(strings.NewReader("HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"))

	for _, want := range []int{202, 503} {
		status, err := readAnswer(answers)
		require.NoError(t, err)
		require.Equal(t, want, status)
	}

	_, err := readAnswer(bufio.NewReader(bytes.NewReader(nil)))
	require.Error(t, err)
}
