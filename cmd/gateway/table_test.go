package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestColumnsAreAlignedAlsoForRowsThatComeLater(t *testing.T) {
	var out strings.Builder

	table := newTable(&out, "NAME", "STATE", "HOST")
	table.print([]string{"web-1", "läuft", ""}, []string{"w", "", "a"})
	table.print([]string{"db", "paused", "a"})
	require.Equal(t, ""+
		"NAME    STATE   HOST\n"+
		"web-1   läuft   -\n"+
		"w       -       a\n"+
		"db      paused   a\n", out.String())
}

func TestWhatCameFromOutsideCanNotSteerTheTerminal(t *testing.T) {
	require.Equal(t, "a b  [31mc", cell("a\nb \x1b[31mc\x7f"))
	require.Equal(t, "-", cell(" \t"))
}

func TestAnAgeIsInItsLargestUnit(t *testing.T) {
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		-time.Minute:                    "0s",
		0:                               "0s",
		59*time.Second + 999:            "59s",
		time.Minute:                     "1m",
		59*time.Minute + 59*time.Second: "59m",
		23 * time.Hour:                  "23h",
		4*24*time.Hour + time.Hour:      "4d",
	} {
		require.Equal(t, want, age(now.Add(-ago), now))
	}

	require.Empty(t, age(time.Time{}, now))
	require.Equal(t, "in 5m", until(now.Add(5*time.Minute), now))
	require.Equal(t, "5m ago", ago(now.Add(-5*time.Minute), now))
	require.Empty(t, until(time.Time{}, now)+ago(time.Time{}, now))
}
