package definition

import (
	"fmt"
	"strings"

	"github.com/klauspost/compress/s2"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// maxPacked bounds a definition that is unpacked: libvirt itself takes no string above 4 MiB.
const maxPacked = 4 << 20

// Pack makes a definition small, for hypervisor.Domain: about a third of its text.
func Pack(text string) []byte { return s2.EncodeBetter(nil, []byte(text)) }

func unpack(packed []byte) (string, error) {
	n, err := s2.DecodedLen(packed)
	if err == nil && n > maxPacked {
		err = fmt.Errorf("it has %d bytes, at most %d are taken", n, maxPacked)
	}

	if err != nil {
		return "", fmt.Errorf("error unpacking a definition: %w", err)
	}

	text, err := s2.Decode(nil, packed)
	if err != nil {
		return "", fmt.Errorf("error unpacking a definition: %w", err)
	}

	return string(text), nil
}

// Again returns a definition that begins with the one that was seen last, has every owned field as spec has it, and from fresh what
// depends on the host. It fails where something of the last one would be lost.
func Again(last []byte, fresh *libvirtxml.Domain, spec *hypervisor.DomainSpec, host Host, mark Mark) (*libvirtxml.Domain, error) {
	text, err := unpack(last)
	if err != nil {
		return nil, err
	}

	doc, err := Parse(text)
	if err != nil {
		return nil, err
	}

	lost, err := Lost(text, doc)
	if err != nil {
		return nil, err
	}

	if len(lost) > 0 {
		return nil, fmt.Errorf("parts of it are not known to this program: %s", strings.Join(lost, ", "))
	}

	if osType := doc.OS.Type; osType == nil || osType.Type != fresh.OS.Type.Type || osType.Arch != fresh.OS.Type.Arch && fresh.OS.Type.Arch != "" {
		return nil, fmt.Errorf("it was made for another kind of machine")
	}

	doc.Name, doc.UUID, doc.ID = fresh.Name, fresh.UUID, nil
	doc.Devices.Emulator = fresh.Devices.Emulator

	if doc.Type != fresh.Type {
		doc.Type, doc.CPU = fresh.Type, fresh.CPU
	}

	Apply(doc, spec, host)

	return doc, SetMark(doc, mark)
}
