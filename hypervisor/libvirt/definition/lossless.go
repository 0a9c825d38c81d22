package definition

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// Lost returns what of a definition would be lost by writing it back: elements and attributes that a newer libvirt knows
// and this program does not. A definition that loses something must not be redefined.
func Lost(original string, doc *libvirtxml.Domain) ([]string, error) {
	again, err := doc.Marshal()
	if err != nil {
		return nil, fmt.Errorf("error writing the definition of domain %q: %w", doc.Name, err)
	}

	before, err := census(original)
	if err != nil {
		return nil, fmt.Errorf("error reading the definition of domain %q: %w", doc.Name, err)
	}

	after, err := census(again)
	if err != nil {
		return nil, fmt.Errorf("error reading the definition of domain %q: %w", doc.Name, err)
	}

	var lost []string

	for path, n := range before {
		if after[path] < n {
			lost = append(lost, path)
		}
	}

	slices.Sort(lost)

	return lost, nil
}

// census counts the elements and attributes of a document by their path.
func census(document string) (map[string]int, error) {
	decoder := xml.NewDecoder(strings.NewReader(document))
	counts := map[string]int{}

	var path []string

	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return counts, nil
		}

		if err != nil {
			return nil, err
		}

		switch t := token.(type) {
		case xml.StartElement:
			path = append(path, t.Name.Local)
			here := strings.Join(path, "/")
			counts[here]++

			for _, a := range t.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					counts[here+"/@"+a.Name.Local]++
				}
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}
