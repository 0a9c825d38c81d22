package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func TestJSONIsOneObjectOrAnArrayOfThem(t *testing.T) {
	one := `{"apiVersion": "gateway/v1alpha1", "kind": "VM", "metadata": {"name": "a"}, "spec": {"description": "\ud83d\ude00", "adopt": null}}`
	documents, err := DecodeJSON("webhook:inbox", []byte(one))
	require.NoError(t, err)
	require.Len(t, documents, 1)
	require.Equal(t, "😀", documents[0].Resource.(*resources.VMConfig).TypedSpec().Description)

	documents, err = DecodeJSON("webhook:inbox", []byte("[\n"+one+",\n"+strings.Replace(one, `"a"`, `"b"`, 1)+"]"))
	require.NoError(t, err)
	require.Len(t, documents, 2)
	require.Equal(t, []int{3, 1}, []int{documents[1].Line, documents[1].Column})

	documents, err = DecodeJSON("webhook:inbox", []byte("[]"))
	require.NoError(t, err)
	require.Empty(t, documents)

	for text, want := range map[string]string{
		"":       "w:1:1: a JSON object, or an array of objects, is needed",
		"3":      "w:1:1: a JSON object, or an array of objects, is needed",
		"a: b":   "w:1:1: a JSON object, or an array of objects, is needed",
		"{a: b}": "w:1:2: invalid character 'a' looking for beginning of object key string",
		"[null]": "w:1:2: a document is a mapping with apiVersion, kind, metadata and spec, not a null",
		"[\n" + strings.Replace(one, `"spec": {`, "\n\"spec\": {\"cpu\": 1, ", 1) + "]": `w:3:10: unknown field "cpu" in spec: did you mean "cpus"?`,
		`{"kind": "VM",` + one[1:]:                                 `w:1:49: "kind" is already given in line 1`,
		strings.Replace(one, `"name"`, "\"\xff\": 1, \"name\"", 1): "w:1:64: byte 0xff is not UTF-8: save the file as UTF-8",
	} {
		documents, err := DecodeJSON("w", []byte(text))
		require.Nil(t, documents)
		require.EqualError(t, err, want, text)
	}
}

func TestJSONTypedFieldsKeepTheirValue(t *testing.T) {
	documents, err := Decode("f.yaml", []byte(`apiVersion: gateway/v1alpha1
kind: Trigger
metadata: {name: a}
spec:
  on: {source: file}
  do:
    - publish:
        subject: a
        data: {z: 1.10, a: [12345678901234567890, 1e400, +.5, 0x1F, 0o17, 1_000, 2026-01-01], t: True, n: ~, s: NO, html: "<&>", q: "${event.data}", e: }
`))
	require.NoError(t, err)

	data := documents[0].Resource.(*resources.Trigger).TypedSpec().Do[0].Publish.Data
	require.Equal(t, `{"a":[12345678901234567890,1e400,0.5,31,15,"1_000","2026-01-01"],"e":null,"html":"<&>","n":null,"q":"${event.data}","s":"NO","t":true,"z":1.10}`, string(data))

	for _, number := range []string{"010", ".inf", ".nan"} {
		text := "apiVersion: gateway/v1alpha1\nkind: Trigger\nmetadata: {name: a}\nspec: {on: {source: file}, do: [{publish: {subject: a, data: [" + number + "]}}]}\n"
		require.Regexp(t, `^f\.yaml:4:[0-9]+: spec\.do\[0\]\.publish\.data: "`+number+`" is a number that JSON can't hold`, faults(t, text)[0])
	}
}

func TestDeliverHasAShortAndALongForm(t *testing.T) {
	decode := func(deliver string) string {
		return "apiVersion: gateway/v1alpha1\nkind: Subscription\nmetadata: {name: a}\nspec: {subject: a, stream: S, deliver: " + deliver + "}\n"
	}

	for text, want := range map[string]resources.Deliver{
		"all": {Policy: "all"}, "last": {Policy: "last"}, "null": {Policy: "new"}, "{since: 1h}": {Policy: "since", Since: resources.Duration(time.Hour)},
	} {
		documents, err := Decode("f.yaml", []byte(decode(text)))
		require.NoError(t, err)
		require.Equal(t, want, documents[0].Resource.(*resources.Subscription).TypedSpec().Deliver)
	}

	for text, want := range map[string]string{
		"first":              `spec.deliver: "first" is not one of new, all, last and {since: DURATION}`,
		"{since: 0s}":        `spec.deliver: {since: DURATION} with a duration above zero is needed, or one of new, all, last`,
		"{policy: all}":      `unknown field "policy" in spec.deliver: known are since`,
		"{since: yesterday}": `spec.deliver.since: "yesterday" is not a duration: write a number and a unit, as 250ms, 60s or 2h30m`,
	} {
		require.Contains(t, faults(t, decode(text))[0], want)
	}
}

func TestMergeKeysAndAliasesAreFollowed(t *testing.T) {
	spec := decodeVM(t, vmText("a", "disks:", "- &base {name: root, size: 1GiB, onDelete: remove}", "- {<<: *base, name: data}", "- {<<: [{size: 2GiB}, *base], name: more}"))
	require.Equal(t, []resources.Disk{
		{Name: "root", Size: resources.GiB, OnDelete: "remove"},
		{Name: "data", Size: resources.GiB, OnDelete: "remove"},
		{Name: "more", Size: 2 * resources.GiB, OnDelete: "remove"},
	}, spec.Disks)

	require.Equal(t, []string{"f.yaml:6:19: << needs a mapping or a list of mappings, not a string"}, faults(t, vmText("a", "placement: {<<: x}"))[:1])
	require.Equal(t, []string{"f.yaml:6:9: unknown anchor 'x' referenced"}, faults(t, vmText("a", "cpus: *x")))
}

// TestDamagedExamplesHaveFaultsWithPositions damages the examples in every place: each result is right or has faults
// with positions.
func TestDamagedExamplesHaveFaultsWithPositions(t *testing.T) {
	for path, text := range exampleFiles(t) {
		for i := 0; i < len(text); i += 31 {
			damaged := append(append([]byte{}, text[:i]...), text[min(i+3, len(text)):]...)

			for _, data := range [][]byte{text[:i], damaged} {
				if _, err := Decode(path, data); err != nil {
					requirePlaced(t, path, err)
				}
			}
		}
	}
}

func BenchmarkDecodeOfFiveThousandVMs(b *testing.B) {
	var text strings.Builder
	for i := range 5000 {
		text.WriteString("---\n" + vmText(fmt.Sprintf("vm-%d", i), "cpus: 2", "memory: 1GiB", "disks:", "- {name: root, size: 10GiB, image: debian-12}", "interfaces:", "- network: lan"))
	}

	data := []byte(text.String())
	b.SetBytes(int64(len(data)))

	for b.Loop() {
		documents, err := Decode("f.yaml", data)
		require.NoError(b, err)
		require.Len(b, documents, 5000)
	}
}
