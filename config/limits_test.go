package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func TestCaseS26EncodingsAreReadOrRefusedWithAPosition(t *testing.T) {
	text := vmText("a", "description: é€😀", "cpus: 2") + "---\n" + vmText("b", "cpus: 3")

	utf16 := func(bigEndian bool) []byte {
		out := []byte{0xFF, 0xFE}
		if bigEndian {
			out = []byte{0xFE, 0xFF}
		}

		for _, r := range text {
			units := []rune{r}
			if r > 0xFFFF {
				units = []rune{0xD800 + (r-0x10000)>>10, 0xDC00 + (r-0x10000)&0x3FF}
			}

			for _, u := range units {
				if bigEndian {
					out = append(out, byte(u>>8), byte(u))
				} else {
					out = append(out, byte(u), byte(u>>8))
				}
			}
		}

		return out
	}

	for name, data := range map[string][]byte{
		"UTF-8":                        []byte(text),
		"UTF-8 with a byte order mark": []byte("\ufeff" + text),
		"CRLF":                         []byte(strings.ReplaceAll(text, "\n", "\r\n")),
		"CR":                           []byte(strings.ReplaceAll(text, "\n", "\r")),
		"UTF-16, little endian":        utf16(false),
		"UTF-16, big endian":           utf16(true),
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := Decode("f.yaml", data)
			require.NoError(t, err)
			require.Len(t, documents, 2)
			require.Equal(t, "é€😀", documents[0].Resource.(*resources.VMConfig).TypedSpec().Description)
			require.Equal(t, 3, documents[1].Resource.(*resources.VMConfig).TypedSpec().CPUs)
		})
	}

	for name, test := range map[string]struct{ text, want string }{
		"Latin-1":             {"# comment\na: caf\xe9\n", "f.yaml:2:7: byte 0xe9 is not UTF-8: save the file as UTF-8"},
		"NUL":                 {"é: b\nab\x00c", "f.yaml:2:3: a NUL byte: this is not text in UTF-8 (UTF-16 needs a byte order mark)"},
		"a control character": {"a: \"é\x01\"\n", "f.yaml:1:6: control character U+0001 is not allowed: in a quoted string write it as an escape"},
		"UTF-16 that is odd":  {"\xff\xfea\x00b", "f.yaml:1:2: byte 0xff is not UTF-8: save the file as UTF-8"},
		"a lone surrogate":    {"\xff\xfea\x00\x00\xd8b\x00", "f.yaml:1:2: byte 0xff is not UTF-8: save the file as UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{test.want}, faults(t, test.text))
		})
	}
}

// bomb stands for 9^9 scalars in about 400 bytes.
func bomb() string {
	text := "apiVersion: gateway/v1alpha1\nkind: Trigger\na: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'j'; c++ {
		text += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}

	return text
}

func TestCaseS27WhatWouldExplodeIsRefusedAtOnce(t *testing.T) {
	for name, text := range map[string]string{
		"an alias bomb":                bomb(),
		"an anchor inside itself":      "a: &a {b: *a, c: *a}\n",
		"20,000 lists in each other":   strings.Repeat("[", 20_000),
		"20,000 dashes":                strings.Repeat("- ", 20_000),
		"20,000 JSON objects":          strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
		"65 levels of JSON":            strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65),
		"long text, a million times":   "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n",
		"blocks above flow, 70 levels": strings.Repeat("- ", 40) + strings.Repeat("[", 30) + strings.Repeat("]", 30),
	} {
		t.Run(name, func(t *testing.T) {
			elapsed := stopwatch(t)
			lines := faults(t, text)
			// The case asks for 100 ms; the race detector takes its share of this.
			require.Less(t, elapsed(), time.Second)
			require.Regexp(t, `^f\.yaml:[0-9]+:[0-9]+: (aliases stand for|nested more than)`, lines[0])
		})
	}
}

func TestLimitsOfAFile(t *testing.T) {
	require.Contains(t, faults(t, strings.Repeat("# 23456789\n", 4<<20/11+1))[0], "bytes, at most 4 MiB are allowed")
	require.Equal(t, []string{"f.yaml:20001:1: more than 10000 documents"}, faults(t, strings.Repeat("---\n# x\n", 10_001)))

	many := faults(t, strings.Repeat("---\nx: 1\n", 200))
	require.Len(t, many, maxErrors)
	require.Regexp(t, `^f\.yaml:[0-9]+:1: more than 99 faults`, many[maxErrors-1])
}

func TestAFloodOfFaultsIsCutShort(t *testing.T) {
	for name, text := range map[string]string{
		"unknown fields": "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: a}\nspec:\n" + numbered("  memori%d: 1\n", 20_000),
		"wrong types":    vmText("a", "placement:", "  selector:") + numbered("      k%d: 1\n", 20_000),
		"bad elements":   vmText("a", "disks:") + numbered("  - {name: A%d, size: x}\n", 20_000),
		"duplicate keys": vmText("a") + strings.Repeat("  cpus: 1\n", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			elapsed := stopwatch(t)
			require.Len(t, faults(t, text), maxErrors)
			// Reading this takes well below a second, with the race detector on a busy machine some; comparing each fault with
			// all others would take minutes.
			require.Less(t, elapsed(), 30*time.Second)
		})
	}
}

// numbered repeats the line with rising numbers.
func numbered(line string, n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, line, i)
	}

	return out.String()
}
