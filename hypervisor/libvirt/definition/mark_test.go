package definition_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"
	"pgregory.net/rapid"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
)

func TestCaseV8AMarkAddsNoElement(t *testing.T) {
	for name, vm := range map[string]string{
		"an ordinary name":         "web-1",
		"a name with a disk in it": `web"/></metadata><devices><disk type='file'><source file='/etc/shadow'/></disk></devices>`,
		"a name with quotes":       `a"b'c&d<e>`,
		"an empty name":            "",
	} {
		t.Run(name, func(t *testing.T) {
			doc := &libvirtxml.Domain{Name: "x"}
			mark := definition.Mark{Gateway: "home", VM: vm, Revision: 7}
			require.NoError(t, definition.SetMark(doc, mark))

			text, err := doc.Marshal()
			require.NoError(t, err)

			again, err := definition.Parse(text)
			require.NoError(t, err)
			require.Empty(t, again.Devices.Disks)

			got, ok := definition.MarkOf(again.Metadata)
			require.True(t, ok)
			require.Equal(t, mark, got)
		})
	}
}

func TestAMarkLeavesTheMetadataOfOthersAsItIs(t *testing.T) {
	const others = `<libosinfo:libosinfo xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0">` +
		`<libosinfo:os id="http://debian.org/debian/12"/></libosinfo:libosinfo>`

	doc := &libvirtxml.Domain{Metadata: &libvirtxml.DomainMetadata{XML: "\n    " + others + "\n  "}}
	require.NoError(t, definition.SetMark(doc, definition.Mark{Gateway: "home", VM: "a", Revision: 1}))
	require.NoError(t, definition.SetMark(doc, definition.Mark{Gateway: "home", VM: "b", Revision: 2}))

	require.Equal(t, 1, strings.Count(doc.Metadata.XML, others))
	require.Equal(t, 1, strings.Count(doc.Metadata.XML, hypervisor.MetadataNamespace))

	mark, ok := definition.MarkOf(doc.Metadata)
	require.True(t, ok)
	require.Equal(t, definition.Mark{Gateway: "home", VM: "b", Revision: 2}, mark)
}

func TestWhatIsNoMarkMarksNothing(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                             ``,
		"an element of another namespace":     `<managed xmlns="http://example.org" gateway="home" vm="a"/>`,
		"another element of our namespace":    `<other xmlns="` + hypervisor.MetadataNamespace + `" gateway="home"/>`,
		"a mark inside another's element":     `<x xmlns="http://example.org"><managed xmlns="` + hypervisor.MetadataNamespace + `" gateway="home"/></x>`,
		"a mark in a comment":                 `<!-- <managed xmlns="` + hypervisor.MetadataNamespace + `" gateway="home"/> -->`,
		"text that is no XML":                 `<managed`,
		"a mark whose revision is no number":  `<managed xmlns="` + hypervisor.MetadataNamespace + `" gateway="home" revision="x"/>`,
		"an element without a known prefix":   `<gateway:managed gateway="home"/>`,
		"text that only looks like a mark":    `&lt;managed xmlns="` + hypervisor.MetadataNamespace + `"/&gt;`,
		"an unclosed element before the mark": `<a><managed xmlns="` + hypervisor.MetadataNamespace + `" gateway="home"/>`,
	} {
		t.Run(name, func(t *testing.T) {
			mark, _ := definition.MarkOf(&libvirtxml.DomainMetadata{XML: text})
			require.Empty(t, mark.VM)

			if name != "a mark whose revision is no number" {
				require.Empty(t, mark.Gateway)
			}
		})
	}
}

func TestAnyMarkComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mark := definition.Mark{
			Gateway:  rapid.StringMatching(`[ -~äß世]{0,20}`).Draw(t, "gateway"),
			VM:       rapid.StringMatching(`[ -~äß世]{0,20}`).Draw(t, "vm"),
			Revision: rapid.Int64().Draw(t, "revision"),
		}
		doc := &libvirtxml.Domain{}
		require.NoError(t, definition.SetMark(doc, mark))

		got, ok := definition.MarkOf(doc.Metadata)
		require.True(t, ok)
		require.Equal(t, mark, got)
	})
}
