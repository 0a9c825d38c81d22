package definition

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// MarkPrefix is the XML prefix that libvirt gives the mark's namespace.
const MarkPrefix = "gateway"

// Mark says whose a domain is.
type Mark struct {
	Gateway  string
	VM       string
	Revision int64
}

// markXML is the element in a domain's metadata that carries the mark. It is encoded by encoding/xml, because libvirtxml
// and libvirt take metadata as raw text: a name that was pasted into it could add elements.
type markXML struct {
	XMLName  xml.Name
	Gateway  string `xml:"gateway,attr"`
	VM       string `xml:"vm,attr"`
	Revision int64  `xml:"revision,attr"`
}

const markElement = "managed"

// Element returns the mark as a metadata element in its own namespace.
func (m Mark) Element() (string, error) {
	return m.encode(xml.Name{Space: hypervisor.MetadataNamespace, Local: markElement})
}

// Content returns the mark as virDomainSetMetadata takes it, which adds the namespace itself.
func (m Mark) Content() (string, error) {
	return m.encode(xml.Name{Local: markElement})
}

func (m Mark) encode(name xml.Name) (string, error) {
	text, err := xml.Marshal(markXML{XMLName: name, Gateway: m.Gateway, VM: m.VM, Revision: m.Revision})
	if err != nil {
		return "", fmt.Errorf("error encoding the mark: %w", err)
	}

	return string(text), nil
}

// MarkOf returns the mark in a domain's metadata. Metadata without one, or that can't be read, carries none.
func MarkOf(metadata *libvirtxml.DomainMetadata) (Mark, bool) {
	if metadata == nil {
		return Mark{}, false
	}

	var found markXML

	_, err := eachElement(metadata.XML, func(start xml.StartElement, text string) bool {
		return !isMark(start.Name) || xml.Unmarshal([]byte(text), &found) != nil
	})
	if err != nil || !isMark(found.XMLName) {
		return Mark{}, false
	}

	return Mark{Gateway: found.Gateway, VM: found.VM, Revision: found.Revision}, true
}

// SetMark puts the mark into a domain's metadata, in place of one that is there. What others have in it stays as it is.
func SetMark(doc *libvirtxml.Domain, mark Mark) error {
	element, err := mark.Element()
	if err != nil {
		return err
	}

	var others string

	if doc.Metadata != nil {
		others, err = eachElement(doc.Metadata.XML, func(start xml.StartElement, _ string) bool { return !isMark(start.Name) })
		if err != nil {
			return fmt.Errorf("error reading the metadata of domain %q: %w", doc.Name, err)
		}
	}

	doc.Metadata = &libvirtxml.DomainMetadata{XML: others + element}

	return nil
}

func isMark(name xml.Name) bool {
	return name.Space == hypervisor.MetadataNamespace && name.Local == markElement
}

// eachElement calls keep with every top-level element of an XML fragment and its text, and returns the text of those that
// it wants to keep.
func eachElement(fragment string, keep func(start xml.StartElement, text string) bool) (string, error) {
	// The decoder wants one root, and its offsets count from there.
	const open, end = "<r>", "</r>"

	document := open + fragment + end
	decoder := xml.NewDecoder(strings.NewReader(document))

	var (
		kept  strings.Builder
		depth int
		first xml.StartElement
		begin int64
	)

	for {
		before := decoder.InputOffset()

		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return kept.String(), nil
		}

		if err != nil {
			return "", err
		}

		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth == 2 {
				first, begin = t.Copy(), before
			}
		case xml.EndElement:
			if depth == 2 {
				if text := document[begin:decoder.InputOffset()]; keep(first, text) {
					kept.WriteString(text)
				}
			}

			depth--
		}
	}
}
